import pytest

from benchmarks import throughput
from tests.helpers.tiny import toy_pairs

SMALL = "--model.vocab_size 380 --model.num_layers 1 --model.d_model 16 --model.d_ff 24"
SMALL += " --training.steps_per_epoch 3 --training.batch_tokens 200"
CASE = throughput.Case("tensorflow", 2, "float32", 4)


@pytest.mark.slow
def test_a_run_of_two_processes_is_measured(parallel, capsys, monkeypatch):
    monkeypatch.setattr(throughput, "cases", lambda *options: [CASE])
    text = parallel(toy_pairs(100))
    throughput.main([*text, *"--repeats 1 --backends tensorflow".split(), *SMALL.split()])
    lines = capsys.readouterr().out.splitlines()
    (row,) = (line.split(" | ") for line in lines if line.startswith("| tensorflow"))
    assert (row[1], row[3]) == ("2", "4") and float(row[4].replace(",", "")) > 10
    assert SMALL in "".join(lines)


def test_a_run_that_fails_says_why(tmp_path):
    case = throughput.Case("tensorflow", 1, "float32", None)
    with pytest.raises(RuntimeError, match="Presets are tiny"):
        throughput.tokens_per_second(case, ["--preset", "huge"], tmp_path)
