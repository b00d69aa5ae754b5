"""Choose the final weights of a run: an average, or the best epoch."""

import contextlib
import dataclasses
import logging
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from keras_transformer.config import ExperimentConfig
from keras_transformer.evaluation import length_problem
from keras_transformer.model import Transformer
from keras_transformer.training.averaging import average_checkpoints, load_moving_average
from keras_transformer.training.build import freeze_output_bias
from keras_transformer.training.check import Checked
from keras_transformer.training.prepare import PreparedText
from keras_transformer.training.run_directory import RunState, claim
from keras_transformer.training.validation import (
    NAMES,
    SELECTING,
    Validation,
    encode_validation,
    token_batches,
)
from keras_transformer.translation.saved import find_translator
from keras_transformer.translation.translator import Translator
from keras_transformer.utils.checkpoint_files import OTHER_METRICS, damage, position_of
from keras_transformer.utils.checksums import recorded_files
from keras_transformer.utils.files import whole_file, write_json

log = logging.getLogger(__name__)

_CHOOSE_AGAIN = "give --choose-again to choose from the checkpoints that are there"
_CONVERGED = 0.01
"""The share by which the validation NLL of a run that has converged falls in an epoch, at most."""
_AVERAGED = (3, 5, 10)
"""Numbers of last epochs whose averages are tried, as far as they are kept."""


def finished_translator(state: RunState) -> Translator:
    """Return the translator of a finished run.

    Raises:
        FileNotFoundError: If the final model is missing.
        ValueError: If a file is damaged.
    """
    directory = state.directory
    if not (directory / "model.keras").exists():
        raise FileNotFoundError(
            f"{directory} is finished, but has no model.keras. Restore it, or {_CHOOSE_AGAIN}."
        )
    message = "%s is finished and is left as it is; give --choose-again to choose its weights again"
    log.info(message, directory)
    translator = Translator.load(directory)
    if find_translator(directory).config.decoding != state.config.decoding:
        log.warning("it keeps its own decoding options, which differ from those given")
    return translator


def check_choice(state: RunState, finish: bool) -> None:
    """Check that a run has checkpoints to choose from, and has trained unless it ends with them.

    Raises:
        FileNotFoundError: If there is no checkpoint.
        ValueError: If the run has not trained its epochs, or a file is damaged.
    """
    if not (state.checkpoints.best() or state.checkpoints.newest()):
        raise FileNotFoundError(
            f"Choosing weights needs checkpoints, received none in {state.checkpoints.directory}. "
            "Train until there is one, or restore them."
        )
    if finish:
        return
    with contextlib.suppress(ValueError):  # A damaged chosen.json is written again.
        if state.is_chosen:
            return
    if not state.has_trained:
        raise ValueError(
            "--choose-again needs a run that has trained its "
            f"{state.config.training.epochs} epochs; {state.directory} has not. Leave the option "
            "out to train them, or give --finish to end the run with what is there."
        )


def choose_weights(
    config: ExperimentConfig,
    checked: Checked,
    text: PreparedText,
    choose_again: bool = False,
    finish: bool = False,
) -> Translator:
    """Save the single epoch or the average with the highest validation score.

    It is BLEU (with several target languages, the mean of theirs), or F1 of trees. Of several
    machines, the chief chooses. The run directory gets model.keras and chosen.json.

    Args:
        config, checked, text: The run.
        choose_again: Whether to choose from the checkpoints that are there, if some are missing.
        finish: Whether the run ends before its last epoch.

    Returns:
        The translator of the saved model.

    Raises:
        FileNotFoundError: If a checkpoint is missing.
        ValueError: If one is damaged, or has values that are NaN or infinite.
    """
    translator = None
    if checked.machines.is_chief:
        if choose_again or finish:
            claim(checked.directory, config, text.tokenizers, text.inputs)
        state = RunState(checked.directory, config)
        candidates = _candidates(state, choose_again or finish)
        share = config.training.batch_tokens // checked.machines.replicas
        translator = _choose(state, text, candidates, share, finish)
        warn_unless_converged(state.history)
    checked.machines.wait_for_all()  # The others must not leave while the chief needs them.
    return Translator.load(checked.directory) if translator is None else translator


@dataclasses.dataclass(frozen=True)
class _Candidate:
    """Weights that may become the final ones."""

    paths: Sequence[Path]
    """The checkpoints whose weights are averaged, or the one with the moving average."""
    is_moving: bool = False

    def __str__(self) -> str:
        if self.is_moving:
            return f"moving average at {position_of(self.paths[0])}"
        if len(self.paths) == 1:
            return str(position_of(self.paths[0]))
        return f"epochs {', '.join(str(position_of(path).epochs) for path in self.paths)}"

    def load(self, model: Transformer) -> None:
        """Set the weights of a model."""
        if self.is_moving:
            load_moving_average(model, self.paths[0])
        else:
            average_checkpoints(model, self.paths)


def _candidates(state: RunState, is_tolerant: bool) -> dict[str, _Candidate]:
    """Return what may become the final weights, by name."""
    checkpoints, average = state.checkpoints, state.config.training.average
    epochs, selecting = state.trained_epochs, SELECTING[state.config.data.task]
    scores = state.history.get(selecting, [])
    is_known = len(scores) == epochs and not any(map(math.isnan, scores))
    if missing := checkpoints.missing(epochs, scores if is_known else [], last=average == "last"):
        names = ", ".join(map(str, missing))
        if not is_tolerant:
            raise FileNotFoundError(
                f"The final weights need the checkpoints {names}, which do not exist. Restore "
                f"them, or {_CHOOSE_AGAIN}."
            )
        log.warning("the weights are chosen without %s", names)
    best, last, newest = checkpoints.best(), checkpoints.last(), checkpoints.newest()
    single = {"last": [newest] if newest else []}
    for metric in (None, *OTHER_METRICS):
        single[f"best {metric or selecting.removeprefix('val_')}"] = checkpoints.best(metric)[:1]
    averaged = averages_of(average, best, last)
    candidates = {name: _Candidate(paths) for name, paths in (single | averaged).items() if paths}
    if average == "ema" and newest:
        candidates["ema"] = _Candidate([newest], is_moving=True)
    needed = sorted({path for candidate in candidates.values() for path in candidate.paths})
    if damaged := [f"{path} ({reason})" for path in needed if (reason := damage(path))]:
        raise ValueError(
            f"The final weights need whole checkpoints; damaged: {', '.join(damaged)}. Restore "
            f"them, or remove them and {_CHOOSE_AGAIN}."
        )
    return candidates


def averages_of(
    average: str, best: Sequence[Path], last: Sequence[Path]
) -> dict[str, Sequence[Path]]:
    """Return the checkpoints of each average to try, by name.

    >>> list(averages_of("last", [], [Path(f"epoch-{n}") for n in range(7)]))
    ['last 3', 'last 5', 'last 7']
    """
    if average == "best":
        return {f"best {len(best)}": best} if len(best) > 1 else {}
    counts = {*_AVERAGED, len(last)} - {0, 1} if average == "last" else set()
    return {f"last {count}": last[-count:] for count in sorted(counts) if count <= len(last)}


def _choose(
    state: RunState,
    text: PreparedText,
    candidates: Mapping[str, _Candidate],
    share: int,
    finish: bool,
) -> Translator:
    """Score the candidates, and save the best one."""
    config, directory = state.config, state.directory
    translator = Translator(Transformer(config.model), *text.tokenizers, config.decoding)
    freeze_output_bias(translator.model, text.tokenizers[0])
    chosen, found = _best_of(config, text, translator, candidates, share)
    candidates[chosen].load(translator.model)
    report: dict[str, Any] = {
        "chosen": chosen,
        "epochs": state.trained_epochs,
        "trained_epochs": state.trained_epochs,
        "checkpoints": [path.name for path in candidates[chosen].paths],
    }
    if not finish:
        report |= {name: end for name, end in state.ends.items() if end is not None}
    for score in _shown(found):
        report[f"validation_{score}"] = {n: values[f"val_{score}"] for n, values in found.items()}
    with recorded_files(directory, ["model.keras", "chosen.json"]):
        with whole_file(directory / "model.keras") as temporary:
            translator.model.save(temporary)
        write_json(directory / "chosen.json", report)  # The run is finished with this.
    return translator


def _best_of(
    config: ExperimentConfig,
    text: PreparedText,
    translator: Translator,
    candidates: Mapping[str, _Candidate],
    share: int,
) -> tuple[str, dict[str, dict[str, float]]]:
    """Return the best candidate on the whole validation text, and the scores of all.

    They are logged as a table.
    """
    pairs, decoding = text.validation_pairs, config.decoding
    search = "greedy" if decoding.beam_size == 1 else f"beam {decoding.beam_size}"
    if decoding.temperature is not None:
        search = "sampling"
    batches = token_batches(encode_validation(config, text.tokenizers, pairs), share)
    log.info("choosing the weights on all %s validation pairs (%s):", f"{len(pairs):,}", search)
    validation = Validation(batches, pairs, translator, config.data)
    measured: dict[str, dict[str, float]] = {}
    found: dict[str, dict[str, float]] = {}
    outputs: dict[str, Sequence[str]] = {}
    for name, candidate in candidates.items():
        # The last epoch may also be the best one, under another name of the file.
        key = str(candidate)
        if key not in measured:
            candidate.load(translator.model)
            measured[key] = validation.measure()
            outputs[key] = validation.translations
        found[name] = measured[key]
        if len(found) == 1:
            log.info(_row("candidate", [NAMES[score] for score in _shown(found)], "checkpoints"))
        values = [f"{found[name][f'val_{score}']:.3f}" for score in _shown(found)]
        log.info(_row(name, values, key))
    selecting = SELECTING[config.data.task]  # Of equal ones, the likelier; both may be 0.
    chosen = max(found, key=lambda name: (found[name][selecting], -found[name]["val_nll"]))
    log.info("chosen: %s (%s)", chosen, candidates[chosen])
    references = [reference for _, reference in pairs]
    problem = length_problem(outputs[str(candidates[chosen])], references)
    if problem and config.data.task == "translation":
        log.warning(problem)
    return chosen, found


def _shown(found: Mapping[str, Mapping[str, float]]) -> list[str]:
    """Return the scores that a table shows, without "val_"."""
    first = next(iter(found.values()))
    return [name for name in NAMES if f"val_{name}" in first]


def _row(name: str, values: Sequence[str], checkpoints: str) -> str:
    return f"  {name:<12}{''.join(f'{value:>9}' for value in values)}  {checkpoints}"


def warn_unless_converged(history: Mapping[str, Sequence[float]]) -> None:
    """Warn if the validation NLL still fell in the last epoch."""
    *_, before, last = [math.nan, math.nan, *history.get("val_nll", [])]
    if (fall := 1 - last / before) > _CONVERGED:
        log.warning(
            "not converged: in the last epoch, val_nll still fell by %.1f%%; train on with more "
            "training.epochs",
            100 * fall,
        )
