import pytest
import tensorflow as tf

from benchmarks import load, server_batching, server_load
from benchmarks.load import Sample, report


def test_the_report_excludes_the_warm_up():
    mib = 2**20
    # 100 seconds, one answer each: slow and growing at first, then by 4 MiB per minute.
    samples = [Sample(time, 5.0, (100 + time) * mib, 7) for time in range(10)]
    samples += [Sample(t, 0.02, 200 * mib + (t - 10) * mib // 15, 3) for t in range(10, 101)]
    lines = report(samples, errors=0, changed=1234).splitlines()
    rows = dict(line.split("  ", 1) for line in lines)
    assert {name.strip(): value.strip() for name, value in rows.items()} == {
        "requests": "101",
        "sentences": "343",
        "sentences/s": "3.0",
        "errors": "0",
        "changed translations": "1,234",
        "latency, ms": "p50 20.0, p95 20.0, p99 20.0, max 20.0",
        "resident memory, MiB": "200.0 after warm-up, 206.0 at the end",
        "growth after warm-up": "+4.00 MiB/min",
        "at each tenth of the time": "200, 201, 201, 202, 203, 203, 204, 205, 205, 206",
    }


@pytest.fixture
def run(saved, tmp_path, capsys):
    """Load a function as a model, or a server of it, and return the rows of the report."""

    def run(module, function, text):
        (tmp_path / "text").write_text(text)
        seconds = {load: 1, server_load: 6}[module]
        options = [f"--model={saved(function)}", f"--text={tmp_path / 'text'}"]
        try:
            module.main([*options, f"--seconds={seconds}"])
        finally:
            rows = dict(line.split("  ", 1) for line in capsys.readouterr().out.splitlines())
        return {name.strip(): value.strip().replace(",", "") for name, value in rows.items()}

    return run


@pytest.mark.slow
@pytest.mark.parametrize("module", [load, server_load])
def test_a_model_that_holds(module, run):
    rows = run(module, tf.strings.upper, "one\ntwo\n\nthree")
    assert int(rows["requests"]) > 10
    assert rows["errors"] == rows["changed translations"] == "0"


@pytest.mark.slow
def test_a_translation_that_depends_on_its_batch(run):
    def tell_size(text):
        return tf.repeat(tf.strings.as_string(tf.size(text)), tf.size(text))

    assert int(run(load, tell_size, "one\ntwo")["changed translations"]) > 10


@pytest.mark.slow
@pytest.mark.parametrize(("module", "text"), [(load, "me"), (server_load, "")])
def test_a_model_that_fails(module, text, run):
    def as_number(text):
        return tf.strings.as_string(tf.strings.to_number(text))

    with pytest.raises(
        SystemExit, match=f"(?s)error: .*could not correctly convert string: {text}"
    ):
        run(module, as_number, "1\nme")


@pytest.mark.slow
def test_both_servers_answer_all_clients(saved, tmp_path, capsys):
    (tmp_path / "text").write_text("one\ntwo\nthree")
    options = "--clients 1 3 --seconds 0.5 --repeats 2".split()
    model = saved(tf.strings.upper)
    server_batching.main([f"--model={model}", f"--text={tmp_path / 'text'}", *options])
    rows = [line.split(" | ") for line in capsys.readouterr().out.splitlines()[2:6]]
    cells = [("| 1", "off"), ("| 1", "on"), ("| 3", "off"), ("| 3", "on")]
    assert [(row[0], row[1]) for row in rows] == cells
    assert all(float(row[2].replace(",", "")) > 2 for row in rows)
    assert rows[0][4] == rows[2][4] == "1.00"


@pytest.mark.parametrize("model, text", [("none", "text"), (".", "none")])
def test_what_is_missing_is_told(model, text, tmp_path):
    (tmp_path / "text").write_text("one")
    paths = [f"--model={tmp_path / model}", f"--text={tmp_path / text}"]
    with pytest.raises(SystemExit, match="error: (There is no SavedModel|.*must be a text file)"):
        load.main(paths)
