"""A run of 20 steps without dropout, for processes that compare their weights."""

import dataclasses

import h5py
import numpy as np

from tests.helpers.tiny import toy_data, toy_experiment, write_toy_text


def write_text(folder):
    """Write the text of the runs in a folder."""
    folder.mkdir(exist_ok=True)
    write_toy_text(folder, train=100, validation=2)


def twenty_steps(folder, **training):
    """Return an experiment of two epochs of 10 steps on the text that `write_text` has written."""
    recipe = {"epochs": 2, "steps_per_epoch": 10, "average_checkpoints": 1, **training}
    config = toy_experiment(toy_data(folder), **recipe)
    return dataclasses.replace(config, model=dataclasses.replace(config.model, dropout=0.0))


def newest_checkpoint(run):
    """Return the arrays of the last epoch: weights, the optimizer's state and a moving average."""
    arrays = {}

    def add(name, item):
        is_time = name.startswith(("run/log-", "run/run-seconds"))
        if isinstance(item, h5py.Dataset) and not is_time:
            arrays[name] = item[()]

    with h5py.File(sorted((run / "checkpoints").glob("epoch-*"))[-1]) as file:
        file.visititems(add)
    assert any(name.startswith("optimizer") for name in arrays), list(arrays)
    return arrays


def assert_same_arrays(ours, theirs):
    assert ours.keys() == theirs.keys()
    for name, values in ours.items():
        np.testing.assert_allclose(values, theirs[name], atol=1e-5, err_msg=name)
