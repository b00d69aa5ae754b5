import functools
import itertools

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_transformer.decoding import (
    beam_search,
    greedy_search,
    repeat_rows,
    sample_search,
    take_rows,
)
from keras_transformer.decoding.kept_tokens import KeptTokensStep
from keras_transformer.decoding.search import Stages
from keras_transformer.decoding.tree_rules import TreeStep, TreeTokens
from keras_transformer.model import Transformer
from keras_transformer.translation.model_step import ModelStep
from keras_transformer.trees import WORD, delinearize

# 0 to 2 are padding, unk and bos; 11 is another token that is in no tree.
SYMBOLS = dict(enumerate([WORD, "(S", ")S", "(NP", ")NP", "(VP", ")VP"], start=4))
TOKENS = TreeTokens(opens=[5, 7, 9], closes=[6, 8, 10], words=[4])
TAGGED = TreeTokens(opens=[5, 7, 9], closes=[6, 8, 10], words=[4, 12], tags=[14, 13])
KINDS, NAMES = [TOKENS, TAGGED], ["plain", "tagged"]
WAYS = ["plain", "select", "compiled"]
KEPT = [9, 4, 7]
EOS, VOCAB = 3, 15


def logits_after(keys, ids, position):
    """Return logits [R, V] that are a hash of their arguments, exact on every machine."""
    numbers = keys[:, tf.newaxis] * 40503 + ids[:, tf.newaxis] * 7919
    numbers += position * 104729 + tf.range(VOCAB) * 6700417
    for shift in (15, 13, 16):
        numbers = tf.bitwise.bitwise_xor(numbers, tf.bitwise.right_shift(numbers, shift))
        numbers *= 0x45D9F3B
    return tf.cast(numbers % 2**20, tf.float32) * 8 / 2**20


def random_step(beam_size):
    """Return a step whose state are a key [B] and a preference [B, V] of each sentence."""

    def step(ids, parents, position, state):
        keys, preference = repeat_rows(state, beam_size)
        return preference + logits_after(keys, ids, position), state

    return step


def random_sentences(seed, batch, longest, tokens=TOKENS):
    """Return the number of words and the limit of sentences, and the state of `random_step`.

    Some prefer words and some brackets, so that trees are flat and deep, short and long.
    """
    random = np.random.default_rng(seed)
    words = random.integers(1, longest + 1, batch)
    limits = tokens.shortest(words) + random.integers(0, 4 * words + 2)
    preference = random.normal(0, 4, [batch, VOCAB])
    keys = random.integers(1, 10**6, batch)
    return np.int32(words), np.int32(limits), (np.int32(keys), np.float32(preference))


def search(
    words,
    limits,
    state,
    *,
    tokens=TOKENS,
    beam_size=None,
    way="plain",
    samples=None,
    style="paper",
    **options,
):
    """Return the result of greedy search, or beam search, or samples, in a graph.

    Without tokens of trees, `words` are the counts of `KEPT`.
    """
    rows = beam_size or samples or 1
    room = int(max(limits))
    lengths = (room // 3 + 1, room // 2 + 2, room + 3)
    stages = Stages(lengths, lambda state, length: state) if way == "compiled" else None
    select = take_rows if way == "select" else None

    @tf.function(autograph=False, jit_compile=way == "compiled")
    def run(words, limits, keys, preference):
        common = {"max_lengths": limits, "beam_size": rows, **options}
        if tokens is None:
            step = KeptTokensStep(random_step(rows), KEPT, counts=words, **common)
        else:
            step = TreeStep(random_step(rows), tokens, num_words=words, **common)
        state = step.initial_state((keys, preference))
        common = {"stages": step.stages(stages), "select": step.select(select), "style": style}
        if samples:
            keys = tf.cast(keys, tf.int64)
            common |= {"num_samples": samples, "keys": keys, "temperature": 3.0}
            return sample_search(step, state, max_lengths=limits, **common)
        if not beam_size:
            return greedy_search(step, state, max_lengths=limits, **common)
        common |= {"beam_size": beam_size, "num_hypotheses": beam_size}
        return beam_search(step, state, max_lengths=limits, **common)

    return run(*map(tf.constant, (words, limits, *state)))


def without_numbers(ids, tokens):
    """Return the symbols of a sequence, after a check of the numbers and tags of its words."""
    symbols, numbers, left = [], itertools.cycle(tokens.words), iter(ids)
    for token in left:
        is_word = token in tokens.words
        symbols.append(WORD if is_word else SYMBOLS.get(token, token))
        if is_word:
            assert token == next(numbers)
            assert not tokens.tags or next(left) in tokens.tags
    return symbols


def check(result, words, limits, max_depth=64, max_opened=8, tokens=TOKENS):
    """Assert that each result is a tree over its words, within all limits; return their number."""
    ids, lengths = result.ids.numpy(), result.lengths.numpy()
    count = 0
    for sentence, beam in np.ndindex(*lengths.shape):
        length = lengths[sentence, beam]
        if beam and not length:
            continue  # There are fewer trees within the limit than beams.
        symbols = without_numbers(ids[sentence, beam, :length].tolist(), tokens)
        assert symbols.pop() == EOS and length <= limits[sentence]
        delinearize(symbols, ["word"] * words[sentence])
        assert highest(symbols) <= max_depth and longest_run(symbols) <= max_opened
        count += 1
    return count


def highest(tokens):
    """Return the most open brackets."""
    return max(itertools.accumulate({"(": 1, ")": -1}.get(token[0], 0) for token in tokens))


def longest_run(tokens):
    """Return the most brackets that open one after the other."""
    runs = itertools.groupby(token[0] == "(" for token in tokens)
    return max(len(list(run)) for opens, run in runs if opens)


# The number of sentences, their longest, and the share of beams with a tree within the limits.
SOME = 50, 20, 1 / 3, {"max_depth": 9, "max_opened": 3}
MANY = 1000, 120, 0.9, {"max_depth": 64, "max_opened": 8}


@pytest.mark.parametrize(
    ("way", "sizes"),
    [
        ("plain", SOME),
        ("select", SOME),
        pytest.param("compiled", SOME, marks=pytest.mark.slow),
        *(pytest.param(way, MANY, marks=pytest.mark.slow) for way in WAYS),
    ],
)
@pytest.mark.parametrize("beam_size", [None, 3])
@pytest.mark.parametrize("tokens", KINDS, ids=NAMES)
def test_every_result_is_a_tree_over_the_words_of_its_sentence(tokens, beam_size, way, sizes):
    batch, longest, share, options = sizes
    options = options | {"tokens": tokens}
    words, limits, state = random_sentences(1, batch, longest, tokens)
    result = search(words, limits, state, beam_size=beam_size, way=way, **options)
    assert check(result, words, limits, **options) >= batch * (beam_size or 1) * share


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("style", ["paper", "marian", "transformers"])
@pytest.mark.parametrize(
    ("kind", "way"),
    [
        *itertools.product([{}, {"beam_size": 3}, {"samples": 3}], ["plain", "select"]),
        *(
            pytest.param(kind, "compiled", marks=pytest.mark.slow)
            for kind in ({}, {"beam_size": 3}, {"samples": 3})
        ),
    ],
)
def test_kept_tokens_occur_as_often_as_they_should(kind, way, style, seed):
    random = np.random.default_rng(seed)
    _, _, state = random_sentences(seed, batch := 80, 20)
    fewest = random.integers(0, 4, [batch, 3]) * random.integers(0, 2, [batch, 1])
    most = fewest + random.choice([0, 0, 1, 100], [batch, 3])
    limits = np.int32(fewest.sum(1) + 1 + random.integers(0, 12, batch))
    counts = np.int32(np.stack([fewest, most], axis=1))
    result = search(counts, limits, state, tokens=None, way=way, style=style, **kind)
    found = np.stack([(result.ids.numpy() == token).sum(2) for token in KEPT], axis=2)
    exists = result.lengths.numpy()[:, :, np.newaxis] > 0
    assert (exists[:, 0]).all()
    assert (~exists | (found >= fewest[:, np.newaxis])).all()
    assert (~exists | (found <= most[:, np.newaxis])).all()
    assert (result.lengths.numpy() <= limits[:, np.newaxis]).all()


def test_samples_are_trees():
    words, limits, state = random_sentences(3, 40, 12)
    assert check(search(words, limits, state, samples=5), words, limits) == 200


def test_all_ways_to_run_a_search_return_the_same():
    words, limits, state = random_sentences(4, 40, 15)
    results = [search(words, limits, state, way=way) for way in WAYS]
    for result in results[1:]:
        longest = results[0].ids.shape[2]
        np.testing.assert_array_equal(result.ids[:, :, :longest], results[0].ids)
        np.testing.assert_array_equal(result.lengths, results[0].lengths)


@functools.cache
def forests(words, depth, labels):
    """Return all sequences of trees and words over a number of words, at most `depth` deep."""
    if not words:
        return [()]
    first = [(1, (WORD,))]
    if depth:
        first += [(n, tree) for n in range(1, words + 1) for tree in trees(n, depth, labels)]
    return [start + rest for n, start in first for rest in forests(words - n, depth, labels)]


@functools.cache
def trees(words, depth, labels):
    """Return all trees over a number of words, at least 1, that are at most `depth` deep."""
    inside = forests(words, depth - 1, labels)
    return [(f"({label}", *tokens, f"){label}") for label in labels for tokens in inside]


IDS = {symbol: token for token, symbol in SYMBOLS.items()}


def sequences(tree, tokens):
    """Return the ids of a tree, once for each choice of tags."""
    numbers = itertools.cycle(tokens.words)
    kinds = []
    for symbol in tree:
        kinds.append([next(numbers)] if symbol == WORD else [IDS[symbol]])
        if symbol == WORD and tokens.tags:
            kinds.append(tokens.tags)
    return [[*ids, EOS] for ids in itertools.product(*kinds)]


@settings(max_examples=20, deadline=None)
@given(
    words=st.integers(1, 3),
    depth=st.integers(1, 3),
    opened=st.integers(1, 3),
    spare=st.integers(0, 12),
    data=st.data(),
)
@pytest.mark.parametrize("tokens", KINDS, ids=NAMES)
def test_exactly_the_tokens_that_lead_to_a_tree_keep_their_logits(
    tokens, words, depth, opened, spare, data
):
    limit, beam_size = tokens.shortest(words) + spare, 3
    possible = [
        ids
        for tree in trees(words, depth, ("S", "NP", "VP"))
        for ids in sequences(tree, tokens)
        if len(ids) <= limit and longest_run(tree) <= opened
    ]
    logits = np.random.default_rng(1).normal(0, 9, [6, VOCAB]).astype(np.float32)
    step = TreeStep(
        lambda ids, parents, position, state: (tf.constant(logits), state),
        tokens,
        num_words=[words, 1],
        max_lengths=[limit, tokens.shortest(1)],
        beam_size=beam_size,
        max_depth=depth,
        max_opened=opened,
    )
    # All trees of the second sentence.
    flat = [ids for x in ("S", "NP", "VP") for ids in sequences([f"({x}", WORD, f"){x}"], tokens)]
    state, prefixes = step.initial_state(()), [[]] * 6
    parents, ids = range(6), [2] * 6
    for position in range(limit + 1):
        arguments = (np.int32(ids), np.int32(parents), np.int32(position))
        received, state = step(*map(tf.constant, arguments), state)
        allowed = [np.flatnonzero(row).tolist() for row in received.numpy() == logits]
        assert ((received == logits) | (received < logits - 9e5)).numpy().all()
        for row, prefix in enumerate(prefixes):
            complete = possible if row < beam_size else flat
            following = {
                seq[position] for seq in complete if seq[:position] == prefix and seq[position:]
            }
            assert allowed[row] == sorted(following or {EOS})
        # Each beam continues any beam of its sentence with any allowed token.
        parents = [data.draw(st.integers(0, 2)) + row // 3 * 3 for row in range(6)]
        ids = [data.draw(st.sampled_from(allowed[parent])) for parent in parents]
        prefixes = [[*prefixes[parent], token] for parent, token in zip(parents, ids, strict=True)]


@pytest.mark.parametrize("beam_size", [None, 2])
def test_a_sentence_without_words_is_only_eos(beam_size):
    _, _, state = random_sentences(8, 2, 3)
    result = search(np.int32([0, 2]), np.int32([1, 9]), state, beam_size=beam_size)
    assert (
        result.ids[0, 0, 0] == EOS
        and result.lengths[0].numpy().tolist() == [1, 0][: beam_size or 1]
    )
    assert result.lengths[1, 0] >= 5


def test_results_do_not_depend_on_the_batch():
    words, limits, (keys, preference) = random_sentences(6, 12, 9)
    together = search(words, limits, (keys, preference), beam_size=2, way="select")
    for row in range(0, 12, 4):
        part = slice(row, row + 1)
        alone = search(words[part], limits[part], (keys[part], preference[part]), beam_size=2)
        for beam in range(2):
            length = alone.lengths[0, beam]
            assert length == together.lengths[row, beam]
            expected = together.ids[row, beam, :length].numpy()
            np.testing.assert_array_equal(alone.ids[0, beam, :length], expected)


@pytest.mark.parametrize("stage_lengths", [None, pytest.param((8, 40), marks=pytest.mark.slow)])
@pytest.mark.parametrize("beam_size", [1, 3])
def test_a_model_decodes_trees(beam_size, stage_lengths):
    model = Transformer.from_size("tiny", vocab_size=VOCAB, num_layers=1)
    source = tf.constant([[7, 8, 9, 3], [9, 3, 0, 0]])
    words, limits = [3, 1], [40, 20]

    @tf.function(autograph=False, jit_compile=stage_lengths is not None)
    def run(source):
        inner = ModelStep(model, source, beam_size, 40, stage_lengths=stage_lengths)
        options = {"num_words": words, "max_lengths": limits, "beam_size": beam_size}
        step = TreeStep(inner, TOKENS, **options)
        return beam_search(
            step,
            step.initial_state(inner.initial_state()),
            max_lengths=limits,
            beam_size=beam_size,
            num_hypotheses=beam_size,
            stages=step.stages(inner.stages),
            select=step.select(inner.select),
        )

    assert check(run(source), words, limits) == 2 * beam_size


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        ({"opens": [5], "closes": [6, 7]}, "one id for each label, received 1 and 2 ids"),
        ({"opens": [], "closes": []}, "one id for each label, received 0 and 0 ids"),
        ({"opens": [5, 4], "closes": [6, 6]}, r"its own id, received \[4, 6\] repeatedly"),
        ({"opens": [3], "closes": [6]}, r"its own id, received \[3\] repeatedly"),
        ({"opens": [5], "closes": [6], "tags": [6]}, r"its own id, received \[6\] repeatedly"),
    ],
)
def test_each_token_of_trees_has_an_id(ids, message):
    with pytest.raises(ValueError, match=message):
        TreeTokens(words=[4], **ids)


@pytest.mark.parametrize("name", ["beam_size", "max_depth", "max_opened"])
def test_sizes_out_of_range_are_rejected(name):
    with pytest.raises(ValueError, match=f"{name} must be at least 1, received 0"):
        TreeStep(random_step(1), TOKENS, num_words=[1], max_lengths=[4], **{name: 0})


def test_the_vocabulary_must_be_static():
    @tf.function(autograph=False)
    def run(size):
        step = TreeStep(
            lambda ids, parents, position, state: (tf.zeros([1, size]), state),
            TOKENS,
            num_words=[1],
            max_lengths=[4],
        )
        return step(tf.constant([2]), tf.range(1), tf.constant(0), step.initial_state(()))

    with pytest.raises(ValueError, match="must have a static size, received None"):
        run(tf.constant(VOCAB))
