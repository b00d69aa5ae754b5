"""Training runs, each a list of steps: check, prepare, build, fit, choose."""

import contextlib
import os
from pathlib import Path

import keras

from keras_transformer.config import ExperimentConfig
from keras_transformer.data.encoding import Map
from keras_transformer.training.build import build_model, compiled_model
from keras_transformer.training.check import check_run
from keras_transformer.training.choose import check_choice, choose_weights, finished_translator
from keras_transformer.training.dry_run_report import DryRun, make_trial_steps
from keras_transformer.training.fit import fit_epochs
from keras_transformer.training.machines import others_may_be_lost, read_cluster
from keras_transformer.training.prepare import preparation_report, prepare_text
from keras_transformer.training.run_directory import locked_directory, read_state, settle
from keras_transformer.translation.translator import Translator


def train(
    config: ExperimentConfig,
    directory: str | os.PathLike,
    *,
    choose_again: bool = False,
    finish: bool = False,
) -> Translator:
    """Train a model on the text that a configuration names, and save it in a directory.

    The directory gets config.yaml, the vocabularies, logs, checkpoints of the last epochs and of
    the best ones, and model.keras: the single epoch or the average (see `training.average`) with
    the highest validation BLEU. Started again with the same directory, an
    interrupted run resumes from its newest checkpoint, of an epoch or of a step in it, and a
    finished one stays as it is. The directory is locked until `train` ends.

    A run that starts from a trained model, by `training.init_from`, needs it until it has a first
    checkpoint; `training.teachers` are needed to the end. Neither is changed. Without a GPU,
    `train` also configures the process for CPU training; see `prepare_cpu`.

    With a `TF_CONFIG` of several machines, the same call on each of them makes one run. They share
    the directory, in which only the chief writes.

    Args:
        config: The experiment.
        directory: The run directory.
        choose_again: Whether to choose the weights of a finished run again, from its checkpoints.
        finish: Whether to end the run now and choose from the checkpoints that are there. Without
            it, the same call later trains on.

    Returns:
        The translator of the trained model.

    Raises:
        BlockingIOError: If another run uses the directory.
        FileNotFoundError: If a text file is missing, a vocabulary or a checkpoint of the run, a
            model to start from, or a teacher.
        FloatingPointError: If the loss or a weight becomes NaN or infinite. Checkpoints stay.
        ImportError: If the text is a TFDS dataset and `tensorflow-datasets` is not installed.
        ConnectionError: If a TFDS dataset cannot be downloaded, or another machine is lost.
        OSError: If the directory cannot be written to.
        RuntimeError: If the Keras backend is not TensorFlow.
        ValueError: If the directory holds a run with another configuration or text; the text, the
            model to start from or a teacher does not fit the configuration; the warm-up is longer
            than the run; TF_CONFIG is not understood, or its machines differ; or a file is damaged.

    Example:

    ```python
    data = {"train_source": "train.tsv", "validation_source": "valid.tsv"}
    config = ExperimentConfig.from_dict({"model": {"vocab_size": 8000}, "data": data})
    translate = train(config, "runs/en_de")
    translate(["Two dogs run through the snow."])
    ```
    """
    _check_backend("train", "; on JAX, call train_on_jax")
    directory, cluster = Path(directory), read_cluster()
    config = settle(config, directory)
    state = read_state(directory, config)
    if choose_again or finish:
        check_choice(state, finish)
    elif state.is_finished:
        return finished_translator(state)
    is_chief = cluster is None or cluster.is_chief
    lock = locked_directory(directory) if is_chief else contextlib.nullcontext()
    with others_may_be_lost(cluster), lock:
        checked = check_run(config, directory, cluster, resumes=not choose_again)
        text = prepare_text(config, checked, checked.machines.replicas)
        if not (choose_again or finish):
            # No name holds the model, which is freed before others are read to choose from.
            fit_epochs(config, checked, text, *build_model(config, checked, text))
        return choose_weights(config, checked, text, choose_again, finish)


def dry_run(config: ExperimentConfig, directory: str | os.PathLike) -> DryRun:
    """Rehearse `train`: read the text, build the model, and make a few steps.

    Only the encoded text and its vocabularies are kept, which the run then uses.

    Args:
        config: The experiment.
        directory: The run directory.

    Returns:
        Steps, memory and time of the run; `print` shows them.

    Raises:
        Exception: What `train` would raise before its first step.
        RuntimeError: If the Keras backend is not TensorFlow.
        ValueError: If TF_CONFIG names several machines.

    Example:

    ```python
    print(dry_run(config, "runs/en_de"))
    ```
    """
    _check_backend("dry_run")
    if read_cluster():
        raise ValueError(
            "`dry_run` supports one machine, received a TF_CONFIG with several tasks. Unset it."
        )
    directory = Path(directory)
    config = settle(config, directory)
    with locked_directory(directory):
        checked = check_run(config, directory, resumes=False)
        text = prepare_text(config, checked, checked.machines.replicas)
        model = compiled_model(config, checked.machines, checked.teachers)
        return make_trial_steps(config.training, model, text.batches)


def prepare(config: ExperimentConfig, directory: str | os.PathLike, mapped: Map = map) -> str:
    """Train the vocabularies of a run and encode its text, so that `train` starts at once.

    Args:
        config: The experiment.
        directory: The run directory, whose folder `text` gets the files; or, with `data.cache`, any
            directory.
        mapped: Applies a function to parts of the text, in order, like `map`, perhaps in other
            processes. What is written does not depend on it.

    Returns:
        A report: how many pairs of each corpus were kept and dropped, and why.

    Raises:
        BlockingIOError: If a run uses the directory.
        FileNotFoundError: If a text file is missing, or a model to start from.
        ImportError, ConnectionError: See `read_tfds`.
        OSError: If the files cannot be written.
        ValueError: If the directory holds a run with another configuration, no pair is left, or a
            file is damaged.

    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> text = folder / "text.tsv"
    >>> _ = text.write_text("a dog\\tein Hund\\na cat\\teine Katze\\na dog\\t\\n")
    >>> data = {"train_source": str(text), "validation_source": str(text)}
    >>> config = ExperimentConfig.from_dict({"model": {"vocab_size": 280}, "data": data})
    >>> prepare(config, folder / "run").replace(str(folder), "data").splitlines()[:2]
    ['data/text.tsv: kept 2 of 3 sentence pairs', '  dropped 1 with an empty side']
    """
    directory = Path(directory)
    config = settle(config, directory)
    with locked_directory(directory):
        checked = check_run(config, directory, resumes=False, has_devices=False)
        return preparation_report(config, checked, mapped)


def _check_backend(name: str, otherwise: str = "") -> None:
    if (backend := keras.backend.backend()) != "tensorflow":
        raise RuntimeError(
            f"{name} needs the TensorFlow backend, received {backend}. Set the environment "
            f"variable KERAS_BACKEND=tensorflow{otherwise}."
        )
