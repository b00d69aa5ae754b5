import pytest

from keras_transformer import training
from keras_transformer.config import ExperimentConfig
from keras_transformer.data import read_lines
from keras_transformer.training.dry_run_report import DryRun
from pipelines import plan
from tests.helpers.tiny import toy_pairs

SPEEDS = {128: 10_000, 256: 4_000, 512: 1_000}
"""Tokens per second of made-up trials, by the width of the model."""
TOKENS = 20
"""Tokens of a pair, of both sides together."""


def write_text(directory, pairs):
    """Write pairs to files, and return the options that name them."""
    options = []
    for name, lines in zip(("source", "target"), zip(*pairs, strict=True), strict=True):
        path = directory / name
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
        held_out = path.with_suffix(".held_out")
        held_out.write_text("held out\n", encoding="utf-8")
        options += [f"--{name}", str(path), f"--validation-{name}", str(held_out)]
    return [*options, "--output", str(directory / "plan.yaml")]


@pytest.fixture
def tried(monkeypatch):
    """Let trials take no time, and return the list of their models and batches."""
    trials = []

    def dry_run(config, directory):
        d_model, batch_tokens = config.model.d_model, config.training.batch_tokens
        trials.append((d_model, batch_tokens))
        lines, speed = len(read_lines(config.data.train_source)), SPEEDS[d_model]
        steps = lines * TOKENS // 2 // batch_tokens
        return DryRun(
            steps_per_epoch=steps,
            steps=steps,
            warmup_steps=1,
            parameters=7,
            state_bytes=8,
            largest_batch=(9, 10, 11),
            peak_bytes=3 * 10**9,
            seconds_per_step=lines * TOKENS / steps / speed,
            tokens_per_second=speed,
        )

    monkeypatch.setattr(training, "dry_run", dry_run)
    return trials


@pytest.mark.parametrize(
    "hours, longest_epoch, d_model, passes, epochs",
    [
        (9, 0.5, 256, 32, 32),  # 200,000 pairs * 20 tokens * 32 passes / 4,000 are 8.9 hours.
        (8, 0.5, 128, 32, 32),  # 3.6 hours.
        (8, 0.05, 128, 32, 72),
        (1, 0.5, 128, 8, 8),  # 0.89 of 3.6 hours.
    ],
)
def test_the_largest_model_that_time_allows_is_chosen(
    tmp_path, tried, capsys, monkeypatch, hours, longest_epoch, d_model, passes, epochs
):
    monkeypatch.setattr(plan, "_SAMPLE", 50_000)  # A quarter of the text.
    monkeypatch.setattr(plan, "_LONGEST_EPOCH", longest_epoch)
    options = write_text(tmp_path, [(f"a {i}", f"b {i}") for i in range(200_000)])
    plan.main([*options, "--hours", str(hours)])
    config = ExperimentConfig.from_file(tmp_path / "plan.yaml")
    assert (config.model.d_model, config.model.vocab_size) == (d_model, 8000)
    assert tried == [(width, 4096) for width in ([128] if hours == 1 else [128, 256])]
    recipe, steps = config.training, passes * 4 * (50_000 * TOKENS // 2 // 4096)
    assert recipe.epochs == epochs
    assert recipe.steps_per_epoch == (None if epochs == passes else steps // epochs)
    assert recipe.warmup_steps == min(4000, steps * 15 // 100)
    printed = capsys.readouterr().out
    assert "tiny: 10,000 tokens/s, 3.0 GB, 3.6 hours for 32 passes" in printed
    assert ("will not have learned" in printed) == (hours == 1)
    assert f"train --config {tmp_path}/plan.yaml" in printed


def test_a_pass_of_few_steps_has_smaller_batches(tmp_path, tried):
    """30,000 pairs of 10 tokens a side are 73 batches of 4,096, or 100 of about 3,000."""
    plan.main(write_text(tmp_path, [(f"a {i}", f"b {i}") for i in range(30_000)]))
    assert tried == [(128, 4096), (128, 4096 * 73 // 100)]


@pytest.mark.parametrize("every, is_messages", [(20, True), (21, False)])
def test_text_with_placeholders_in_a_twentieth_gets_what_suits_messages(
    tmp_path, tried, capsys, every, is_messages
):
    lines = [f"Copied {'%d' if i % every == 0 else i} files\tx\n" for i in range(2100)]
    (tmp_path / "text.tsv").write_text("".join(lines), encoding="utf-8")
    (tmp_path / "valid.tsv").write_text("held\tout\n")
    validation = str(tmp_path / "valid.tsv")
    files = ["--source", str(tmp_path / "text.tsv"), "--validation-source", validation]
    plan.main([*files, "--output", str(tmp_path / "plan.yaml")])
    config = ExperimentConfig.from_file(tmp_path / "plan.yaml")
    assert config.data.filters == (["messages"] if is_messages else ["prose"])
    assert ("printf" in config.data.user_symbols) == is_messages
    assert config.decoding.style == ("marian" if is_messages else "paper")
    assert (config.data.train_target, config.data.validation_target) == (None, None)
    assert "placeholders or tags in 5% of the sources" in capsys.readouterr().out


def test_too_few_pairs_and_files_that_exist_are_refused(tmp_path, tried, capsys):
    options = write_text(tmp_path, [("a", "b")] * 999)
    for expected in ("A plan needs at least 1,000 pairs, received 999", "exists already"):
        with pytest.raises(SystemExit):
            plan.main(options)
        assert expected in capsys.readouterr().err
        (tmp_path / "plan.yaml").touch()
    assert not tried


def test_mistakes_in_files_are_found_before_trials(tmp_path, tried, capsys):
    options = write_text(tmp_path, [("a", "b")] * 1000)

    def expect(message, *others):
        with pytest.raises(SystemExit):
            plan.main([*options, *others])
        assert message in capsys.readouterr().err

    expect("--output must be in an existing directory", "--output", str(tmp_path / "none/plan"))
    for name in ("source", "target"):
        (tmp_path / f"{name}.held_out").write_text("")
    expect("needs validation text, received none")
    (tmp_path / "target.held_out").unlink()
    expect("target.held_out")
    assert not tried


def test_a_text_of_many_characters_gets_a_vocabulary_with_room_for_words(tmp_path, tried):
    characters = [chr(0x4E00 + i) for i in range(2494)]
    plan.main(write_text(tmp_path, [(f"a {one}", 3 * one) for one in characters]))
    config = ExperimentConfig.from_file(tmp_path / "plan.yaml")
    assert config.model.vocab_size == 5000  # Instead of 1,000, which has no room for them.
    assert config.data.character_coverage == 0.9995


@pytest.mark.slow
def test_a_text_is_tried_and_its_plan_can_be_trained(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(plan, "AMOUNTS", (plan.Amount(5000, 5000, 0.3, 3, "tiny"),))
    options = write_text(tmp_path, toy_pairs(1200))
    plan.main([*options, "--hours", "2"], prog="keras-transformer plan")
    printed = capsys.readouterr().out
    assert "keras-transformer train --config" in printed
    config = ExperimentConfig.from_file(tmp_path / "plan.yaml")
    assert (
        f"a vocabulary of {config.model.vocab_size}" in printed.split("its words fill at most")[1]
    )
    assert config.training.epochs == 3
    assert training.dry_run(config, tmp_path / "run").steps > config.training.warmup_steps
