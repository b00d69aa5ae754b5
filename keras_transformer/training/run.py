"""An experiment from text to a trained model's directory."""

import json
import logging
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import keras
import tensorflow as tf

from keras_transformer.config import DataConfig, DecodingConfig, ExperimentConfig, TrainingConfig
from keras_transformer.data import (
    EncodedPairs,
    TokenBatches,
    drop_merges,
    encode_pairs,
    read_pairs,
    read_tfds,
)
from keras_transformer.evaluation import score
from keras_transformer.utils.files import whole_file
from keras_transformer.losses import LabelSmoothedCrossEntropy
from keras_transformer.model import Transformer
from keras_transformer.optimizers import FusedAdam
from keras_transformer.schedules import NoamSchedule
from keras_transformer.text import read_tokenizers
from keras_transformer.training.callbacks import Checkpoints, EpochSeed, Validation
from keras_transformer.training.checkpoints import average_checkpoints
from keras_transformer.training.cpu import prepare_cpu
from keras_transformer.training.directory import check_claim, claim, end_last_line
from keras_transformer.training.start import check_start
from keras_transformer.training.strategy import replica_strategy
from keras_transformer.training.teachers import find_teachers, teach
from keras_transformer.training.vocabularies import (
    Tokenizers,
    check_vocabularies,
    read_or_train,
)
from keras_transformer.translation.translator import Translator

log = logging.getLogger(__name__)

Pairs = Sequence[tuple[str, str]]


def train(config: ExperimentConfig, directory: str | os.PathLike) -> Translator:
    """Train on the text that the configuration names, and save the model in a directory.

    The directory gets config.yaml, the vocabularies, logs, checkpoints of the last epochs and of
    the best, and model.keras: the mean of the last checkpoints or the best single one, whichever
    translates the validation text better. A training that was interrupted goes on after its last
    whole epoch when it is started again with the same directory. One that starts from a trained
    model, by `init_from`, needs that until its first epoch is over, and leaves it as it is; one
    that learns of `teachers` needs them to its end. Without a GPU the process is as `prepare_cpu`
    makes it from then on, for translations too.

    Args:
        config: the experiment.
        directory: where everything goes.

    Returns:
        The trained model's translator.

    Raises:
        FileNotFoundError: a text file is missing, or a vocabulary of a training that goes on, or
            a model to start or to learn from.
        ImportError, ConnectionError: as `read_tfds`, for text of TensorFlow Datasets.
        ValueError: the directory holds a training with another configuration, or the text or a
            model to start or to learn from does not fit the configuration.
    """
    directory = Path(directory)
    data, training = config.data, config.training
    check_claim(directory, config)
    prepare_cpu()
    checkpoints = Checkpoints(
        directory / "checkpoints", training.average_checkpoints, training.patience
    )
    start = None
    if checkpoints.last():
        check_vocabularies(directory, config)
    elif training.init_from is not None:
        start = check_start(directory, config)
    teachers = find_teachers(directory, config, start)
    strategy = _strategy(training)
    keras.utils.set_random_seed(training.seed)
    pairs, validation = _read(data)
    if known := [start, *teachers] if start else teachers:
        tokenizers = read_tokenizers(known[0].vocabularies, data.subwords)
    else:
        tokenizers = read_or_train(directory, config, pairs)
    log.info("text to train on:")
    encoded = encode_pairs(pairs, *tokenizers, data.max_length)
    del pairs  # Gigabytes for a large text.
    share = training.batch_tokens // strategy.num_replicas_in_sync
    batches = TokenBatches(
        encoded,
        training.batch_tokens,
        num_replicas=strategy.num_replicas_in_sync,
        seed=training.seed,
        steps_per_epoch=training.steps_per_epoch,
        vary=_subword_dropout(config, tokenizers, share),
    )
    model = compiled_model(config, strategy)
    validate = _validation(config, model, tokenizers, validation, share, batches.tokens)
    callbacks = [
        EpochSeed(batches),
        validate,
        keras.callbacks.CSVLogger(directory / "epochs.csv", append=True),
        keras.callbacks.TensorBoard(directory / "tensorboard"),
        checkpoints,  # The last: with its file an epoch is over.
    ]
    # Nothing is written before this, so that a mistake above leaves the directory free.
    claim(directory, config, tokenizers)
    end_last_line(directory / "epochs.csv")
    with strategy.scope():
        done = checkpoints.restore(model)
        if start:
            start.set_weights(model)
        if teachers:
            teach(model, teachers)
    log.info(
        "%s parameters, %d batches an epoch, %d %s",
        f"{model.count_params():,}",
        len(batches),
        strategy.num_replicas_in_sync,
        "GPU" if tf.config.list_physical_devices("GPU") else "CPU device",
    )
    if done:
        log.info("%d epochs are done already", done)
    if start:
        before = validate.measure()
        log.info("before training: val_nll %(val_nll).4f, val_bleu %(val_bleu).2f", before)
    if checkpoints.out_of_patience():
        log.info("no better epoch among the last %d: the training has ended", training.patience)
    elif done < training.epochs:
        model.fit(
            batches.dataset(),
            epochs=training.epochs,
            initial_epoch=done,
            shuffle=False,
            callbacks=callbacks,
            verbose=1 if sys.stdout.isatty() else 2,
        )
    return _choose(config, directory, checkpoints, tokenizers, validation)


def _strategy(training: TrainingConfig) -> tf.distribute.Strategy:
    strategy = replica_strategy(training.replicas)
    replicas = strategy.num_replicas_in_sync
    if training.precision == "mixed_float16" and replicas > 1:
        # Another's overflow would become a weight that is no number.
        raise ValueError(
            f"precision='mixed_float16' needs one replica, received {replicas}: Keras looks for "
            "overflow on the first alone. Choose 'mixed_bfloat16', or replicas=1."
        )
    return strategy


def _read(data: DataConfig) -> tuple[Pairs, Pairs]:
    """Return the pairs to train on and those to validate on."""
    if data.tfds is None:
        return (
            read_pairs(data.train_source, data.train_target),
            read_pairs(data.validation_source, data.validation_target),
        )
    train, validation = (
        read_tfds(data.tfds, split, data.source_language, data.target_language)
        for split in (data.train_split, data.validation_split)
    )
    return train, validation


def _subword_dropout(
    config: ExperimentConfig, tokenizers: Tokenizers, share: int
) -> Callable[[EncodedPairs, int], EncodedPairs] | None:
    """Return what cuts the training text into other subwords in each pass.

    No sentence becomes longer than `share`, a replica's tokens of a batch.
    """
    data, seed = config.data, config.training.seed
    if not data.subword_dropout:
        return None

    def vary(pairs, number):
        return drop_merges(
            pairs,
            tokenizers,
            data.subword_dropout,
            max_length=min(data.max_length, share),
            seed=(seed, number),
        )

    return vary


def compiled_model(config: ExperimentConfig, strategy: tf.distribute.Strategy) -> Transformer:
    """Return a new model with the optimizer and the loss of its recipe."""
    training = config.training
    with strategy.scope():
        model = Transformer(config.model, dtype=training.precision)
        schedule = NoamSchedule(
            config.model.d_model, training.warmup_steps, training.learning_rate_scale
        )
        model.compile(
            optimizer=FusedAdam(
                schedule,
                beta_1=training.beta_1,
                beta_2=training.beta_2,
                epsilon=training.epsilon,
            ),
            loss=LabelSmoothedCrossEntropy(
                training.label_smoothing,
                training.r_drop,
                training.distillation if training.teachers else 0.0,
            ),
            # XLA would compile the step anew for each length of a batch.
            jit_compile=False,
        )
    return model


def _validation(
    config: ExperimentConfig,
    model: Transformer,
    tokenizers: Tokenizers,
    pairs: Pairs,
    share: int,
    tokens: float,
) -> Validation:
    """Return the validation: on one device, so in batches of a replica's `share` of tokens."""
    log.info("text to validate on:")
    encoded = encode_pairs(pairs, *tokenizers, config.data.max_length)
    longest = max(encoded.source_lengths.max(), encoded.target_lengths.max())
    return Validation(
        TokenBatches(encoded, max(share, int(longest)), shuffle=False),
        pairs,
        Translator(model, *tokenizers, DecodingConfig(beam_size=1)),
        tokens=tokens,
    )


def _choose(
    config: ExperimentConfig,
    directory: Path,
    checkpoints: Checkpoints,
    tokenizers: Tokenizers,
    validation: Pairs,
) -> Translator:
    """Save the average or the best checkpoint, whichever has the higher validation BLEU."""
    model = Transformer(config.model)
    translator = Translator(model, *tokenizers, config.decoding)
    sources, references = zip(*validation, strict=True)
    candidates = {"average": checkpoints.last(), "best": [checkpoints.best()]}
    bleu = {}
    for name, paths in candidates.items():
        average_checkpoints(model, paths)
        bleu[name] = score(translator(sources), references).bleu
        log.info("validation BLEU of the %s: %.2f", name, bleu[name])
    chosen = max(bleu, key=bleu.get)
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
