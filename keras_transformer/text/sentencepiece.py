"""SentencePiece as a TensorFlow op: strings to subword ids and back, inside the graph."""

import hashlib
from collections.abc import Sequence

import sentencepiece
import tensorflow as tf
import tensorflow_text  # noqa: F401  registers the ops

from keras_transformer.config import BOS_ID, EOS_ID, PAD_ID, UNK_ID
from keras_transformer.text.base import Tokenizer

_NBEST_SIZE, _ALPHA = 0, 1.0  # No sampling.
_OPTIONS = (False, False, False)  # add_bos, add_eos, reverse


class SentencePieceTokenizer(Tokenizer):
    """A SentencePiece model (Kudo and Richardson, 2018) that tokenizes inside a TensorFlow graph.

    Its methods are those of every `Tokenizer`, and `drop_merges`.

    Args:
        model: The bytes of a SentencePiece model with pad 0, unk 1, bos 2 and eos 3, as
            `train_sentencepiece` makes it.

    Attributes:
        model: The bytes it was made from.
        vocab_size: The number of its pieces, control pieces included (V).

    Raises:
        TypeError: `model` is not bytes.
        ValueError: `model` is not a SentencePiece model, or its special ids are others.

    >>> from keras_transformer.text import train_sentencepiece
    >>> tokenizer = SentencePieceTokenizer(train_sentencepiece(["a dog", "a cat"], vocab_size=269))
    >>> ids = tokenizer.tokenize(["a cat", "", "a dog 🐕"])
    >>> [text.decode() for text in tokenizer.detokenize(ids).numpy()]
    ['a cat', '', 'a dog 🐕']
    """

    _KIND = "SentencePiece model"
    _TRAINED_BY = "train_sentencepiece"

    def _read(self, model: bytes) -> list[str]:
        self._processor = _load(model)
        return [self._processor.id_to_piece(i) for i in range(self._processor.get_piece_size())]

    def _detokenize(self, ids: tf.Tensor) -> tf.Tensor:
        # For one id outside the vocabulary the op would fail the whole batch.
        is_text = (ids == UNK_ID) | ((ids > EOS_ID) & (ids < self.vocab_size))
        values = tf.cast(tf.boolean_mask(ids, is_text), tf.int32)
        counts = tf.reduce_sum(tf.cast(is_text, tf.int64), axis=1)
        return self._join(tf.RaggedTensor.from_row_lengths(values, counts, validate=False))

    def pieces(self, ids: tf.Tensor) -> tf.Tensor:
        names = tf.reshape(self._pieces(tf.reshape(ids, [-1])), tf.shape(ids))
        return tf.where(ids == PAD_ID, "", names)

    def drop_merges(self, ids: Sequence[Sequence[int]], rate: float, seed: int) -> list[list[int]]:
        """Cuts sentences into subwords anew, with merges left out at random.

        It is BPE-dropout (Provilkov et al., 2020): a model that is trained on other subwords of the
        same words each time learns what they are made of. For a model of model_type "bpe".

        Args:
            ids: The subwords of each sentence, without bos, eos and unk.
            rate: The probability of each merge to be left out, from 0 to 1.
            seed: The same gives the same subwords. It is SentencePiece's, of the whole process.

        >>> from keras_transformer.text import train_sentencepiece
        >>> tokenizer = SentencePieceTokenizer(train_sentencepiece(["ab ab"], vocab_size=265))
        >>> [ids] = tokenizer.drop_merges(tokenizer.tokenize(["ab ab"]).to_list(), rate=1, seed=7)
        >>> tokenizer.id_to_piece(ids)
        ['▁', 'a', 'b', '▁', 'a', 'b']
        """
        sentencepiece.set_random_generator_seed(seed)
        # A thread starts from the seed, and it takes a second one to start from it again.
        return self._processor.encode(
            self._processor.decode(ids),
            enable_sampling=True,
            alpha=rate,
            nbest_size=-1,
            num_threads=1,
        )

    # The ops are TensorFlow Text's, by their names, because its Python class would put the model
    # into the graph, and load it, once for each place that uses it. The shared name makes one
    # resource of them all, which outlives TensorFlow's cache of eager kernels, emptied by
    # keras.utils.set_random_seed. The options of a call are kept as its state, which concurrent
    # calls with others would change: all calls have them off.

    @tf.function(input_signature=[])
    def _resource(self):
        name = hashlib.sha256(self.model).hexdigest().encode()
        return _op("SentencepieceOp", [], [tf.resource], model=self.model, shared_name=name)[0]

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string)])
    def _tokenize(self, text):
        inputs = [self._resource(), text, _NBEST_SIZE, _ALPHA, *_OPTIONS]
        return tf.RaggedTensor.from_row_splits(
            *_op("SentencepieceTokenizeOp", inputs, [tf.int32, tf.int64]), validate=False
        )

    @tf.function(input_signature=[tf.RaggedTensorSpec([None, None], tf.int32)])
    def _join(self, ids):
        inputs = [self._resource(), ids.values, ids.row_splits, *_OPTIONS]
        return _op("SentencepieceDetokenizeOp", inputs, [tf.string])[0]

    @tf.function(input_signature=[tf.TensorSpec([None], tf.int32)])
    def _pieces(self, ids):
        return _op("SentencepieceIdToStringOp", [self._resource(), ids], [tf.string])[0]


def _op(name, inputs, dtypes, **attributes):
    """Add an op to the graph that is being traced, and return its outputs."""
    attrs = {key: tf.compat.v1.AttrValue(s=value) for key, value in attributes.items()}
    inputs = [tf.convert_to_tensor(value) for value in inputs]
    return tf.compat.v1.get_default_graph().create_op(name, inputs, dtypes, attrs=attrs).outputs


def _load(model: bytes) -> sentencepiece.SentencePieceProcessor:
    processor = sentencepiece.SentencePieceProcessor()
    try:
        processor.LoadFromSerializedProto(model)
    except RuntimeError as error:
        raise ValueError(
            f"model must be the bytes of a SentencePiece model, received {len(model)} bytes that "
            f"are not one ({error}). Read them from a file that spm_train or train_sentencepiece "
            "made."
        ) from error
    received = (processor.pad_id(), processor.unk_id(), processor.bos_id(), processor.eos_id())
    if received != (PAD_ID, UNK_ID, BOS_ID, EOS_ID):
        raise ValueError(
            "a SentencePiece model must have pad 0, unk 1, bos 2 and eos 3, received "
            "pad {}, unk {}, bos {} and eos {}. Train it with train_sentencepiece, or give "
            "spm_train --pad_id=0 --unk_id=1 --bos_id=2 --eos_id=3.".format(*received)
        )
    return processor
