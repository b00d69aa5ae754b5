"""Configuration of `tensorflow_model_server` for an exported model."""

import json
import os
from pathlib import Path

from keras_transformer.translation.compiled_search import BATCH_SIZES
from keras_transformer.utils.files import whole_file

MOST_ROWS = BATCH_SIZES[-1]
"""Of a batch of the model server. More would be of no use to a compiled search, which takes them in
parts of so many, and fewer would refuse the requests that warm it up."""

BATCHING = f"""\
# How the model server joins requests into batches (--enable_batching). A batch is answered when its
# longest translation has ended. A request of more rows than max_batch_size is refused. With fewer
# than {MOST_ROWS} a compiled model is not loaded: its warm-up has as many.
max_batch_size {{ value: {MOST_ROWS} }}
batch_timeout_micros {{ value: 5000 }}
max_enqueued_batches {{ value: 100 }}
"""

_MODELS = """\
# For tensorflow_model_server --model_config_file. EDIT base_path: where the server finds this
# model's directory, the one over its numbered versions. /models is usual in a container.
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
# For tensorflow_model_server --monitoring_config_file. Prometheus reads this path of the REST port.
prometheus_config {
  enable: true
  path: "/monitoring/prometheus/metrics"
}
"""


def write_serving_files(path: Path) -> None:
    """Write path/serving for a model's directory; a file that is there is the operator's."""
    directory, name = path / "serving", Path(os.path.abspath(path)).name
    directory.mkdir(exist_ok=True)
    names = {"name": json.dumps(name), "base_path": json.dumps(f"/models/{name}")}
    files = {
        "batching.config": BATCHING,
        "models.config": _MODELS % names,
        "monitoring.config": _MONITORING,
    }
    for file, text in files.items():
        if not (directory / file).exists():
            with whole_file(directory / file) as temporary:
                temporary.write_text(text, encoding="utf-8")
