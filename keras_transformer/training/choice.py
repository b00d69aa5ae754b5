"""The weights that a run ends with: the average of its last checkpoints, or the best one."""

import json
import logging
from collections.abc import Sequence
from pathlib import Path

from keras_transformer.config import DecodingConfig, ExperimentConfig
from keras_transformer.evaluation import score
from keras_transformer.model import Transformer
from keras_transformer.training.averaging import average_checkpoints
from keras_transformer.training.checkpoint_directory import Checkpoints
from keras_transformer.training.checkpoints import damage
from keras_transformer.training.text import Pairs
from keras_transformer.training.vocabularies import Tokenizers
from keras_transformer.translation.translator import Translator
from keras_transformer.utils.files import whole_file

log = logging.getLogger(__name__)


def choose_weights(
    config: ExperimentConfig,
    directory: Path,
    checkpoints: Checkpoints,
    tokenizers: Tokenizers,
    validation: Pairs,
) -> Translator:
    """Save the average or the best checkpoint, whichever has the higher validation BLEU.

    Args:
        config: The experiment.
        directory: The run directory, which gets model.keras and chosen.json.
        checkpoints: Those of the run. Damaged ones are left out, with a warning.
        tokenizers: Of source and target.
        validation: The validation text.

    Returns:
        The translator of the saved model.

    Raises:
        ValueError: If no checkpoint is whole, or one has values that are NaN or infinite.
    """
    model = Transformer(config.model)
    translator = Translator(model, *tokenizers, config.decoding)
    sources, references = zip(*validation, strict=True)
    best = checkpoints.best()
    candidates = {"average": _whole(checkpoints.last())}
    if best and _whole([best]):
        candidates["best"] = [best]
    search, bleu = _search_name(config.decoding), {}
    for name, paths in candidates.items():
        average_checkpoints(model, paths)
        bleu[name] = score(translator(sources), references).bleu
        log.info("validation BLEU (%s) of the %s checkpoint: %.2f", search, name, bleu[name])
    chosen = max(bleu, key=bleu.__getitem__)
    average_checkpoints(model, candidates[chosen])
    with whole_file(directory / "model.keras") as temporary:
        model.save(temporary)
    report = {
        "chosen": chosen,
        "checkpoints": [path.name for path in candidates[chosen]],
        "validation_bleu": bleu,
    }
    with whole_file(directory / "chosen.json") as temporary:
        temporary.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    return translator


def _whole(paths: Sequence[Path]) -> list[Path]:
    whole = []
    for path in paths:
        if reason := damage(path):
            log.warning("%s is damaged (%s) and left out", path, reason)
        else:
            whole.append(path)
    return whole


def _search_name(decoding: DecodingConfig) -> str:
    if decoding.temperature is not None:
        return "sampling"
    return "greedy" if decoding.beam_size == 1 else f"beam {decoding.beam_size}"
