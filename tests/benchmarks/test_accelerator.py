"""The accelerator benchmark on the CPU: static batches, and the whole report."""

from collections import Counter

import numpy as np
import pytest

from keras_transformer.data.batching import rows_per_batch
from tests.helpers.tiny import run_python, toy_pairs

REPORT = """
import os
import sys
from dataclasses import replace

os.environ |= {"KERAS_BACKEND": "jax", "JAX_PLATFORMS": "cpu"}
os.environ["JAX_DISABLE_MOST_OPTIMIZATIONS"] = "1"
from benchmarks import accelerator
from keras_transformer.presets import PRESETS, Preset

if __name__ == "__main__":
    model = replace(PRESETS["tiny"].model, num_layers=1, d_model=16, d_ff=24, num_heads=2)
    accelerator.PRESETS = {"tiny": Preset(model)}
    accelerator.installed = lambda: [accelerator.OURS, accelerator.EAGER]
    accelerator.main(sys.argv[1:])
    assert "tensorflow" not in sys.modules
    sizes = {"vocab_size": 150, "batch_tokens": 200, "count": 1000, "shapes": 4}
    batches = accelerator.static_batches(accelerator.read_pairs(*sys.argv[2:5:2]), **sizes)
    for source, labels in batches:
        print("shape", source.shape[0], source.shape[1], labels.shape[1])
    print("rows", sum((source[:, 0] > 0).sum() for source, _ in batches))
"""


@pytest.mark.slow
@pytest.mark.parity
def test_ours_and_pytorch_train_on_few_shapes_without_tensorflow(parallel, tmp_path):
    short = toy_pairs(300)
    fours = zip(*[iter(short)] * 4, strict=True)
    pairs = short + [tuple(map(" ".join, zip(*four, strict=True))) for four in fours]
    script = tmp_path / "report.py"
    script.write_text(REPORT)
    options = "--models tiny --precision float32 --vocab-size 150 --batch-tokens 200 --batches 2"
    lines = run_python(
        *(script, *parallel(pairs), *options.split()),
        *"--repeats 1 --torch-device cpu --peak-size 64".split(),
    ).stdout.splitlines()
    rows = [line.split(" | ") for line in lines if line.startswith("| tiny")]
    assert [row[1] for row in rows] == ["ours (JAX)", "PyTorch"]
    losses = [float(row[7]) for row in rows]
    np.testing.assert_allclose(losses, np.log(150), rtol=0.3)
    shapes = Counter(line for line in lines if line.startswith("shape"))
    assert 1 < len(shapes) <= 4
    for shape in shapes:
        count, source, labels = map(int, shape.split()[1:])
        assert source == labels and source % 8 == 0
        assert count == rows_per_batch(200, source, is_static=True)
    assert f"rows {len(pairs)}" in lines
