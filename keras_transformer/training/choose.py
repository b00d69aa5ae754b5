"""Choose the final weights of a run: an average, or the best epoch."""

import contextlib
import logging
import math
from collections.abc import Sequence
from pathlib import Path

from keras_transformer.config import ExperimentConfig
from keras_transformer.model import Transformer
from keras_transformer.training.averaging import average_checkpoints, load_moving_average
from keras_transformer.training.check import Checked
from keras_transformer.training.checkpoint_files import damage
from keras_transformer.training.checkpoints import run_checkpoints
from keras_transformer.training.csv_tables import read_history
from keras_transformer.training.prepare import PreparedText
from keras_transformer.training.run_directory import (
    check_claim,
    has_trained,
    is_finished,
    trained_epochs,
)
from keras_transformer.training.validation import NAMES, SELECTING, output_scores
from keras_transformer.translation.saved import find_translator
from keras_transformer.translation.translator import Translator
from keras_transformer.utils.checksums import recorded_files
from keras_transformer.utils.files import whole_file, write_json

log = logging.getLogger(__name__)

_CHOOSE_AGAIN = "give --choose-again to choose from the checkpoints that are there"


def finished_translator(
    config: ExperimentConfig, directory: Path, choose_again: bool
) -> Translator | None:
    """Return the translator of a finished run, or None if there is something to do.

    Raises:
        FileNotFoundError: If the final model is missing, or the checkpoints to choose from.
        ValueError: If the directory holds a run with another configuration, or a file is damaged.
    """
    if choose_again:
        _check_choice(config, directory)
        return None
    if not is_finished(directory, config):
        return None
    if not (directory / "model.keras").exists():
        raise FileNotFoundError(
            f"{directory} is finished, but has no model.keras. Restore it, or {_CHOOSE_AGAIN}."
        )
    message = "%s is finished and is left as it is; give --choose-again to choose its weights again"
    log.info(message, directory)
    translator = Translator.load(directory)
    if find_translator(directory).config.decoding != config.decoding:
        log.warning("it keeps its own decoding options, which differ from those given")
    return translator


def _check_choice(config: ExperimentConfig, directory: Path) -> None:
    """Check that a run has trained its epochs, and has checkpoints to choose from."""
    check_claim(directory, config)
    checkpoints = run_checkpoints(directory, config.training)
    if not (checkpoints.best() or checkpoints.last()):
        raise FileNotFoundError(
            f"Choosing weights again needs checkpoints, received none in {checkpoints.directory}. "
            "Restore them, or leave the run as it is."
        )
    with contextlib.suppress(ValueError):  # A damaged chosen.json is written again.
        if is_finished(directory, config):
            return
    if not has_trained(directory, config):
        raise ValueError(
            f"--choose-again needs a run that has trained its {config.training.epochs} epochs; "
            f"{directory} has not. Leave the option out to train them."
        )


def choose_weights(
    config: ExperimentConfig, checked: Checked, text: PreparedText, choose_again: bool = False
) -> Translator:
    """Save the average or the best checkpoint, whichever has the higher validation score.

    It is BLEU (with several target languages, the mean of theirs), or F1 of trees. Of several
    machines, the chief chooses. The run directory gets model.keras and chosen.json.

    Args:
        config, checked, text: The run.
        choose_again: Whether to choose from the checkpoints that are there, if some are missing.

    Returns:
        The translator of the saved model.

    Raises:
        FileNotFoundError: If a checkpoint is missing.
        ValueError: If one is damaged, or has values that are NaN or infinite.
    """
    is_chief = checked.machines.is_chief
    translator = _choose(config, checked, text, choose_again) if is_chief else None
    checked.machines.wait_for_all()  # The others must not leave while the chief needs them.
    return Translator.load(checked.directory) if translator is None else translator


def _candidates(
    config: ExperimentConfig, checked: Checked, choose_again: bool
) -> dict[str, list[Path]]:
    """Return the checkpoints of the average and of the best epoch, if there is one."""
    checkpoints, average = checked.checkpoints, config.training.average
    epochs = trained_epochs(checked.directory, checkpoints)
    scores = _scores(checked, SELECTING[config.data.task], epochs)
    if missing := checkpoints.missing(epochs, scores, last=average == "last"):
        names = ", ".join(map(str, missing))
        if not choose_again:
            raise FileNotFoundError(
                f"The final weights need the checkpoints {names}, which do not exist. Restore "
                f"them, or {_CHOOSE_AGAIN}."
            )
        log.warning("the weights are chosen without %s", names)
    best, last = checkpoints.best(), checkpoints.last()
    candidates = {"average": {"best": best or last, "last": last, "ema": last[-1:]}[average]}
    if best:
        candidates["best"] = best[:1]
    needed = sorted({path for paths in candidates.values() for path in paths})
    if damaged := [f"{path} ({reason})" for path in needed if (reason := damage(path))]:
        raise ValueError(
            f"The final weights need whole checkpoints; damaged: {', '.join(damaged)}. Restore "
            f"them, or remove them and {_CHOOSE_AGAIN}."
        )
    return candidates


def _scores(checked: Checked, selecting: str, epochs: int) -> list[float]:
    """Return the score of each epoch, or nothing if the table lacks one."""
    if not (checked.directory / "epochs.csv").exists():
        return []
    scores = read_history(checked.directory).get(selecting, [])
    return scores if len(scores) == epochs and not any(map(math.isnan, scores)) else []


def _choose(
    config: ExperimentConfig, checked: Checked, text: PreparedText, choose_again: bool
) -> Translator:
    average, candidates = config.training.average, _candidates(config, checked, choose_again)
    model = Transformer(config.model)
    translator = Translator(model, *text.tokenizers, config.decoding)
    sources = [source for source, _ in text.validation_pairs]
    selecting = SELECTING[config.data.task]
    search = "greedy" if config.decoding.beam_size == 1 else f"beam {config.decoding.beam_size}"
    if config.decoding.temperature is not None:
        search = "sampling"
    found = {}
    for name, paths in candidates.items():
        _load(model, average, name, paths)
        scores = output_scores(translator(sources), text.validation_pairs, config.data)
        found[name] = scores[selecting]
        facts = NAMES[selecting], search, name, found[name]
        log.info("validation %s (%s) of the %s checkpoint: %.2f", *facts)
    chosen = max(found, key=found.__getitem__)
    _load(model, average, chosen, candidates[chosen])
    report = {
        "chosen": chosen,
        "epochs": config.training.epochs,
        "checkpoints": [path.name for path in candidates[chosen]],
        f"validation_{selecting.removeprefix('val_')}": found,
    }
    with recorded_files(checked.directory, ["model.keras", "chosen.json"]):
        with whole_file(checked.directory / "model.keras") as temporary:
            model.save(temporary)
        write_json(checked.directory / "chosen.json", report)  # The run is finished with this.
    return translator


def _load(model: Transformer, average: str, name: str, paths: Sequence[Path]) -> None:
    if (name, average) == ("average", "ema") and paths:
        load_moving_average(model, paths[-1])
    else:
        average_checkpoints(model, paths)
