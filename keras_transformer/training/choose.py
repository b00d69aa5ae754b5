"""Choose the final weights of a run: an average, or the best epoch."""

import json
import logging
from collections.abc import Sequence
from pathlib import Path

from keras_transformer.config import ExperimentConfig
from keras_transformer.model import Transformer
from keras_transformer.training.averaging import average_checkpoints, load_moving_average
from keras_transformer.training.check import Checked
from keras_transformer.training.checkpoint_files import damage
from keras_transformer.training.checkpoints import Checkpoints
from keras_transformer.training.prepare import PreparedText
from keras_transformer.training.validation import NAMES, SELECTING, output_scores
from keras_transformer.translation.translator import Translator
from keras_transformer.utils.checksums import recorded_files
from keras_transformer.utils.files import whole_file

log = logging.getLogger(__name__)


def choose_weights(config: ExperimentConfig, checked: Checked, text: PreparedText) -> Translator:
    """Save the average or the best checkpoint, whichever has the higher validation score.

    It is BLEU (with several target languages, the mean of theirs), or F1 of trees. Of several
    machines, the chief chooses. Damaged checkpoints are left out, with a warning. The run directory
    gets model.keras and chosen.json.

    Returns:
        The translator of the saved model.

    Raises:
        ValueError: If no checkpoint is whole, or one has values that are NaN or infinite.
    """
    translator = _choose(config, checked, text) if checked.machines.is_chief else None
    checked.machines.wait_for_all()  # The others must not leave while the chief needs them.
    return Translator.load(checked.directory) if translator is None else translator


def _choose(config: ExperimentConfig, checked: Checked, text: PreparedText) -> Translator:
    checkpoints, average = checked.checkpoints, config.training.average
    model = Transformer(config.model)
    translator = Translator(model, *text.tokenizers, config.decoding)
    sources = [source for source, _ in text.validation_pairs]
    best = _whole(checkpoints.best())
    candidates = {"average": _averaged(average, checkpoints, best)}
    if best:
        candidates["best"] = best[:1]
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
        "checkpoints": [path.name for path in candidates[chosen]],
        f"validation_{selecting.removeprefix('val_')}": found,
    }
    with recorded_files(checked.directory, ["model.keras", "chosen.json"]):
        with whole_file(checked.directory / "model.keras") as temporary:
            model.save(temporary)
        with whole_file(checked.directory / "chosen.json") as temporary:
            temporary.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    return translator


def _averaged(average: str, checkpoints: Checkpoints, best: Sequence[Path]) -> Sequence[Path]:
    """Return the checkpoints that the average comes from."""
    if average == "best" and best:
        return best
    last = _whole(checkpoints.last())
    return last[-1:] if average == "ema" else last


def _load(model: Transformer, average: str, name: str, paths: Sequence[Path]) -> None:
    if (name, average) == ("average", "ema") and paths:
        load_moving_average(model, paths[-1])
    else:
        average_checkpoints(model, paths)


def _whole(paths: Sequence[Path]) -> list[Path]:
    whole = []
    for path in paths:
        if reason := damage(path):
            log.warning("%s is damaged (%s) and left out", path, reason)
        else:
            whole.append(path)
    return whole
