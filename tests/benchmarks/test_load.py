import pytest
import tensorflow as tf

from benchmarks import load
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


def run(model, text, tmp_path, capsys):
    """Load a model for one second, and return the report's rows."""
    (tmp_path / "text").write_text(text)
    try:
        load.main([f"--model={model}", f"--text={tmp_path / 'text'}", "--seconds=1"])
    finally:
        rows = dict(line.split("  ", 1) for line in capsys.readouterr().out.splitlines())
    return {name.strip(): value.strip() for name, value in rows.items()}


@pytest.mark.slow
def test_a_model_that_holds(saved, tmp_path, capsys):
    rows = run(saved(tf.strings.upper), "one\ntwo\n\nthree", tmp_path, capsys)
    assert int(rows["requests"].replace(",", "")) > 10
    assert rows["errors"] == rows["changed translations"] == "0"


@pytest.mark.slow
def test_a_translation_that_depends_on_its_batch(saved, tmp_path, capsys):
    def tell_size(text):
        return tf.repeat(tf.strings.as_string(tf.size(text)), tf.size(text))

    rows = run(saved(tell_size), "one\ntwo", tmp_path, capsys)
    assert int(rows["changed translations"].replace(",", "")) > 10


@pytest.mark.slow
def test_a_model_that_fails(saved, tmp_path, capsys):
    def as_number(text):
        return tf.strings.as_string(tf.strings.to_number(text))

    with pytest.raises(SystemExit, match="error: .*could not correctly convert string: me"):
        run(saved(as_number), "1\nme", tmp_path, capsys)


@pytest.mark.parametrize("model, text", [("none", "text"), (".", "none")])
def test_what_is_missing_is_told(model, text, tmp_path):
    (tmp_path / "text").write_text("one")
    paths = [f"--model={tmp_path / model}", f"--text={tmp_path / text}"]
    with pytest.raises(SystemExit, match="error: (There is no SavedModel|.*must be a text file)"):
        load.main(paths)
