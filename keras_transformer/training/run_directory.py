"""The directory of a run: its lock, the configuration that claims it, and what it says of a run."""

import contextlib
import dataclasses
import errno
import fcntl
import functools
import logging
import math
import os
import socket
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TextIO

import keras

from keras_transformer.config import ExperimentConfig
from keras_transformer.config.experiment import read_yaml
from keras_transformer.text.files import save_tokenizers, tokenizer_paths
from keras_transformer.training.checkpoints import Checkpoints, run_checkpoints
from keras_transformer.training.corpora import text_files
from keras_transformer.training.csv_tables import read_history
from keras_transformer.training.machines import read_cluster
from keras_transformer.training.resume import RunLimit
from keras_transformer.training.vocabularies import Tokenizers
from keras_transformer.translation.saved import (
    ORIGIN_FILE,
    SavedTranslator,
    find_translator,
    weights_file,
)
from keras_transformer.utils.checksums import check_files, recorded_files, sample_checksum
from keras_transformer.utils.devices import count_gpus, has_bfloat16, has_gpu
from keras_transformer.utils.files import read_json, write_json

log = logging.getLogger(__name__)

_INPUTS = "inputs.json"
_STATIC_SHAPES = 6
"""Shapes of batches for XLA: more pad less, and take longer to compile."""
_NO_LOCKS = {errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP}


@contextlib.contextmanager
def locked_directory(directory: Path) -> Iterator[None]:
    """Make a run directory, and keep other runs out of it while the block runs.

    The operating system releases the lock when the process ends, even if it is killed. Temporary
    files of killed runs are removed, and so are the new directories if the block leaves them empty.

    Raises:
        BlockingIOError: If another run has the lock.
        OSError: If the directory cannot be made or written to.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with locked_directory(Path(folder) / "runs" / "first"):
    ...         print([path.name for path in Path(folder).rglob("*")])
    ...     print([path.name for path in Path(folder).rglob("*")])
    ['runs', 'first', 'run.lock']
    []
    """
    made = [path for path in (directory, *directory.parents) if not path.exists()]
    path = directory / "run.lock"
    try:
        directory.mkdir(parents=True, exist_ok=True)
        with _locked_file(path) as file:
            try:
                file.truncate(0)
                print(f"process {os.getpid()} on {socket.gethostname()}", file=file, flush=True)
                _remove_temporary_files(directory)
                yield
            finally:
                path.unlink(missing_ok=True)
    finally:
        for new in made:
            with contextlib.suppress(OSError):  # It is not empty.
                new.rmdir()


def _locked_file(path: Path) -> TextIO:
    """Return the file at a path, opened and locked."""
    while True:
        file = open(path, "a+", encoding="utf-8")
        try:
            _lock_file(file)
            # A run that ended in between has removed this file, and the next one makes another.
            with contextlib.suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(file.fileno()), path.stat()):
                    return file
        except BaseException:
            file.close()
            raise
        file.close()


def _lock_file(file: TextIO) -> None:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        file.seek(0)
        directory = Path(file.name).parent
        raise BlockingIOError(
            f"A directory is for one run at a time; {directory} is in use by "
            f"{file.read().strip() or 'another process'}. Wait until that run ends, stop it, or "
            "choose another directory."
        ) from error
    except OSError as error:
        if error.errno not in _NO_LOCKS:
            raise
        directory = Path(file.name).parent
        log.warning("%s is on a file system without locks: start no second run there", directory)


def _remove_temporary_files(directory: Path) -> None:
    """Remove what killed runs left behind."""
    for folder in (directory, directory / "checkpoints"):
        for path in folder.glob("writing-*"):
            if path.is_file():  # Directories are exports, which may be in progress.
                path.unlink(missing_ok=True)


def settle(config: ExperimentConfig, directory: Path) -> ExperimentConfig:
    """Return a configuration whose precision and static shapes are chosen.

    A run that has begun keeps what was chosen for it. A new one gets what is fastest on the devices
    of the backend.

    Raises:
        ValueError: If the directory has a config.yaml that is damaged.
    """
    before, precision = _configuration(directory), config.training.precision
    shapes, compiles = config.data.static_shapes, config.training.jit_compile
    if before:
        chosen, own = before.training.precision, before.data.static_shapes
    else:
        chosen = "mixed_bfloat16" if has_bfloat16() else "float32"
        own = _STATIC_SHAPES if compiles or (compiles is None and _is_for_xla(config)) else None
    return dataclasses.replace(
        config,
        data=dataclasses.replace(config.data, static_shapes=own if shapes is None else shapes),
        training=dataclasses.replace(
            config.training, precision=chosen if precision == "auto" else precision
        ),
    )


def _is_for_xla(config):
    """Return whether XLA compiles steps by default: with JAX, or on a single GPU."""
    if keras.backend.backend() == "jax":
        return True
    gpus = config.training.replicas or count_gpus()
    return has_gpu() and gpus == 1 and read_cluster() is None


@dataclasses.dataclass(frozen=True)
class RunState:
    """Where a run is, by the files in its directory.

    Each is read once, when something depends on it: only then does it matter that it is damaged. A
    run that has trained on has another state.
    """

    directory: Path
    """The run directory."""
    config: ExperimentConfig
    """The configuration, which may have other ends than the run began with."""

    @functools.cached_property
    def checkpoints(self) -> Checkpoints:
        """The checkpoints in it."""
        return run_checkpoints(self.directory, self.config.training)

    @functools.cached_property
    def history(self) -> dict[str, list[float]]:
        """The metrics of every epoch, or nothing if there is no table; see `read_history`."""
        return read_history(self.directory) if (self.directory / "epochs.csv").exists() else {}

    @functools.cached_property
    def chosen(self) -> dict[str, Any] | None:
        """What chosen.json says of the final weights; None if they are not chosen."""
        return _read_chosen(self.directory)

    @property
    def ends(self) -> dict[str, float | None]:
        """What ends the run: its epochs, or a limit before."""
        training = self.config.training
        return {name: getattr(training, name) for name in ("epochs", "max_steps", "max_minutes")}

    @property
    def trained_epochs(self) -> int:
        """The number of epochs that are trained, even if checkpoints are missing."""
        return max(int(self.history.get("epoch", [0])[-1]), self.checkpoints.position().epochs)

    @property
    def has_trained(self) -> bool:
        """Whether one of the ends is reached, or the patience is over."""
        training, checkpoints = self.config.training, self.checkpoints
        is_over = self.trained_epochs >= training.epochs or checkpoints.out_of_patience()
        return is_over or RunLimit(training, checkpoints).is_reached()

    @property
    def is_chosen(self) -> bool:
        """Whether the final weights were chosen at these ends."""
        chosen = self.chosen or {}
        return all(chosen.get(name) == end for name, end in self.ends.items())

    @property
    def is_finished(self) -> bool:
        """Whether the final weights are chosen, and there is nothing left to train."""
        if self.chosen is None:
            return False
        # Earlier versions did not say of which epochs they chose.
        known = self.chosen.get("trained_epochs", self.chosen.get("epochs", math.inf))
        return self.is_chosen or (self.trained_epochs <= known and self.has_trained)


def read_state(directory: Path, config: ExperimentConfig) -> RunState:
    """Return where a run is, after a check that it can start or resume with this configuration.

    Raises:
        ValueError: If the directory holds a run with another configuration, or its config.yaml is
            damaged or missing.
    """
    before = _configuration(directory)
    if before and (differences := _differences(before, config)):
        raise ValueError(
            f"{directory} holds a run with another configuration; received "
            f"{', '.join(differences)}. A run resumes with the configuration it started with, but "
            "may have more or fewer epochs, other limits, another interval of checkpoints, or "
            "another jit_compile, cache or decoding options. Restore these values, or choose "
            "another directory."
        )
    return RunState(directory, config)


def _configuration(directory: Path) -> ExperimentConfig | None:
    """Return the configuration of the run in a directory, or None if it has none."""
    check_files(directory, ["config.yaml"])
    path = directory / "config.yaml"
    if not path.exists():
        return None
    if "decoding" in (sections := read_yaml(path)) and "training" not in sections:
        raise ValueError(
            f"The directory of a run must be new, or hold one; {directory} holds a model that was "
            "saved or imported. Choose another."
        )
    return ExperimentConfig.from_file(path)


def _differences(before: ExperimentConfig, config: ExperimentConfig) -> Sequence[str]:
    """Return what keeps a run from going on, as "training.seed=2 instead of 1"."""
    may_differ = {
        ("data", "cache"),
        ("training", "checkpoint_minutes"),
        ("training", "checkpoint_steps"),
        ("training", "epochs"),
        ("training", "jit_compile"),
        ("training", "max_minutes"),
        ("training", "max_steps"),
    }
    differences = []
    for section in ("model", "data", "training"):
        old, new = (dataclasses.asdict(getattr(each, section)) for each in (before, config))
        for name, value in new.items():
            if value != old[name] and (section, name) not in may_differ:
                differences.append(f"{section}.{name}={value!r} instead of {old[name]!r}")
    return differences


def check_inputs(directory: Path, config: ExperimentConfig) -> dict[str, str]:
    """Check that text and teachers are those with which the run in a directory began.

    Files over 16 MiB are sampled; see `sample_checksum`.

    Returns:
        Their checksums by file, for `claim`.

    Raises:
        FileNotFoundError: If a file is missing.
        ValueError: If one differs, or the record of them is damaged or missing.
    """
    paths = [*text_files(config.data), *map(weights_file, config.training.teachers)]
    found = {str(path): sample_checksum(path) for path in paths}
    before = _read_known(directory / _INPUTS)
    if before is None:
        if (directory / "config.yaml").exists():
            log.info("%s has no checksums of its text; they are recorded now", directory)
        return found
    names = sorted(found.keys() | before.keys())
    if others := [name for name in names if found.get(name) != before.get(name)]:
        raise ValueError(
            "A run goes on with the text and the teachers that it began with; these differ: "
            f"{', '.join(others)}. Restore them, or choose another directory."
        )
    return found


def claim(
    directory: Path,
    config: ExperimentConfig,
    tokenizers: Tokenizers,
    inputs: Mapping[str, str],
    start: SavedTranslator | None = None,
) -> None:
    """Write the configuration, the vocabularies, and the checksums of text and teachers.

    Of a run that starts from an imported model, write the license and the attribution too.
    """
    directory.mkdir(parents=True, exist_ok=True)
    is_joint = config.model.has_joint_vocabulary
    names = [path.name for path in tokenizer_paths(directory, tokenizers, is_joint)]
    origin = start.config.origin if start else {}
    names += [ORIGIN_FILE] if origin else []
    with recorded_files(directory, ["config.yaml", _INPUTS, *names]):
        if origin:
            write_json(directory / ORIGIN_FILE, origin)
        config.to_file(directory / "config.yaml")
        write_json(directory / _INPUTS, inputs)
        save_tokenizers(directory, tokenizers, is_joint)


def _read_chosen(directory: Path) -> dict[str, Any] | None:
    remedy = "Restore it, or choose the weights again with --choose-again"
    return _read_known(directory / "chosen.json", remedy)


def _read_known(path: Path, remedy: str = "Restore it") -> dict[str, Any] | None:
    """Return the object in a file, or None if there is no such file and it has no checksum."""
    check_files(path.parent, [path.name], remedy)
    return read_json(path, remedy) if path.exists() else None


def run_facts(directory: str | os.PathLike) -> dict[str, Any]:
    """Return how a saved model was trained, for a model card.

    Args:
        directory: A run directory, or what else `Translator.load` accepts.

    Returns:
        Of a run, "data" and "training", sections of its configuration, and "validation", which
        checkpoints were chosen and their BLEU. Of an exported model, the facts that it was exported
        with, except its command. Of what `Translator.save` wrote, the license, attribution and
        languages of an imported model.

    Raises:
        FileNotFoundError: If there is no saved model.
        ValueError: If a file is damaged.

    Example:

    ```python
    translator = Translator.load("runs/en_de")
    export_saved_model(translator, "saved_models/en_de", run_facts("runs/en_de"))
    ```
    """
    saved = find_translator(directory)
    facts = {name: value for name, value in saved.facts.items() if name != "command"}
    if not saved.path.with_name("chosen.json").exists():
        return facts
    chosen = _read_chosen(saved.path.parent) or {}
    ends = ("epochs", "trained_epochs", "max_steps", "max_minutes")
    return {**facts, "validation": {name: chosen[name] for name in chosen if name not in ends}}
