import math
import types

import keras
import pytest

from keras_transformer.training.checkpoints import Checkpoints, arrays_of_logs
from keras_transformer.training.csv_tables import (
    EpochTable,
    MetricsTable,
    Table,
    read_history,
    read_metrics,
    read_table,
)


def test_a_table_grows_by_rows_and_goes_on_after_one_of_them(tmp_path):
    path = tmp_path / "metrics.csv"
    table = Table(path, "step")
    assert table.go_on_after(0) is None
    for step in (100, 200, 300):
        table.add({"step": step, "loss": step / 64})
    assert path.read_text() == "step,loss\n100,1.5625\n200,3.125\n300,4.6875\n"
    again = Table(path, "step")
    assert again.go_on_after(250) == {"step": "200", "loss": "3.125"}
    again.add({"step": 300, "loss": 9.5})
    assert read_metrics(tmp_path) == {"step": [100, 200, 300], "loss": [1.5625, 3.125, 9.5]}


def test_a_new_value_gets_a_column(tmp_path):
    table = Table(tmp_path / "epochs.csv", "epoch")
    table.add({"epoch": 1, "loss": 5.0})
    table.add({"epoch": 2, "loss": 4.0, "gradient_norm": 0.5})
    table.add({"epoch": 3, "loss": 3.0})
    history = read_history(tmp_path)
    assert history["loss"] == [5.0, 4.0, 3.0]
    assert [math.isnan(value) for value in history["gradient_norm"]] == [True, False, True]


def test_epochs_of_version_0_1_are_counted_from_one_and_continued(tmp_path):
    path = tmp_path / "epochs.csv"
    path.write_text("epoch,val_bleu\r\n0,1.5\r\n1,2.5\r\n1,3.5\r\n2,4")
    for _ in range(2):
        assert read_history(tmp_path) == {"epoch": [1, 2, 3], "val_bleu": [1.5, 3.5, 4.0]}
        table = Table(path, "epoch")
        table.go_on_after(3)
    table.add({"epoch": 4, "val_bleu": 5.5})
    assert read_history(tmp_path) == {"epoch": [1, 2, 3, 4], "val_bleu": [1.5, 3.5, 4.0, 5.5]}


def test_a_line_that_was_joined_to_one_that_was_cut_off_is_left_out(tmp_path):
    (tmp_path / "epochs.csv").write_text("epoch,loss\n1,4.0\n2,3.1,3.5\n3,3.0\n")
    assert read_history(tmp_path) == {"epoch": [1, 3], "loss": [4.0, 3.0]}


def test_a_table_without_rows_is_empty(tmp_path):
    (tmp_path / "epochs.csv").write_text("")
    assert read_history(tmp_path) == {}


@pytest.mark.parametrize("torn", ["3", "3,3", "3,3.25,"])
def test_a_line_that_was_cut_off_costs_no_other(tmp_path, torn):
    path = tmp_path / "epochs.csv"
    path.write_text(f"epoch,loss,val_bleu\n1,4.0,1.5\n2,3.5,2.5\n{torn}")
    assert read_history(tmp_path) == {"epoch": [1, 2], "loss": [4, 3.5], "val_bleu": [1.5, 2.5]}
    table = Table(path, "epoch")
    table.go_on_after(2)
    table.add({"epoch": 3, "loss": 3.0, "val_bleu": 3.5})
    assert read_history(tmp_path)["val_bleu"] == [1.5, 2.5, 3.5]


@pytest.mark.parametrize(
    "content", [b"step,loss\n1,4.0\nstep,loss\n", b"step,loss\n1,\xff\n", b"stop,loss\n1,4.0\n"]
)
def test_a_damaged_table_is_named_and_set_aside(content, tmp_path, caplog):
    path = tmp_path / "metrics.csv"
    path.write_bytes(content)
    with pytest.raises(ValueError, match="metrics.csv is damaged: .* Remove the line, or the file"):
        read_table(path, "step")
    table = Table(path, "step")
    assert table.go_on_after(9) is None
    assert "metrics.csv is damaged" in caplog.text
    assert "It is damaged-metrics.csv now, and a new table begins." in caplog.text
    assert (tmp_path / "damaged-metrics.csv").read_bytes() == content
    table.add({"step": 10, "loss": 2.0})
    assert read_metrics(tmp_path) == {"step": [10], "loss": [2.0]}


def test_each_epoch_is_a_row_of_its_logs_counted_from_one(tmp_path):
    checkpoints = Checkpoints(tmp_path / "checkpoints", keep=1)
    model = keras.Sequential([keras.Input([1]), keras.layers.Dense(1)])
    rows = ["epoch,bleu,loss\n", "1,1.0,5.0\n", "2,1.0,4.0\n", "3,1.0,3.0\n"]
    for first, second in ((0, 1), (1, 2)):  # The second time it resumes after the first epoch.
        table = EpochTable(tmp_path / "epochs.csv", checkpoints)
        for epoch in (first, second):
            logs = {"loss": 5.0 - epoch, "bleu": 1.0}
            if epoch == first:
                checkpoints.save_epoch(model, epoch + 1, arrays=arrays_of_logs(logs))
            table.on_epoch_end(epoch, logs)
    assert (tmp_path / "epochs.csv").read_text() == "".join(rows)
    checkpoints.save_epoch(model, 3, arrays=arrays_of_logs(logs))
    for left in (rows, rows[:-1], rows[:-2]):  # Killed before the last row, which is written now.
        (tmp_path / "epochs.csv").write_text("".join(left))
        EpochTable(tmp_path / "epochs.csv", checkpoints)
        assert (tmp_path / "epochs.csv").read_text() == "".join([*left[:3], rows[-1]])


def test_seconds_add_up_over_the_processes_of_a_run(tmp_path):
    for start, steps in ((0, (1, 2, 3)), (2, (3, 4))):
        readings = types.SimpleNamespace(step=start, row=None)
        table = MetricsTable(tmp_path / "metrics.csv", readings)
        table.on_epoch_begin(start)
        for step in steps:
            readings.row = {"step": step, "seconds": 2.5}
            table.on_train_batch_end(0)
            readings.row = None
            table.on_train_batch_end(1)
    assert read_metrics(tmp_path) == {"step": [1, 2, 3, 4], "seconds": [2.5, 5.0, 7.5, 10.0]}
