"""Using an exported SavedModel from Python."""

import os
from collections.abc import Iterable, Mapping
from typing import Any, overload

import numpy as np
import tensorflow as tf

from keras_transformer.translation.batching import Advance, translate_in_batches
from keras_transformer.utils.checksums import check_files
from keras_transformer.utils.errors import one_line
from keras_transformer.utils.versions import GRAPH, find_saved_model


class LoadedTranslator:
    """A SavedModel that translates strings, as `load_saved_model` returns it.

    Call it with a string, or with a list of any number of strings. Called with a tensor, string
    [B], it returns a tensor, string [B], computed in one batch.

    Attributes:
        loaded: The object that `tf.saved_model.load` returned.
        signatures: The signatures by name, such as `n_best`: functions from string tensors [B] to
            a dictionary of tensors; see `export_saved_model`.

    Example:

    ```python
    translate = load_saved_model("saved_models/en_de")
    translate("A dog runs.")
    translate(["A dog runs.", "A cat sleeps."], batch_size=1)
    ```
    """

    def __init__(self, loaded: Any):
        self.loaded = loaded  # Signatures do not keep the variables alive.
        self.signatures: Mapping[str, Any] = loaded.signatures

    @overload
    def __call__(  # type: ignore[overload-overlap]  # a str is also an Iterable[str]
        self, text: str, batch_size: int | None = None, progress: bool | Advance = False
    ) -> str: ...

    @overload
    def __call__(
        self, text: Iterable[str], batch_size: int | None = None, progress: bool | Advance = False
    ) -> list[str]: ...

    @overload
    def __call__(
        self, text: tf.Tensor, batch_size: int | None = None, progress: bool | Advance = False
    ) -> tf.Tensor: ...

    def __call__(self, text, batch_size=None, progress=False):
        """Return the translation of a string, of each string of a list, or of a tensor.

        Args:
            text: A string, a list of strings, or a string tensor or array [B].
            batch_size: Number of sentences of a list that are translated at once; by default 64,
                or 256 with a GPU.
            progress: For a list, whether to show a progress bar; or a function to call with the
                sentences of each batch that is done.

        Returns:
            A string, a list of strings in the same order, or a string tensor [B].
        """
        if tf.is_tensor(text) or isinstance(text, np.ndarray):
            return self.signatures["serving_default"](text=tf.constant(text))["translation"]
        sentences = [text] if isinstance(text, str) else text
        translations = translate_in_batches(self, sentences, batch_size, progress)
        return translations[0] if isinstance(text, str) else translations

    def document(self, text: str) -> str:
        """Translate a text of any length, sentence by sentence.

        Args:
            text: A text, whose white space between sentences stays.

        Returns:
            The translation.

        Raises:
            ValueError: If the model has no signature `translate_document`.
        """
        if "translate_document" not in self.signatures:
            raise ValueError(
                "The SavedModel has no signature translate_document: it is a parser, or of an "
                "older version. Export it again, or use Translator.load(path).document(text)."
            )
        encoded = tf.constant([text.encode("utf-8", "surrogatepass")])
        found = self.signatures["translate_document"](text=encoded)["translation"]
        return found.numpy()[0].decode("utf-8")


def load_saved_model(path: str | os.PathLike) -> LoadedTranslator:
    """Load an exported model to translate with it.

    Args:
        path: A version directory, as `export_saved_model` returns it, or the directory of all
            versions, whose highest version is loaded.

    Returns:
        The translator; its `signatures` also give scores, n-best lists and attention weights.

    Raises:
        FileNotFoundError: If there is no SavedModel.
        ValueError: If a file is damaged, or the SavedModel was not written by `export_saved_model`.

    Example:

    ```python
    translate = load_saved_model("saved_models/multi30k_en_de")
    translate("A dog runs on the beach.")  # 'Ein Hund rennt am Strand.'
    translate(["Two men.", "A red bus."])  # A list of two strings.
    ```
    """
    import tensorflow_text  # noqa: F401  registers the tokenizer's ops

    found = find_saved_model(path)
    if found is None:
        raise FileNotFoundError(
            f"There is no SavedModel in {path}: expected {GRAPH} there or in a numbered directory "
            "below. Export one with python -m pipelines.export."
        )
    check_files(found)  # TensorFlow would load some damaged files, or crash.
    try:
        loaded = tf.saved_model.load(str(found))
    except (tf.errors.OpError, OSError, ValueError, KeyError) as error:
        raise ValueError(
            f"The SavedModel in {found} is damaged: {one_line(error)}. Restore it, or export it "
            "again."
        ) from error
    if "serving_default" not in getattr(loaded, "signatures", {}):
        raise ValueError(
            f"The SavedModel in {found} has no signature serving_default: it was not written by "
            "export_saved_model. Load it with tf.saved_model.load."
        )
    return LoadedTranslator(loaded)
