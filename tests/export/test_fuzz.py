"""An exported model answers any bytes, without an effect on other rows of the batch."""

import functools
import random
import tempfile

import pytest
import tensorflow as tf
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from keras_transformer.config import DecodingConfig
from keras_transformer.export import load_saved_model
from keras_transformer.translation.translator import Translator
from tests.helpers.tiny import export_quickly, tiny_model, tiny_tokenizer, toy_sentences

pytestmark = pytest.mark.slow  # Each export traces and optimizes every signature.

GOOD = [text.encode() for text in toy_sentences(6)]

# Incomplete characters, surrogates, overlong forms, values beyond Unicode, and invalid bytes.
NO_TEXT = [
    b"\x80", b"\xc3", b"\xe2\x82", b"\xf0\x9f\x98", b"\xed\xa0\x80", b"\xed\xb0\x80",
    b"\xed\xa0\xbd\xed\xb8\x80", b"\xc0\x80", b"\xc1\xbf", b"\xe0\x80\xaf", b"\xf0\x80\x80\xaf",
    b"\xf4\x90\x80\x80", b"\xf8\x88\x80\x80\x80", b"\xfc\x84\x80\x80\x80\x80", b"\xfe", b"\xff",
]  # fmt: skip
# What means something to a tokenizer, a terminal, a C string or the order of writing.
SPECIAL = [
    *"\0\t\n\v\f\r\x1b\x7f\x85\xa0\xad",
    *"\u1680\u180e\u2000\u200b\u200d\u2028\u2029\u202e\u2066\u2069\u3000\ufeff\ufffd\uffff",
    *"\u0301\u0489\u20dd\ufe0f\U000e0041\U0001f3ff\u2581\u2047\ufdfa\uac00\u1100\u1161\u11a8",
    *("<s>", "</s>", "<pad>", "<unk>", "<0xFF>", "<0x0A>", "one", "two", " ", "%s", "../", "'\""),
]  # fmt: skip
CODE_POINTS = 0x110000


@functools.cache
def translate():
    """Translate a list of byte strings with an exported model."""
    model = tiny_model(num_layers=1)
    output = model.output_embedding.embeddings
    scales = [[2.5 if 4 <= i < 260 else 1.0] for i in range(output.shape[0])]
    output.assign(output * scales)  # It writes single bytes, most of which are not valid UTF-8.
    # Low limits keep the test short; long texts are truncated.
    search = DecodingConfig(beam_size=2, extra_length=3, max_source_length=6)
    translator = Translator(model, tiny_tokenizer(), decoding=search)
    with tempfile.TemporaryDirectory() as folder:
        loaded = load_saved_model(export_quickly(translator, folder))
    return lambda texts: loaded(tf.constant(texts, tf.string)).numpy().tolist()


@functools.cache
def good_translations():
    translations = [translate()([text])[0] for text in GOOD]
    assert len(set(translations)) == len(GOOD)
    return translations


def check(hostile, seed=0):
    """Translate texts among valid ones, whose translations must not change."""
    choose = random.Random(seed)
    batch = [(text, None) for text in hostile]
    for pair in zip(GOOD, good_translations(), strict=True):
        batch.insert(choose.randint(0, len(batch)), pair)
    translations = translate()([text for text, _ in batch])
    for (text, expected), translation in zip(batch, translations, strict=True):
        translation.decode("utf-8")
        assert expected in (None, translation), text
    return translations


def encoded(text):
    return text.encode("utf-8", "surrogatepass")


def check_all(hostile, batch=2048):
    """Check in batches, and return all translations."""
    parts = [check(hostile[i : i + batch], i) for i in range(0, len(hostile), batch)]
    return [translation for part in parts for translation in part]


def test_every_code_point():
    # The tokenizer reads the whole row, the model its beginning.
    rows = ["".join(map(chr, range(i, i + 64))) for i in range(0, CODE_POINTS, 64)]
    assert len(set("".join(rows))) == CODE_POINTS
    check_all([encoded(row) for row in rows])


def test_every_byte_alone_and_after_other_bytes():
    strings = [bytes([a]) for a in range(256)]
    strings += [bytes([a, b]) for a in range(128, 256) for b in range(256)]
    translations = check_all(strings)
    # Most of the written bytes are invalid UTF-8, which the detokenizer has to handle too.
    assert sum("\ufffd" in text.decode() for text in translations) > len(strings) / 2


def test_very_long_texts():
    units = [b"a", b" ", b"\0", b"one ", b"\xff", encoded("e\u0301"), encoded("\u6f22")]
    check([random.Random(1).randbytes(2**20), *(unit * (2**20 // len(unit)) for unit in units)])


characters = st.characters(exclude_categories=())  # Including surrogates, which st.text leaves out.
planes = st.integers(0, 16).flatmap(
    lambda plane: st.characters(
        min_codepoint=plane << 16, max_codepoint=(plane << 16) + 0xFFFF, exclude_categories=()
    )
)
fragments = st.one_of(
    st.sampled_from(NO_TEXT),
    st.sampled_from(SPECIAL).map(encoded),
    st.characters(categories=("Cc", "Cf", "Mn", "Me", "Zs", "Zl", "Zp", "Co", "Cn")).map(encoded),
    planes.map(encoded),
)
texts = st.one_of(
    st.binary(max_size=20),
    st.text(characters, max_size=12).map(encoded),
    st.lists(fragments, max_size=8).map(b"".join),
    st.builds(lambda unit, times: unit * times, fragments, st.integers(1, 3000)),
)


@settings(
    max_examples=250,
    derandomize=True,  # The same inputs everywhere, and no database of examples.
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(st.lists(texts, min_size=40, max_size=48), st.integers(0, 99))
def test_any_bytes(hostile, seed):
    check(hostile, seed)
