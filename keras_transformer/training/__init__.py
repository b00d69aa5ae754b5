"""Training runs: `model.fit` from text files to a directory with the trained model.

`run.train` is five steps: `check` (directory, machines, models that exist), `prepare` (text and
vocabularies), `build` (the model and what validates it), `fit` (the epochs) and `choose` (the
weights). The first two return a record to those after them. What they use:

- what is trained: `model`, `steps`, `recipe`, on the text of `corpora` and `vocabularies`;
- on which devices: `devices`, `machines`, or `jax_run`;
- what is saved: `run_directory`, `checkpoints`, `resume`, `averaging`;
- what is shown: `validation`, `progress`, `csv_tables`, `tensorboard`, `dry_run_report`;
- what ends it early: `stopping`.
"""

import keras_transformer.utils.quiet_start  # isort: skip  # noqa: F401

from keras_transformer.training.averaging import average_checkpoints
from keras_transformer.training.devices import prepare_cpu, replica_strategy
from keras_transformer.training.jax_run import train_on_jax
from keras_transformer.training.model import TrainingTransformer
from keras_transformer.training.recipe import paper_recipe
from keras_transformer.training.run import dry_run, train
from keras_transformer.training.validation import TranslationCallback

__all__ = [
    "TrainingTransformer",
    "TranslationCallback",
    "average_checkpoints",
    "dry_run",
    "paper_recipe",
    "prepare_cpu",
    "replica_strategy",
    "train",
    "train_on_jax",
]
