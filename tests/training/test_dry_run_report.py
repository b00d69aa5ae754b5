import pytest

from keras_transformer.training import dry_run
from keras_transformer.training.dry_run_report import DryRun
from tests.helpers.tiny import toy_experiment, write_toy_text


@pytest.mark.slow
def test_a_dry_run_says_what_a_run_needs_and_keeps_only_its_text(tmp_path):
    data = write_toy_text(tmp_path, train=60)
    run = tmp_path / "runs" / "toy"
    found = dry_run(toy_experiment(data, epochs=4, warmup_steps=6), run)
    assert [path.name for path in run.iterdir()] == ["text"]
    assert (found.steps_per_epoch, found.steps, found.warmup_steps) == (6, 24, 6)
    assert found.parameters == 31_072
    # Adam keeps two numbers for each weight.
    assert found.state_bytes == pytest.approx(3 * 4 * 31_072, rel=0.01)
    rows, source, target = found.largest_batch
    assert 60 / 2 < rows * max(source, target) <= 60
    assert 1e8 < found.peak_bytes < 1e12
    assert 0 < found.seconds_per_step < 60
    lines = str(found).splitlines()
    assert lines[0] == "steps: 6 per epoch, 24 in all, 6 of warm-up (25.0%)"
    assert [line.partition(":")[0] for line in lines[1:]] == [
        *("parameters", "memory", "largest batch", "time")
    ]


def test_the_report_is_for_people():
    found = DryRun(
        steps_per_epoch=266,
        steps=8512,
        warmup_steps=1200,
        parameters=3_345_678,
        state_bytes=40_200_000,
        largest_batch=(64, 31, 32),
        peak_bytes=1_234_000_000,
        seconds_per_step=0.3125,
        tokens_per_second=12_345.6,
    )
    assert str(found) == (
        "steps: 266 per epoch, 8,512 in all, 1,200 of warm-up (14.1%)\n"
        "parameters: 3,345,678\n"
        "memory: 40.2 MB of weights and optimizer, 1.23 GB at the peak of the process\n"
        "largest batch: 64 rows of 31 source and 32 target tokens\n"
        "time: 0.312 s per step, 12,346 tokens/s, 44:20 in all without validation"
    )


def test_a_run_that_could_not_start_has_no_dry_run_either(tmp_path):
    data = write_toy_text(tmp_path, train=60)
    with pytest.raises(ValueError, match="The warm-up must end within the run"):
        dry_run(toy_experiment(data, epochs=1, warmup_steps=7), tmp_path / "run")
