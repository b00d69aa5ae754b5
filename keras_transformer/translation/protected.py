"""Translation that keeps spans of the source, and uses given terms, whatever the model predicts.

There are three ways, each for the texts whose spans the one before has lost, or whose tags it does
not nest as the source does:

1. If the vocabulary has user symbols, spans become symbols, which the search must place, and come
   back as they were. Otherwise, the model translates the text as it is.
2. What is between the spans is translated, piece by piece.
3. The source itself is the translation.

The same expressions that find the spans of the source find those of a translation, and count them.
A text in capitals is translated in lowercase, which a model knows better, and written in capitals
again.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from keras_transformer.config import PAD_ID
from keras_transformer.text import SentencePieceTokenizer, Tokenizer
from keras_transformer.text.protection import (
    Protection,
    cut_edges,
    in_capitals,
    is_named,
    is_odd,
    join,
    lower,
    place_accelerators,
    upper,
)
from keras_transformer.translation.sentencewise import cut_tag, in_batches

_ANY_NUMBER = 2**20
_TAG = r"</?[A-Za-z0-9](?:[^<]*[^</])?>"
"""One tag; with a < inside, a span is more, such as <code>x</code>."""
_VOID = r"(?is)</?(?:br|hr|img|input|wbr)\b.*"
"""Tags that have no content, and close nothing."""
_NAME = r"(?s)^</?(?:([biuvc]|lang|ruby|rt)\.|([\w:.-]*)).*$"
"""The name of a tag; in subtitles, `</c>` closes `<c.red>`."""
_ADDED = r"(?s)[0-9]+ [<{$%].*"
"""Tags and placeholders, after the number of their text."""
_OPENING, _CLOSING, _OTHER = range(3)
_ONE_BYTE = "<0x01>"
"""The piece that stands for a kept symbol between search and text."""

SearchIds = Callable[[tf.Tensor, tf.Tensor | None], tf.Tensor]
"""`search(text, kept) -> ids` of texts [B], with the counts of `KeptTokensStep`."""


class Symbols(NamedTuple):
    """The user symbols of a vocabulary that can stand for spans.

    Attributes:
        names: The K symbols.
        source_ids: Their ids in the source vocabulary.
        target_ids: Their ids in the target vocabulary.
        is_span: bool [K], which of them are spans; others, such as ~, may occur anywhere.
        stand_ins: For opening tags, closing tags and other spans, in this order, the numbers of
            the symbols that can replace one. Those of the first two belong together.
    """

    names: list[str]
    source_ids: list[int]
    target_ids: list[int]
    is_span: np.ndarray
    stand_ins: tuple[list[int], list[int], list[int]]


def find_symbols(source: Tokenizer, target: Tokenizer, protection: Protection) -> Symbols | None:
    """Return the user symbols of both vocabularies, or None if no placeholder is among them."""
    for tokenizer in (source, target):
        if not isinstance(tokenizer, SentencePieceTokenizer) or not tokenizer.user_symbols:
            return None
    places = [
        {piece: i for i, piece in enumerate(x.id_to_piece(range(x.vocab_size)))}
        for x in (source, target)
    ]
    if _ONE_BYTE not in places[1]:
        return None
    names = [name for name in source.user_symbols if name in target.user_symbols]
    everything = tf.fill([len(names)], "all")
    pieces, _ = protection.split(names, everything, tf.fill([len(names)], ""))
    is_span = np.array(
        [
            # Whether an opening tag is one depends on the text after it.
            name[0] == "<" or row[1:2] == [name.encode()]
            for row, name in zip(pieces.to_list(), names, strict=True)
        ]
    )
    numbers = {name: i for i, name in enumerate(names)}
    pairs = [
        (i, numbers[closing])
        for name, i in numbers.items()
        if name[0] == "<" and (closing := f"</{name[1:]}") in numbers
    ]
    others = [
        i for i, name in enumerate(names) if is_span[i] and name[0] not in "<&\\" and name != "%%"
    ]
    if not others:
        return None
    stand_ins = [first for first, _ in pairs], [last for _, last in pairs], others
    source_ids, target_ids = ([ids[name] for name in names] for ids in places)
    return Symbols(names, source_ids, target_ids, is_span, stand_ins)


class ProtectedTranslation:
    """Translates texts so that their spans and terms are kept.

    Args:
        source: The tokenizer of the source.
        target: The tokenizer of the target.
        max_source_length: The most tokens of a text that the model reads, eos included.
        protect: What `DecodingConfig.protect` names.

    Attributes:
        symbols: The symbols that stand for spans, if there are any.
        kept_tokens: Their ids in the target.

    Call arguments:
        search: Finds the ids of translations.
        text: string [B].
        protect: string [B], the names of kinds of spans.
        terms: string [B]; see `Protection.split`.

    Returns:
        The translations, string [B].
    """

    def __init__(
        self, source: Tokenizer, target: Tokenizer, max_source_length: int, protect: str = ""
    ):
        self._max_source_length = max_source_length
        self._source, self._target = source, target
        self._protection = Protection(protect)
        self.symbols = find_symbols(source, target, self._protection)
        self.kept_tokens = self.symbols.target_ids if self.symbols else []

    def __call__(
        self, search: SearchIds, text: tf.Tensor, protect: tf.Tensor, terms: tf.Tensor
    ) -> tf.Tensor:
        text = tf.strings.unicode_transcode(text, "UTF-8", "UTF-8")
        tag, rest = cut_tag(text, self._source)
        before, middle, after = cut_edges(rest)
        is_on = tf.strings.regex_full_match(tf.strings.join([protect, terms]), r"(?s).*\S.*")
        before, after = (tf.where(is_on, edge, "") for edge in (before, after))
        middle = tf.where(is_on, middle, rest)
        pieces, is_term = self._protection.split(middle, protect, terms)
        terms_of = tf.cast(is_term, tf.int32)
        no_term = tf.math.unsorted_segment_sum(terms_of, pieces.value_rowids(), pieces.nrows()) == 0
        lowered = is_named("capitals", protect) & in_capitals(pieces) & no_term
        source = join(pieces)
        pieces, lowered = self._lowercase(pieces, lowered, protect)
        middle = tf.where(lowered, join(pieces), middle)
        if self.symbols is None:
            ids = search(tf.strings.join([tag, middle]), None)
            output, is_kept = self._target.write(ids, middle), no_term
        else:
            output, is_kept = self._with_symbols(search, tag, middle, pieces, is_on)
        # The white space at the edges is that of the source.
        output = tf.where(is_on, cut_edges(output)[1], output)
        # With the targets of terms, which may contain spans.
        plain = join(pieces)

        def keeps(expected, found, rows):
            edges = tf.gather(before, rows), tf.gather(after, rows)
            sides = (tf.strings.join([edges[0], each, edges[1]]) for each in (expected, found))
            return self._keeps(*sides, tf.gather(protect, rows))

        is_kept &= keeps(plain, output, tf.range(tf.size(text)))
        bad = tf.where(~is_kept)[:, 0]

        def repair():
            found = self._between(search, tf.gather(tag, bad), tf.gather(pieces, bad))
            found = cut_edges(found)[1]
            expected = tf.gather(plain, bad)
            found = tf.where(keeps(expected, found, bad), found, expected)
            return tf.tensor_scatter_nd_update(output, bad[:, tf.newaxis], found)

        output = tf.cond(tf.size(bad) > 0, repair, lambda: output)
        capitals = self._uppercase(output, lowered, protect)
        output = tf.where(lowered & (output == plain), source, capitals)
        output = self._with_accelerators(plain, output, protect)
        return tf.strings.join([before, output, after])

    def _lowercase(self, pieces, chosen, protect):
        """Return the pieces, of chosen texts [B] in lowercase, and for which of these it works."""

        def change():
            changed = lower(pieces)
            works = chosen & self._keeps(join(pieces), join(changed), protect)
            is_changed = tf.gather(works, pieces.value_rowids())
            return tf.where(is_changed, changed.values, pieces.values), works

        values, works = tf.cond(tf.reduce_any(chosen), change, lambda: (pieces.values, chosen))
        return pieces.with_values(values), works

    def _uppercase(self, output, chosen, protect):
        """Return outputs [B], the chosen ones in uppercase where that changes no span."""

        def change():
            none = tf.fill(tf.shape(output), "")
            changed = join(upper(self._protection.split(output, protect, none)[0]))
            return tf.where(chosen & self._keeps(output, changed, protect), changed, output)

        return tf.cond(tf.reduce_any(chosen), change, lambda: output)

    def _with_accelerators(self, source, output, protect):
        """Return outputs [B] with the accelerators of sources, where these are protected."""
        has_accelerators = is_named("accelerators", protect)

        def place():
            none = tf.fill(tf.shape(output), "")
            sides = (self._protection.split(each, protect, none)[0] for each in (source, output))
            placed = place_accelerators(*sides)
            is_right = has_accelerators & self._keeps(output, placed, protect)
            return tf.where(is_right, placed, output)

        return tf.cond(tf.reduce_any(has_accelerators), place, lambda: output)

    def _keeps(self, text, output, protect):
        """Return whether outputs have the spans of texts as often, and tags nest, bool [B].

        They may have others, such as numbers, but no tags and placeholders.
        """
        none = tf.fill(tf.shape(text), "")
        sides, nested = [], []
        for each in (text, output):
            pieces, _ = self._protection.split(each, protect, none)
            is_span = is_odd(pieces)
            rows = tf.boolean_mask(pieces.value_rowids(), is_span)
            spans = tf.boolean_mask(pieces.values, is_span)
            nested.append(_nests(rows, spans, tf.size(text)))
            sides.append((rows, tf.strings.join([tf.strings.as_string(rows), spans], " ")))
        (rows, spans), (rows_of_found, found) = sides
        distinct, index = tf.unique(tf.concat([spans, found], axis=0))
        given, translated = index[: tf.size(spans)], index[tf.size(spans) :]
        counts = [
            tf.math.unsorted_segment_sum(tf.ones_like(side), side, tf.size(distinct))
            for side in (given, translated)
        ]
        counts_differ = tf.gather(counts[0] != counts[1], index)
        must_not_be_added = tf.strings.regex_full_match(found, _ADDED)
        is_checked = tf.concat([tf.fill(tf.shape(spans), True), must_not_be_added], axis=0)
        is_wrong = tf.cast(counts_differ & is_checked, tf.int32)
        every = tf.concat([rows, rows_of_found], axis=0)
        is_kept = tf.math.unsorted_segment_sum(is_wrong, every, tf.size(text)) == 0
        return is_kept & (nested[1] | ~nested[0])

    def _between(self, search, tag, pieces):
        """Return texts [B] of which only what is between the spans is translated."""
        before, middle, after = cut_edges(pieces.values)
        has_letter = tf.strings.regex_full_match(middle, r"(?s).*\pL.*")
        places = tf.where(has_letter & ~is_odd(pieces))
        texts = tf.gather(
            tf.strings.join([tf.gather(tag, pieces.value_rowids()), middle]), places[:, 0]
        )

        def translate(part):
            kept = None
            if self.symbols is not None:
                kept = tf.stack([[0] * len(self.symbols.names), self._most()])
                kept = tf.repeat(kept[tf.newaxis], tf.size(part), axis=0)
            return self._target.write(search(part, kept), part)

        found = in_batches(translate, texts)
        middle = tf.tensor_scatter_nd_update(middle, places, cut_edges(found)[1])
        return join(pieces.with_values(tf.strings.join([before, middle, after])))

    def _most(self):
        """Return how often each symbol may occur where no span is, int32 [K]."""
        return np.where(self.symbols.is_span, 0, _ANY_NUMBER).astype(np.int32)

    def _with_symbols(self, search, tag, text, pieces, is_on):
        """Return translations [B] with symbols for spans, and whether these could be kept."""
        symbols, size = self.symbols, len(self.symbols.names)
        spans = tf.where(is_odd(pieces))
        values, rows = (tf.gather_nd(x, spans) for x in (pieces.values, pieces.value_rowids()))
        numbers, is_symbol, fits = self._choose(symbols, tf.strings.join([tag, text]), values, rows)
        batch = tf.size(text)
        cells = tf.stack([tf.cast(rows, tf.int32), numbers], axis=1)
        fewest = tf.scatter_nd(cells, tf.ones_like(numbers), [batch, size])
        names = tf.constant(symbols.names)
        replaced = tf.tensor_scatter_nd_update(pieces.values, spans, tf.gather(names, numbers))
        written = tf.strings.join([tag, join(pieces.with_values(replaced))])
        counted = self._count(self._tokenize(written), symbols.source_ids)
        most = tf.where(symbols.is_span & is_on[:, tf.newaxis], counted, _ANY_NUMBER)
        # Each is a token that the model reads, so the search has room for it.
        fits &= tf.reduce_all(fewest <= counted, axis=1)
        # The number of symbols must be static.
        kept = tf.reshape(tf.stack([fewest, most], axis=1), [-1, 2, size])
        fitting = tf.where(fits)
        ids = search(tf.gather_nd(written, fitting), tf.gather_nd(kept, fitting))
        ids = tf.scatter_nd(fitting, ids, [batch, tf.shape(ids)[1]])
        found = self._count(ids, symbols.target_ids)
        fits &= tf.reduce_all(found >= fewest, axis=1)
        # What each symbol of a text stands for.
        stands = tf.tile(names[tf.newaxis], [batch, 1])
        others = tf.where(~is_symbol)
        stands = tf.tensor_scatter_nd_update(
            stands, tf.gather_nd(cells, others), tf.gather_nd(values, others)
        )
        return self._put_back(symbols, ids, stands, fewest > 0, text), fits

    def _choose(self, symbols, text, spans, rows):
        """Return the symbols of spans.

        Args:
            symbols: The symbols.
            text: string [B].
            spans: string [N].
            rows: int64 [N], their texts.

        Returns:
            Their numbers int32 [N], whether they are the spans themselves, bool [N], and whether
            there are enough for each text, bool [B].
        """
        is_name = spans[:, tf.newaxis] == tf.constant(symbols.names)
        numbers = tf.argmax(tf.cast(is_name, tf.int32), axis=1, output_type=tf.int32)
        kind, partner, _ = _find_pairs(rows, spans)
        is_symbol = tf.reduce_any(is_name, axis=1)
        is_symbol &= tf.gather(is_symbol, partner)  # Tags that belong together are replaced both.
        places = tf.range(tf.size(spans))
        closes = kind == _CLOSING
        first = tf.where(closes, partner, places)
        is_free = self._count(self._tokenize(text), symbols.source_ids) == 0
        fits = tf.fill([tf.size(text)], True)
        *tags, others = symbols.stand_ins
        for choices, is_kind in ((tags, kind != _OTHER), ([others], kind == _OTHER)):
            is_replaced = is_kind & ~is_symbol
            leading = tf.where(is_replaced & (first == places))
            rank = _ranks(tf.gather_nd(rows, leading), tf.size(text))
            rank = tf.gather(tf.scatter_nd(leading, rank, [tf.size(spans)]), first)
            count = tf.zeros_like(rank)
            if choices[0]:
                free = tf.stack([tf.gather(is_free, each, axis=1) for each in choices])
                free = tf.cast(tf.reduce_all(free, axis=0), tf.int32)
                size = len(choices[0])
                order = tf.math.top_k(free * np.arange(size, 0, -1, np.int32), size)[1]
                chosen = tf.minimum(rank, size - 1)
                chosen = tf.gather_nd(order, tf.stack([tf.cast(rows, tf.int32), chosen], axis=1))
                opening, closing = (tf.gather(choices[i], chosen) for i in (0, -1))
                numbers = tf.where(is_replaced, tf.where(closes, closing, opening), numbers)
                count = tf.gather(tf.reduce_sum(free, axis=1), rows)
            is_short = tf.cast(is_replaced & (rank >= count), tf.int32)
            fits &= tf.math.unsorted_segment_sum(is_short, rows, tf.size(text)) == 0
        return numbers, is_symbol, fits

    def _tokenize(self, text):
        return self._source.tokenize(text, self._max_source_length - 1).to_tensor(PAD_ID)

    def _count(self, ids, tokens):
        """Return how often tokens occur in ids [B, T], int32 [B, K]."""
        table = np.full(max(tokens) + 2, len(tokens), np.int32)
        table[list(tokens)] = np.arange(len(tokens))
        places = tf.gather(table, tf.clip_by_value(ids, 0, len(table) - 1))
        return tf.raw_ops.DenseBincount(
            input=places, size=len(tokens), weights=tf.zeros([0], tf.int32), binary_output=False
        )

    def _put_back(self, symbols, ids, stands, is_kept, text):
        """Return the texts [B] of ids, with what symbols stand for, string [B, K]."""
        mark = self._target.id_to_piece(range(self._target.vocab_size)).index(_ONE_BYTE)
        table = np.full(max(symbols.target_ids) + 2, len(symbols.names), np.int32)
        table[symbols.target_ids] = np.arange(len(symbols.names))
        numbers = tf.gather(table, tf.clip_by_value(ids, 0, len(table) - 1))
        is_put = tf.gather(tf.pad(is_kept, [[0, 0], [0, 1]]), numbers, batch_dims=1)
        ids = tf.where(is_put, mark, tf.where(ids == mark, PAD_ID, ids))
        parts = tf.strings.split(self._target.write(ids, text), sep="\x01").to_tensor("")
        stands = tf.pad(stands, [[0, 0], [0, 1]], constant_values="")
        put = tf.ragged.boolean_mask(tf.gather(stands, numbers, batch_dims=1), is_put)
        count = tf.shape(parts)[1]  # One more than are put back.
        put = tf.pad(put.to_tensor(""), [[0, 0], [0, count]], constant_values="")[:, :count]
        return tf.strings.reduce_join(tf.strings.join([parts, put]), axis=1)


def _find_pairs(rows, spans):
    """Return which spans are tags, which of these belong together, and which must do so.

    Args:
        rows: int64 [N], the texts of spans, ascending.
        spans: string [N].

    Returns:
        `_OPENING`, `_CLOSING` or `_OTHER`, int32 [N]; the places of the tags that each closes or
        that close it, or their own, int32 [N]; and whether a text closes all tags of the name,
        bool [N].
    """
    is_tag = tf.strings.regex_full_match(spans, _TAG) & ~tf.strings.regex_full_match(spans, _VOID)
    closes = is_tag & tf.strings.regex_full_match(spans, "(?s)</.*")
    names = tf.strings.regex_replace(spans, _NAME, r"\1\2")
    of_text = tf.strings.join([tf.strings.as_string(rows), names], " ")
    distinct, index = tf.unique(of_text)
    balance = tf.where(is_tag, tf.where(closes, -1, 1), 0)
    is_closed = tf.math.unsorted_segment_sum(balance, index, tf.size(distinct)) == 0
    is_closed = is_tag & tf.gather(is_closed, index)
    kind = tf.where(is_tag, tf.where(closes, _CLOSING, _OPENING), _OTHER)
    tags = tf.cast(tf.where(is_closed)[:, 0], tf.int32)
    rows, closes, names = (tf.gather(each, tags) for each in (rows, closes, names))
    # Within a depth, tags open and close in turn.
    size = tf.size(tags, tf.int64)
    depth = tf.cumsum(tf.where(closes, tf.constant(-1, tf.int64), 1)) + tf.cast(closes, tf.int64)
    group = rows * (2 * size + 1) + depth
    order = tf.argsort(group, stable=True)
    group, closes, names, tags = (tf.gather(each, order) for each in (group, closes, names, tags))
    is_second = _ranks(tf.unique(group)[1], tf.size(tags)) % 2 == 1
    places = tf.range(size)
    other = tf.where(is_second, places - 1, tf.minimum(places + 1, size - 1))
    is_pair = closes == is_second
    for each in (is_pair, group, names):
        is_pair &= tf.gather(each, other) == each
    partner = tf.where(is_pair, tf.gather(tags, other), tags)
    places = tf.range(tf.size(spans))
    return kind, tf.tensor_scatter_nd_update(places, tags[:, tf.newaxis], partner), is_closed


def _nests(rows, spans, batch):
    """Return whether tags of texts, but for names that these leave open, nest, bool [B]."""
    _, partner, is_closed = _find_pairs(rows, spans)
    is_alone = is_closed & (partner == tf.range(tf.size(spans)))
    return tf.math.unsorted_segment_sum(tf.cast(is_alone, tf.int32), rows, batch) == 0


def _ranks(rows, batch):
    """Return the number of each item among those of its row, for ascending rows [N], int32 [N]."""
    places = tf.range(tf.size(rows))
    counts = tf.math.unsorted_segment_sum(tf.ones_like(places), rows, batch)
    return places - tf.gather(tf.cumsum(counts, exclusive=True), rows)
