import pytest
import tensorflow as tf

from benchmarks import server_load


def run(model, tmp_path, capsys):
    """Load a server for six seconds, and return the report's rows."""
    (tmp_path / "text").write_text("one\ntwo\n\nthree")
    try:
        server_load.main([f"--model={model}", f"--text={tmp_path / 'text'}", "--seconds=6"])
    finally:
        rows = dict(line.split("  ", 1) for line in capsys.readouterr().out.splitlines())
    return {name.strip(): value.strip() for name, value in rows.items()}


@pytest.mark.slow
def test_a_server_that_holds(saved, tmp_path, capsys):
    rows = run(saved(tf.strings.upper), tmp_path, capsys)
    assert int(rows["requests"].replace(",", "")) > 10
    assert rows["errors"] == rows["changed translations"] == "0"


@pytest.mark.slow
def test_a_model_that_fails(saved, tmp_path, capsys):
    def as_number(text):
        return tf.strings.as_string(tf.strings.to_number(text))

    with pytest.raises(SystemExit, match="(?s)error: .*could not correctly convert string"):
        run(saved(as_number), tmp_path, capsys)
