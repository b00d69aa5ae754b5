import pytest
import tensorflow as tf

from benchmarks import server_batching


@pytest.mark.slow
def test_both_servers_answer_all_clients(saved, tmp_path, capsys):
    (tmp_path / "text").write_text("one\ntwo\nthree")
    options = ["--clients", "1", "3", "--seconds", "0.5", "--repeats", "2"]
    model = saved(tf.strings.upper)
    server_batching.main([f"--model={model}", f"--text={tmp_path / 'text'}", *options])
    rows = [line.split(" | ") for line in capsys.readouterr().out.splitlines()[2:6]]
    assert [row[0:2] for row in rows] == [
        ["| 1", "off"],
        ["| 1", "on"],
        ["| 3", "off"],
        ["| 3", "on"],
    ]
    assert all(float(row[2].replace(",", "")) > 2 for row in rows)
    assert rows[0][4] == rows[2][4] == "1.00"
