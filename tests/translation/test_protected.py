"""Spans and terms in translations, with models whose weights are random."""

import functools
import random
import re

import pytest
import tensorflow as tf

from keras_transformer.config import DecodingConfig
from keras_transformer.documents.files import KEPT
from keras_transformer.text import SentencePieceTokenizer, train_sentencepiece
from keras_transformer.text.patterns import find_symbols
from keras_transformer.text.protection import Protection, cut_edges
from keras_transformer.translation.protected import _find_pairs
from keras_transformer.translation.translator import Translator
from tests.helpers.tiny import ODD, tiny_model, tiny_tokenizer, toy_pairs

SYMBOLS = ["\\n", "%s", "_", "<b>", "</b>", "%d", "<i>", "</i>", "{0}", "~", "&amp;", "%1$s", "%%"]
SPANS = [
    *SYMBOLS,
    *("%1", "%2$s", "%-5.2f", "{name!r:>10}", "%(count)d", "{n, plural, one {# file}}"),
    *("${HOME}", "$(dir)", "%SERVER%", '<a href="x">', "</a>", "<br/>", "&#8230;", "\n", "\t"),
    *("https://keras.io/api", "a.b@example.org", "/etc/fstab", "C:\\new\\t", "--help", "-v"),
]
PARTS = ["%", "{", "}", "<", "<b", "/>", "&", "$", "100%", "5%d", "\\", "\ufdd0", "\ufdd1", "\x01"]
WORDS = ["one", "dog", "sees", "ﬁ", "漢字", "кот", "red-blue", "and/or", "Dogs", "the"]
TERMS = "dog*\tHund\none dog\tein %s\\1 Hund\nsees the\tC\nred\tdunkel rot\nthe\t<b>\nкот\tKater"


@functools.cache
def make_translator(has_symbols=True, compiled=False, **decoding):
    """Return a translator with random weights, which knows symbols or not."""
    lines = [text for pair in toy_pairs(200) for text in pair]
    tokenizer = tiny_tokenizer()
    if has_symbols:
        options = {"user_symbols": SYMBOLS, "normalization": "identity"}
        tokenizer = SentencePieceTokenizer(train_sentencepiece(lines, 380, **options))
    config = DecodingConfig(**{"beam_size": 1, "extra_length": 4, **decoding})
    return Translator(tiny_model(), tokenizer, decoding=config, compiled=compiled)


def hostile_text(seed):
    """Return a text of spans, parts of spans and words, in any order."""
    choose = random.Random(seed)
    pools = [SPANS, PARTS, WORDS, ODD[:8], choose.sample(SPANS, 2)]
    weights = [choose.choice([0, 1, 3]) for _ in pools]
    pools, weights = ([WORDS, SPANS], [1, 1]) if not any(weights) else (pools, weights)
    count = choose.choice([0, 1, 3, 8, 15, 40])
    space = choose.choice(["", " ", "", "\n"])
    return space.join(choose.choice(choose.choices(pools, weights)[0]) for _ in range(count))


def split(texts, terms="", own=""):
    """Return the pieces of texts, and for each whether it is the target of a term."""
    count = len(texts)
    rows, is_term = Protection(own).split(texts, ["all"] * count, [terms] * count)
    return rows.to_list(), rows.with_values(is_term).to_list()


def check(sources, translations, terms="", own=""):
    """Assert that translations keep the spans and terms of their sources."""
    pieces, flags = split(sources, terms, own)
    expected = [b"".join(row).decode() for row in pieces]
    given, found = (split(texts, own=own)[0] for texts in (expected, translations))
    for source, translation, row, is_term, spans, kept in zip(
        sources, translations, pieces, flags, given, found, strict=True
    ):
        for span in {*spans[1::2]}:
            assert kept[1::2].count(span) == spans[1::2].count(span), (source, translation, span)
        assert nests(kept) or not nests(spans), (source, translation)
        targets = [piece for piece, is_its in zip(row, is_term, strict=True) if is_its]
        for target in {*targets}:
            assert translation.encode().count(target) >= targets.count(target)
    sides = [
        list(zip(*(part.numpy() for part in cut_edges(texts)), strict=True))
        for texts in (sources, translations)
    ]
    for (before, middle, after), found in zip(*sides, strict=True):
        assert not middle or (before, after) == found[::2]


def nests(pieces):
    """Return whether the tags whose names all close do so in the order in which they opened."""
    tags = [tag for tag in pieces[1::2] if re.fullmatch(rb"<[^<]*[^/]>", tag)]
    names = [re.split(rb"[\s.>]", tag.strip(b"</"))[0] for tag in tags]
    closes = [tag.startswith(b"</") for tag in tags]
    opened = []
    for name, is_closing in zip(names, closes, strict=True):
        of_name = [other for each, other in zip(names, closes, strict=True) if each == name]
        if 2 * sum(of_name) != len(of_name):
            continue
        if not is_closing:
            opened.append(name)
        elif not opened or opened.pop() != name:
            return False
    return not opened


@pytest.mark.parametrize(
    ("has_symbols", "decoding"),
    [
        (True, {}),
        (True, {"beam_size": 3}),
        (True, {"temperature": 1.5}),
        (True, {"max_length": 3, "no_repeat_ngram_size": 1}),
        (False, {"beam_size": 2}),
        pytest.param(True, {"compiled": True}, marks=pytest.mark.slow),
    ],
    ids=str,
)
def test_hostile_texts_keep_their_spans_and_terms(has_symbols, decoding):
    sources = [hostile_text(seed) for seed in range(60)]
    translator = make_translator(has_symbols, **decoding)
    found = translate(translator, sources, TERMS)
    check(sources, found, TERMS)
    # Another batch changes nothing.
    assert translate(translator, sources[5:25], TERMS) == found[5:25]


def translate(translator, texts, terms="", protect="all"):
    count = len(texts)
    inputs = ([text.encode() for text in texts], [terms] * count, [protect] * count)
    found = translator.translate_with_terms(*map(tf.constant, inputs))["translation"]
    return [text.decode() for text in found.numpy()]


def test_symbols_stand_for_spans_where_the_model_puts_them():
    translator = make_translator()
    sources = ["one %s dog", "%2$s sees <a href='x'>red</a>", "<b>%s</b>\\n", "one dog ${x} {y}"]
    found = translator(sources, protect=["all"])
    check(sources, found)
    # Otherwise, spans would come in between the translations of the pieces.
    pieces = [translator([piece.decode() for piece in row[::2]]) for row in split(sources)[0]]
    assert any(row[0] not in text for row, text in zip(pieces, found, strict=True))


def test_tags_nest_next_to_one_that_nothing_closes():
    starts = ["<li>", "one <code>dog</code>", "<v Anna>", "red <00:05.000>", "the </p>"]
    texts = [f"{start}<b>{words}</b>" for start in starts for words in ("one", "red dog", "the")]
    check(texts, make_translator(temperature=1.5, protect=KEPT)(texts), own=KEPT)


@pytest.mark.parametrize(
    "spans, kinds, partners, must_nest",
    [
        ("<br> <link> </link>", [2, 0, 1], [0, 2, 1], [0, 1, 1]),
        ("<hr> <b> </b> <b/>", [2, 0, 1, 2], [0, 2, 1, 3], [0, 1, 1, 0]),
        ("<b> <br> </b> </br>", [0, 2, 1, 2], [2, 1, 0, 3], [1, 0, 1, 0]),
        ("<link> <i> </i> </p>", [0, 0, 1, 1], [0, 2, 1, 3], [0, 1, 1, 0]),
        ("</p> <i> </b> </i> <b>", [1, 0, 1, 1, 0], [0, 1, 2, 3, 4], [0, 1, 1, 1, 1]),
        ("<c.red> <code>x</code> </c>", [0, 2, 1], [2, 1, 0], [1, 0, 1]),
        ("<a.b> <a.c> </a.c> </a.b>", [0, 0, 1, 1], [3, 2, 1, 0], [1, 1, 1, 1]),
    ],
)
def test_tags_of_a_name_that_a_text_closes_belong_together(spans, kinds, partners, must_nest):
    rows = tf.zeros([len(kinds)], tf.int64)
    found = [each.numpy().tolist() for each in _find_pairs(rows, tf.constant(spans.split()))]
    assert found == [kinds, partners, must_nest]


@pytest.mark.parametrize("has_symbols", [True, False])
def test_the_edges_of_a_text_stay(has_symbols):
    sources = ["one %s {0}\n", "one\\ndog\\t", " \\n<b>red</b>\n\n", "one\ndog sees <b>the</b>"]
    paths = [r"C:\data\t", r"one C:\n\red\n", r"the C:\a\r"]
    translator = make_translator(has_symbols)
    for output in (" \\n", "\t", "\u00a0"):  # The model adds them.

        def search(text, kept, output=output):
            texts = tf.strings.join([output, text, output])
            return translator._protected._target.tokenize(texts, 60).to_tensor(0)

        options = (tf.fill([len(sources + paths)], each) for each in ("all", ""))
        found = translator._protected(search, tf.constant(sources + paths), *options)
        assert [text.decode() for text in found.numpy()] == sources + paths
    spans = [row[1::2] for row in split(paths)[0]]
    assert [[each.decode() for each in row] for row in spans] == [[p.split()[-1]] for p in paths]
    others = [r"Name:\t", r"A:\n\n", r"C:\data \t"]
    assert [each.decode() for each in cut_edges(others)[1].numpy()] == ["Name:", "A:", r"C:\data"]


@pytest.mark.parametrize("has_symbols", [True, False])
@pytest.mark.parametrize("protect", ["all", "html qt python variables"])
def test_a_translation_adds_no_tags_and_placeholders(protect, has_symbols):
    translator = make_translator(has_symbols)
    target = translator._protected._target
    sources = ["one dog", "one <i>dog</i> {0}"]

    def translate(output):
        def search(text, kept):
            outputs = tf.repeat([output], tf.size(text)) if kept is None else text + output
            return target.tokenize(outputs, 60).to_tensor(0)

        options = (tf.fill([2], each) for each in (protect, ""))
        found = translator._protected(search, tf.constant(sources), *options)
        return [each.decode() for each in found.numpy()]

    for output in ("red <b>dog</b>", "the %1 dog", "{x} dog", "red ${x}", "<a href='x'>"):
        assert translate(output) == sources
    assert translate("red 7, the dog")[0].endswith("red 7, the dog")


TAGS = [
    *("<a href='x' download>", "<button disabled>", '<input type="checkbox" checked required>'),
    *('<a title="File > Open" href="/x">', "<a href=x?a=1>", '<span @click.stop="x">', "<hr >"),
    '<a *ngIf="x" [class.a]="b" (click)="c()" [(y)]=d #ref>',
    *(
        "<mark>",
        "<del>",
        "<time>",
        "<button>",
        "<0>",
        "</0>",
        "<12 />",
        "<BR>",
        '<x-y :a="b" v-else>',
    ),
    *("{{name}}", "{{ a | b('c, d') }}", "{{{raw}}}", "{{#if a}}", "{% if x > 1 %}", "{# note #}"),
]
NO_TAGS = ["a < b and c > d", "if x<y", "x<y and z>w", "i<b and c>d", "5 < 6 > 4", "I <3 you"]
NO_TAGS += [
    "<file>",
    "<file name>",
    "a<b && c=d>e",
    '<a "b">',
    "{ {a}",
    "{{a",
    "{%x",
    "a: {b: {c d}}",
]


@pytest.mark.parametrize("text", [*TAGS, *NO_TAGS])
def test_patterns_find_the_same_in_python_and_in_a_graph(text):
    sentence = f"one {text} two"
    found = find_symbols(sentence, "html", "variables")
    pieces, _ = Protection().split([sentence], ["html variables"], [""])
    assert found == [each.decode() for each in pieces.to_list()[0][1::2]]
    assert found == ([text] if text in TAGS else [])


def test_tags_that_belong_together_are_replaced_together():
    translator, seen = make_translator(), []
    sources = [
        "<a href='x'>one <u class='y'>dog</u></a> %2$s",
        "<i>the</i> <u>dog</u>",
        "<p id='1'>a <p id='2'>b <p id='3'>c</p></p></p>",  # The vocabulary has two pairs.
        "<li>one <u class='y'>dog</u>",  # One tag is alone.
    ]

    def search(text, kept):
        seen.append([each.decode() for each in text.numpy()])
        return translator._best_ids(text, kept)

    options = (tf.fill([len(sources)], each) for each in ("all", ""))
    found = translator._protected(search, tf.constant(sources), *options)
    pair_and_one = "<b>one <i>dog</i>"
    assert seen[0] == ["<b>one <i>dog</i></b> %s", "<i>the</i> <b>dog</b>", pair_and_one]
    check(sources, [each.decode() for each in found.numpy()])


@pytest.mark.parametrize("has_symbols", [True, False])
def test_accelerators_are_in_translations(has_symbols):
    sources = ["_File", "S_ave %s", "one &dog", "<b>~the</b> red", "Sees the E_xit.\n", "dog _{0}"]
    sources += ["a_b_c", "AT&T", "&&dog", "_one _dog", "&amp; dog", "https://x.org/_a", "__init"]
    accelerator = re.compile(r"(?<![\w&])[_&~](?=[^\W\d_])(?!amp;)|(?<=\b[SE])_")
    translator = make_translator(has_symbols, beam_size=2)
    found = translator(sources, protect=["all", "accelerators"])
    check(sources, found)
    free = translator(sources, protect=["all"])
    for source, text, plain in zip(sources, found, free, strict=True):
        signs = accelerator.findall(source.replace("https://x.org/_a", ""))
        if len(signs) == 1 and re.search(r"(?<![^\W_])[^\W\d_]", text):
            assert [sign for sign in accelerator.findall(text)] == signs, (source, text)
        elif len(signs) != 1:
            assert text == plain


@pytest.mark.parametrize("has_symbols", [True, False])
def test_a_text_in_capitals_is_translated_in_lowercase(has_symbols):
    translator = make_translator(has_symbols)
    small = ["Dogs see %s {0}", "One dog", "<b>the red</b>"]
    large = ["DOGS SEE %s {0}", "ONE DOG", "<b>THE RED</b>"]
    expected = translator(small, protect=["all"])
    spans, _ = Protection().split(expected, ["all"] * 3, [""] * 3)
    capitals = [
        b"".join(part if i % 2 else part.decode().upper().encode() for i, part in enumerate(row))
        for row in spans.to_list()
    ]
    found = translator(large, protect=["all"])
    assert found[0] == capitals[0].decode() != expected[0]
    # Three letters are a name, and a small one is no capital.
    others = ["ONE DOG", "DOGS see", "DOGS SEE %s"]
    kinds = [["all"], ["all"], ["printf"]]
    for text, protect in zip(others, kinds, strict=True):
        assert translator([text], protect=protect) == translator([text], protect=["printf"])
    check(large, found)


def test_what_an_own_pattern_matches_is_kept_as_a_whole():
    own = Protection(f"re:%s-[A-Z]+ {KEPT}")
    text = "See %s-ABC, `%d`, <code>a.b --c</code> and <b>%s</b>."
    rows, _ = own.split([text], ["all"], [""])
    spans = [piece.decode() for piece in rows.to_list()[0][1::2]]
    assert spans == ["%s-ABC", "`%d`", "<code>a.b --c</code>", "<b>", "%s", "</b>"]


def test_calls_and_configurations_protect_alike():
    sources = ["one %s dog", "the {0} sees"]
    configured = make_translator(protect="printf python")
    assert configured(sources) == make_translator()(sources, protect=["printf", "python"])
    assert configured(sources, protect=[]) == make_translator()(sources)
    (found,) = make_translator()(["one dog"], terms={"dog*": "Hund"})
    assert "Hund" in found


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"protect": ["tags"]}, "protect has the names .*received 'tags'"),
        ({"protect": ["re:A+"]}, "when the model is loaded"),
        ({"terms": {"dog": ""}}, "terms must have a source"),
        ({"terms": {"+": "plus", "a\tb": "c"}}, "Change or remove these"),
    ],
)
def test_what_cannot_be_used_is_refused(options, message):
    with pytest.raises(ValueError, match=message):
        make_translator()("one", **options)


@pytest.mark.parametrize("options", [{"terms": {"dog": "Hund"}}, {"protect": ["html"]}])
def test_a_prefix_is_refused_next_to_terms_and_spans(options):
    translator = make_translator(prefix="eins")
    assert translator("one", protect=[]) == translator("one")
    with pytest.raises(ValueError, match="prefix must be empty for terms .* received 'eins'"):
        translator("one", **options)
    assert make_translator().protects
    assert not translator.protects  # An export has no translate_with_terms.


def test_patterns_that_only_python_has_are_refused():
    with pytest.raises(ValueError, match="of RE2, received '\\(\\?=a\\)'"):
        make_translator(protect="re:(?=a)")
