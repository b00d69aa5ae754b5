import pytest
from hypothesis import given
from hypothesis import strategies as st

from keras_transformer.data.languages import tag_sources, temperature_weights

SIZES = st.lists(st.integers(1, 10**8), min_size=1, max_size=5)


@given(SIZES)
def test_a_temperature_of_one_has_each_pair_once(sizes):
    assert temperature_weights([*sizes, 0], 1.0) == [1.0] * (len(sizes) + 1)


@given(SIZES, st.floats(1, 100))
def test_shares_are_roots_and_a_pass_keeps_its_size(sizes, temperature):
    weights = temperature_weights(sizes, temperature)
    shares = [weight * size for weight, size in zip(weights, sizes, strict=True)]
    assert sum(shares) == pytest.approx(sum(sizes))
    for share, size in zip(shares, sizes, strict=True):
        expected = (size / sizes[0]) ** (1 / temperature)
        assert share / shares[0] == pytest.approx(expected)


def test_empty_corpora_take_no_share():
    assert temperature_weights([0, 7], 3) == pytest.approx([1, 1])
    assert temperature_weights([0], 3) == [1]


def test_sources_get_a_tag_unless_they_are_empty():
    pairs = [(" a dog", "ein Hund"), (" \t", "leer"), ("a >>fr<< b", "b")]
    assert list(tag_sources(pairs, "pt-BR")) == [
        (">>pt-BR<<  a dog", "ein Hund"),
        (" \t", "leer"),
        (">>pt-BR<< a >>fr<< b", "b"),
    ]


def test_a_source_with_a_tag_is_refused():
    with pytest.raises(ValueError, match="must not begin with a tag.*received '>>fr<< a'"):
        list(tag_sources([(">>fr<< a", "b")], "de"))
