"""What training does after each epoch beside what Keras has callbacks for."""

import time
from collections.abc import Sequence
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

from keras_transformer.data import TokenBatches
from keras_transformer.evaluation import score
from keras_transformer.utils.files import flush_and_rename
from keras_transformer.metrics import NegativeLogLikelihood, TokenAccuracy
from keras_transformer.translation.translator import Translator


class EpochSeed(keras.callbacks.Callback):
    """Makes the batches and the dropout of an epoch depend on the seed and the epoch alone.

    So a training that resumes, on as many replicas and cores, takes the steps that it would have
    taken uninterrupted: Keras saves no state of random numbers with the weights.

    Args:
        batches: the training text, with the seed.
    """

    def __init__(self, batches: TokenBatches):
        super().__init__()
        self.batches = batches

    def on_epoch_begin(self, epoch, logs=None):
        self.batches.epoch = epoch
        random = np.random.default_rng((self.batches.seed, epoch))
        for variable in self.model.non_trainable_variables:
            if variable.name == "seed_generator_state":
                variable.assign(random.integers(2**31, size=variable.shape))


class Validation(keras.callbacks.Callback):
    """Adds to each epoch's logs what the model makes of the validation text.

    These are `val_nll` and `val_accuracy` per subword of the given translations, `val_bleu` of the
    model's own by greedy search, `learning_rate`, and `tokens_per_second` of training, source and
    target, padding left out.

    Args:
        batches: the validation text as token batches.
        pairs: the same as text.
        translator: a greedy translator with the model that trains.
        tokens: tokens of an epoch of training.
    """

    def __init__(
        self,
        batches: TokenBatches,
        pairs: Sequence[tuple[str, str]],
        translator: Translator,
        tokens: float,
    ):
        super().__init__()
        self.dataset = batches.dataset()
        self.pairs = pairs
        self.translator = translator
        self.tokens = tokens
        self.nll = NegativeLogLikelihood()
        self.accuracy = TokenAccuracy()
        self.update = tf.function(self._update, reduce_retracing=True)

    def _update(self, inputs, labels):
        logits = self.translator.model(inputs, training=False)
        self.nll.update_state(labels, logits)
        self.accuracy.update_state(labels, logits)

    def on_epoch_begin(self, epoch, logs=None):
        self.started = time.perf_counter()

    def on_epoch_end(self, epoch, logs=None):
        logs["tokens_per_second"] = self.tokens / (time.perf_counter() - self.started)
        logs["learning_rate"] = float(self.model.optimizer.learning_rate)
        logs |= self.measure()

    def measure(self) -> dict[str, float]:
        """Return `val_nll`, `val_accuracy` and `val_bleu` of the model as it is."""
        self.nll.reset_state()
        self.accuracy.reset_state()
        for inputs, labels in self.dataset:
            self.update(inputs, labels)
        hypotheses = self.translator([source for source, _ in self.pairs])
        return {
            "val_nll": float(self.nll.result()),
            "val_accuracy": float(self.accuracy.result()),
            "val_bleu": score(hypotheses, [target for _, target in self.pairs]).bleu,
        }


class Checkpoints(keras.callbacks.Callback):
    """Keeps the state after the last epochs and after the best one, by validation BLEU.

    A file has the weights and the optimizer's state, and appears under its name only when it is
    whole. All that is known of the past is in the files, so a training can resume from them.

    Args:
        directory: where they go, as epoch-0012.weights.h5 and best-0007-bleu-31.4159.weights.h5.
        keep: the number of last epochs to keep.
        patience: epochs without a better one after which training stops; without it, never.
    """

    def __init__(self, directory: Path, keep: int, patience: int | None = None):
        super().__init__()
        self.directory = directory
        self.keep = keep
        self.patience = patience

    def last(self) -> list[Path]:
        """Return the checkpoints of the last `keep` epochs, oldest first."""
        return self._of_epochs()[-self.keep :]

    def _of_epochs(self):
        return sorted(self.directory.glob("epoch-*.weights.h5"), key=_epoch)

    def best(self) -> Path | None:
        """Return the best epoch's checkpoint, if there is one."""
        return max(self.directory.glob("best-*.weights.h5"), default=None, key=_bleu)

    def restore(self, model: keras.Model) -> int:
        """Load the state after the last epoch into a compiled model; return that epoch, or 0."""
        last = self.last()
        if not last:
            return 0
        model.optimizer.build(model.trainable_variables)
        model.load_weights(last[-1])
        return _epoch(last[-1])

    def out_of_patience(self) -> bool:
        """Return whether so many epochs were no better than the best that training should end."""
        best, last = self.best(), self.last()
        if self.patience is None or best is None or not last:
            return False
        return _epoch(last[-1]) - _epoch(best) >= self.patience

    def on_epoch_end(self, epoch, logs=None):
        bleu, best = round(logs["val_bleu"], 4), self.best()  # As in the file's name.
        # The best comes first: an epoch counts as over when it has its own file.
        if best is None or bleu > _bleu(best):
            new = self._save(f"best-{epoch + 1:04d}-bleu-{bleu:.4f}")
            for path in self.directory.glob("best-*.weights.h5"):
                if path != new:
                    path.unlink()
        self._save(f"epoch-{epoch + 1:04d}")
        for path in self._of_epochs()[: -self.keep]:
            path.unlink()
        if self.out_of_patience():
            self.model.stop_training = True

    def _save(self, name) -> Path:
        self.directory.mkdir(parents=True, exist_ok=True)
        path = self.directory / f"{name}.weights.h5"
        temporary = path.with_name(f"writing-{path.name}")
        self.model.save_weights(temporary)
        return flush_and_rename(temporary, path)


def _epoch(path: Path) -> int:
    return int(path.name.removesuffix(".weights.h5").split("-")[1])


def _bleu(path: Path) -> float:
    return float(path.name.removesuffix(".weights.h5").split("-")[3])
