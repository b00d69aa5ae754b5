import shutil

import pytest
import tensorflow as tf


@pytest.fixture
def needs_gcc():
    if shutil.which("gcc") is None:
        pytest.skip("the host is built with gcc")


@pytest.fixture
def parallel(tmp_path):
    """Write pairs into two files, and return the options that name them."""

    def write(pairs):
        options = []
        for side, lines in zip(("source", "target"), zip(*pairs, strict=True), strict=True):
            path = tmp_path / side
            path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
            options += [f"--{side}", str(path)]
        return options

    return write


@pytest.fixture
def saved(needs_gcc, tmp_path):
    """Save a function from strings to strings under the names of an exported translator."""

    def save(function):
        signature = tf.function(
            lambda text: {"translation": function(text)},
            input_signature=[tf.TensorSpec([None], tf.string, name="text")],
        ).get_concrete_function()
        tf.saved_model.save(tf.Module(), tmp_path / "model", {"serving_default": signature})
        return tmp_path / "model"

    return save
