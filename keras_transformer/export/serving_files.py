"""Configuration of model servers for an exported model."""

import json
import os
from pathlib import Path

from keras_transformer.translation.compiled_search import batch_sizes
from keras_transformer.utils.files import whole_file

_BATCHING = """\
# How the model server combines requests into batches (--enable_batching). A batch is answered when
# its longest translation is finished. Requests of more than max_batch_size rows are refused. Values
# below %(rows)d keep a compiled model from loading: its warm-up requests have %(rows)d rows.
max_batch_size { value: %(rows)d }
batch_timeout_micros { value: 5000 }
max_enqueued_batches { value: 100 }
"""

_MODELS = """\
# For serve --model-config-file, and tensorflow_model_server --model_config_file. EDIT base_path if
# the server sees this directory elsewhere; in a container it is usually below /models. To serve
# several models, add a config { } for each.
model_config_list {
  config {
    name: %(name)s
    base_path: %(base_path)s
    model_platform: "tensorflow"
    model_version_policy { latest { num_versions: 1 } }
  }
}
"""

_MONITORING = """\
# For tensorflow_model_server --monitoring_config_file. Prometheus reads this path at the REST port.
prometheus_config {
  enable: true
  path: "/monitoring/prometheus/metrics"
}
"""


def batching_parameters(device: str) -> str:
    """Return the batching parameters of a model for a device, "cpu" or "gpu".

    The model server's maximum batch size is that of a compiled search, which splits larger batches
    into parts of this size. A smaller maximum would refuse its warm-up requests.
    """
    return _BATCHING % {"rows": batch_sizes(1, device)[-1]}


def write_serving_files(path: Path, device: str) -> None:
    """Write the files in path/serving that do not exist yet.

    Args:
        path: The model's directory, such as saved_models/NAME. Files in path/serving belong to the
            operator, who may have edited them.
        device: The device of the model, "cpu" or "gpu".
    """
    directory, base = path / "serving", os.path.abspath(path)
    directory.mkdir(exist_ok=True)
    names = {"name": json.dumps(os.path.basename(base)), "base_path": json.dumps(base)}
    files = {
        "batching.config": batching_parameters(device),
        "models.config": _MODELS % names,
        "monitoring.config": _MONITORING,
    }
    for file, text in files.items():
        if not (directory / file).exists():
            with whole_file(directory / file) as temporary:
                temporary.write_text(text, encoding="utf-8")
