"""Word alignments: which words of a text each word of its translation comes from."""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from keras_transformer.config import EOS_ID, PAD_ID, TransformerConfig
from keras_transformer.model import Transformer
from keras_transformer.text import Tokenizer
from keras_transformer.text.base import is_language_tag
from keras_transformer.translation.teacher_forcing import decode_whole, in_parts
from keras_transformer.utils.progress import progress

_LEAST_PAIRS, _MOST_PAIRS = 100, 500
"""The number of pairs that a head is chosen on."""
_BATCH_SIZE = 64
_NO_WORD = -1


class Alignments(NamedTuple):
    """Links between the words of texts and of their translations."""

    links: list[list[tuple[int, int]]]
    """For each pair, its links in order: a word of the text and one of the translation, from 0."""
    head: str
    """The attention head that they are from, such as "2.1.input"."""


class Tokens(NamedTuple):
    """The tokens of a text, and the words that they are parts of."""

    ids: np.ndarray
    """int32 [T], with eos and perhaps a language."""
    words: np.ndarray
    """The number of the word of each token, [T]; -1 for eos, languages and tags."""


def split_words(
    tokenizer: Tokenizer,
    texts: Sequence[str],
    max_length: int,
    language: int | None = None,
    language_comes_last: bool = False,
) -> list[Tokens]:
    """Return the tokens of each text. Its words are separated by white space.

    Args:
        tokenizer: The tokenizer.
        texts: The texts.
        max_length: The most tokens of a text, eos and a language included; the rest is cut off.
        language: The id of the language, which is the first token of each text.
        language_comes_last: Whether the language follows eos instead.
    """
    before: list[int] = []
    after = [EOS_ID]
    if language is not None:
        (after if language_comes_last else before).append(language)
    most = max_length - len(before + after)
    words = [text.split() for text in texts]
    # Lone surrogates, as in a wrongly decoded file name, have no UTF-8 encoding.
    flat = [word.encode("utf-8", "surrogatepass") for text in words for word in text]
    # Tokens do not cross white space, so those of a text are those of its words.
    rows = tokenizer.tokenize(tf.constant(flat, tf.string), max_length)
    pieces = tokenizer.id_to_piece(range(tokenizer.vocab_size))
    tags = [i for i, piece in enumerate(pieces) if is_language_tag(piece)]
    ids, limits = rows.values.numpy(), rows.row_splits.numpy()
    found, first = [], 0
    for text in words:
        ends = limits[first : first + len(text) + 1]
        own = ids[ends[0] : ends[-1]][:most]
        places = np.repeat(np.arange(len(text)), np.diff(ends))[:most]
        places = np.where(np.isin(own, tags), _NO_WORD, places)
        around = (len(before), len(after))
        found.append(
            Tokens(
                np.array([*before, *own, *after], np.int32),
                np.pad(places, around, constant_values=_NO_WORD),
            )
        )
        first += len(text)
    return found


def head_names(config: TransformerConfig) -> list[str]:
    """Return the names of the heads whose weights can be alignments: layer.head.step, from 1.

    The step is the one that reads a token of the translation, "input" (Chen et al., 2020), or the
    one that predicts it, "output". The head "mean" has the mean weights of its layer.

    >>> head_names(TransformerConfig(vocab_size=8, num_layers=1, d_model=8, num_heads=1))
    ['1.1.input', '1.mean.input', '1.1.output', '1.mean.output']
    """
    heads = [*range(1, config.decoder_heads + 1), "mean"]
    return [
        f"{layer + 1}.{head}.{step}"
        for step in ("input", "output")
        for layer in range(config.decoder_layers)
        for head in heads
    ]


def attended_tokens(model: Transformer, source: tf.Tensor, target: tf.Tensor) -> tf.Tensor:
    """Return the place of the source token with the largest weight for each target token.

    Args:
        model: The model.
        source: int32 [B, S], with eos.
        target: int32 [B, T], with eos.

    Returns:
        int32 [B, heads, T], with the heads of `head_names`. For "input", the last one is undefined.
    """
    count = len(head_names(model.config))

    def attended(source, target):
        _, layers = decode_whole(model, source, target)
        weights = tf.stack([tf.cast(cross, tf.float32) for _, cross in layers], axis=1)
        weights = tf.concat([weights, tf.reduce_mean(weights, axis=2, keepdims=True)], axis=2)
        output = tf.argmax(weights, axis=-1, output_type=tf.int32)
        # Step i + 1 reads the token that step i predicts.
        both = tf.stack([tf.roll(output, -1, axis=-1), output], axis=1)
        return tf.reshape(both, [-1, count, tf.shape(target)[1]])

    empty = tf.zeros([0, count, tf.shape(target)[1]], tf.int32)
    return in_parts(attended, source, target, empty, model.config.target_size)


def check_head(head: str | None, names: Sequence[str], texts: Sequence[str]) -> None:
    """Raise a ValueError if there is no such head, or not enough text to choose one on.

    Args:
        head: The name of a head; None if one is to be chosen.
        names: The names of all heads.
        texts: The texts.
    """
    if head is not None and head not in names:
        raise ValueError(
            "The alignment head must be a layer, a head and a step of the decoder, from "
            f"{names[0]} to {names[-1]}, received {head!r}."
        )
    count = sum(bool(text.split()) for text in texts)
    if head is None and count < _LEAST_PAIRS:
        raise ValueError(
            f"An alignment head is chosen on at least {_LEAST_PAIRS} pairs of text, received "
            f"{count}. Align other text first, such as the validation text, and give the head that "
            "is chosen for it."
        )


def align_words(
    attended: Callable[[np.ndarray, np.ndarray], tf.Tensor],
    sources: Sequence[Tokens],
    targets: Sequence[Tokens],
    names: Sequence[str],
    head: str | None,
) -> Alignments:
    """Return the links of pairs of texts.

    Args:
        attended: Returns what `attended_tokens` does.
        sources: The tokens of the texts.
        targets: The tokens of their translations.
        names: The names of the heads.
        head: The head; by default, one is chosen on the first 500 pairs.
    """
    both = zip(sources, targets, strict=True)
    pairs = [i for i, (s, t) in enumerate(both) if min(s.words.max(), t.words.max()) != _NO_WORD]
    if head is None:
        head = names[_best_head(attended, sources, targets, pairs[:_MOST_PAIRS])]
    index = names.index(head)
    links: list[list[tuple[int, int]]] = [[] for _ in sources]
    with progress("aligning", "pairs") as advance:
        for i, places in _in_batches(attended, sources, targets, pairs):
            words = zip(sources[i].words[places[index]], targets[i].words[:-1], strict=True)
            links[i] = sorted({(int(s), int(t)) for s, t in words if min(s, t) != _NO_WORD})
            advance(1)
    return Alignments(links, head)


def _in_batches(
    attended: Callable[[np.ndarray, np.ndarray], tf.Tensor],
    sources: Sequence[Tokens],
    targets: Sequence[Tokens],
    pairs: Sequence[int],
) -> Iterator[tuple[int, np.ndarray]]:
    """Yield the number of each pair, and the places [heads, T] that its tokens attend to."""
    order = sorted(pairs, key=lambda i: len(sources[i].ids) + len(targets[i].ids))
    for start in range(0, len(order), _BATCH_SIZE):
        batch = order[start : start + _BATCH_SIZE]
        found = attended(*(_padded([side[i].ids for i in batch]) for side in (sources, targets)))
        for i, places in zip(batch, found.numpy(), strict=True):
            yield i, places[:, : len(targets[i].ids) - 1]


def _padded(rows: Sequence[np.ndarray]) -> np.ndarray:
    padded = np.full((len(rows), max(map(len, rows))), PAD_ID, np.int32)
    for row, ids in zip(padded, rows, strict=True):
        row[: len(ids)] = ids
    return padded


def _best_head(
    attended: Callable[[np.ndarray, np.ndarray], tf.Tensor],
    sources: Sequence[Tokens],
    targets: Sequence[Tokens],
    pairs: Sequence[int],
) -> int:
    """Return the head whose links, read as a dictionary, predict the translations best."""
    found = dict(_in_batches(attended, sources, targets, pairs))
    linked = np.concatenate([sources[i].ids[found[i]] for i in pairs], axis=1)
    target = np.concatenate([targets[i].ids[:-1] for i in pairs])
    pair = np.repeat(np.arange(len(pairs)), [len(targets[i].ids) - 1 for i in pairs])
    return int(np.argmax([_log_likelihood(pair, source, target) for source in linked]))


def _log_likelihood(pair: np.ndarray, source: np.ndarray, target: np.ndarray) -> float:
    """Return the mean log-probability of target tokens [N], given the source tokens of their links.

    The probabilities are relative frequencies in the other pairs, smoothed by those of the target
    tokens alone, so that it is no merit to link the same words in one pair only.
    """

    def elsewhere(*columns):
        return _count(*columns) - _count(pair, *columns)

    alone = (elsewhere(target) + 1) / (len(pair) - _count(pair) + len(np.unique(target)))
    return np.log((elsewhere(source, target) + alone) / (elsewhere(source) + 1)).mean()


def _count(*columns: np.ndarray) -> np.ndarray:
    """Return how often each row of some columns [N] of integers occurs.

    >>> _count(np.array([1, 1, 1]), np.array([7, 8, 7]))
    array([2, 1, 2])
    """
    rows = np.zeros(len(columns[0]), np.int64)
    for column in columns:
        rows = rows * (column.max() + 1) + column
    _, inverse, counts = np.unique(rows, return_inverse=True, return_counts=True)
    return counts[inverse]
