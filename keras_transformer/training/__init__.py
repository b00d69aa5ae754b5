"""Training runs: `model.fit` from text files to a directory with the trained model."""

import keras_transformer.utils.quiet_start  # isort: skip  # noqa: F401

from keras_transformer.training.averaging import average_checkpoints
from keras_transformer.training.devices import keep_freed_memory, prepare_cpu, replica_strategy
from keras_transformer.training.directory import (
    load_translator,
    read_history,
    read_metrics,
    run_facts,
)
from keras_transformer.training.jax_run import train_on_jax
from keras_transformer.training.model import TrainingTransformer
from keras_transformer.training.preparation import prepare
from keras_transformer.training.recipe import paper_recipe
from keras_transformer.training.rehearsal import DryRun
from keras_transformer.training.run import dry_run, train
from keras_transformer.training.translation_callback import TranslationCallback

__all__ = [
    "DryRun",
    "TrainingTransformer",
    "TranslationCallback",
    "average_checkpoints",
    "dry_run",
    "keep_freed_memory",
    "load_translator",
    "paper_recipe",
    "prepare",
    "prepare_cpu",
    "read_history",
    "read_metrics",
    "replica_strategy",
    "run_facts",
    "train",
    "train_on_jax",
]
