import ast
import pathlib
import re
import sys
import unicodedata
from collections import Counter

import pytest

from pipelines.quickstart import grammar
from pipelines.quickstart.grammar import (
    adjectives,
    corpus,
    generate_pairs,
    generated_corpus,
    german,
    verbs,
)
from pipelines.quickstart.grammar.english import gerund, third_person
from pipelines.quickstart.grammar.nouns import NOUNS
from pipelines.quickstart.grammar.places import CITIES, FEMALE_NAMES, MALE_NAMES
from pipelines.quickstart.grammar.words import Verb


@pytest.fixture(scope="module")
def pairs():
    return generate_pairs(50_000)


def all_verbs():
    for value in vars(verbs).values():
        for item in value if isinstance(value, tuple) else (value,):
            if isinstance(item, Verb):
                yield item


def finite_forms():
    """Return all finite German verb forms, and the same with the separable prefix attached."""
    forms, joined = set(), set()
    for who in ("I", "he", "they"):
        for verb in all_verbs():
            forms.add(verb.german_present(who))
            joined.add(verb.prefix + verb.german_present(who))
        for infinitive in german._PRESENT:
            forms.add(german.irregular_present(infinitive, who))
        for infinitive in german._PRETERITE:
            forms.add(german.irregular_preterite(infinitive, who))
    return forms, joined | forms


def words(text):
    return re.findall(r"[\w'-]+", text)


def test_the_same_seed_gives_the_same_pairs_and_another_seed_others():
    assert generate_pairs(200, seed=7) == generate_pairs(200, seed=7)
    assert len(set(generate_pairs(200, seed=7)) & set(generate_pairs(200, seed=8))) < 20


def test_a_longer_list_starts_with_the_shorter_one():
    assert generate_pairs(300, seed=5)[:120] == generate_pairs(120, seed=5)
    assert generate_pairs(0) == []


@pytest.mark.slow
def test_no_sentence_occurs_twice_so_each_english_one_has_one_translation(pairs):
    assert len(pairs) == 50_000
    assert len({english for english, _ in pairs}) == 50_000
    assert len({german for _, german in pairs}) == 50_000


def test_an_english_sentence_has_one_german_translation_over_several_seeds(pairs):
    translations = dict(pairs)
    repeated = 0
    for english, german_text in generate_pairs(20_000, seed=1):
        repeated += english in translations
        assert translations.setdefault(english, german_text) == german_text
    assert repeated > 100  # Short sentences recur, so the check above has checked something.


def test_splits_have_their_sizes_and_share_no_sentence():
    splits = generated_corpus(train=2_000, validation=70, test=50, seed=3)
    assert [len(split) for split in (splits.train, splits.validation, splits.test)] == [
        2_000,
        70,
        50,
    ]
    everything = splits.train + splits.validation + splits.test
    assert len({english for english, _ in everything}) == 2_120
    assert len({german_text for _, german_text in everything}) == 2_120


def test_held_out_pairs_do_not_depend_on_the_size_of_the_training_split():
    small = generated_corpus(train=10, validation=5, test=7, seed=2)
    large = generated_corpus(train=90, validation=5, test=7, seed=2)
    assert (small.validation, small.test) == (large.validation, large.test)
    assert large.train[:10] == small.train


def test_negative_sizes_are_rejected():
    with pytest.raises(ValueError, match=r"count must be at least 0, received -1\."):
        generate_pairs(-1)
    with pytest.raises(ValueError, match=r"validation must be at least 0 pairs, received -2\."):
        generated_corpus(train=1, validation=-2)


def test_more_pairs_than_the_grammar_has_are_rejected(monkeypatch):
    greetings = [("Good day.", "Guten Tag."), ("Good night.", "Gute Nacht.")]
    monkeypatch.setattr(corpus, "_PATTERNS", {lambda rng: rng.choice(greetings): 1})
    assert sorted(generate_pairs(2)) == sorted(greetings)
    with pytest.raises(ValueError, match="count is 3, but the generator found only 2 distinct"):
        generate_pairs(3)


def test_every_pattern_gives_sentences(pairs):
    assert all(weight > 0 for weight in corpus._PATTERNS.values())
    starts = Counter(words(german_text)[0] for _, german_text in pairs)
    expected = (
        "Wer Wen Wem Was Wann Warum Wo Wohin Welches Wie Obwohl Weil Wenn Während Wegen Trotz"
    )
    assert {word for word in expected.split() if starts[word] < 20} == set()


def test_sentences_are_clean_text(pairs):
    for pair in pairs:
        for text in pair:
            assert unicodedata.is_normalized("NFC", text), text
            assert re.fullmatch(r"[A-ZÄÖÜ0-9][A-Za-zÄÖÜäöüß0-9' ,-]*[.?]", text), text
            assert "  " not in text and " ," not in text and ",," not in text, text
        english, german_text = pair
        assert english[0].isupper(), english
        assert english[-1] == german_text[-1], pair
        assert 3 <= len(english.split()) <= 18 or len(english.split()) == 2, english


def test_the_vocabulary_has_several_hundred_words_that_are_all_frequent(pairs):
    forms = Counter()
    for english, _ in pairs:
        for word in words(english.lower()):
            forms.update(word.removesuffix("'s").split("-"))
    known = {form: count for form, count in forms.items() if not form.isdigit()}
    assert 600 <= len(known) <= 800
    assert min(known.values()) >= 10

    def count(*spellings):
        return sum(forms[spelling] for spelling in set(spellings))

    lexicon = {}
    for noun in NOUNS.values():
        if " " not in noun.english:
            lexicon[noun.english] = count(noun.english, noun.english_plural)
    for adjective in adjectives.ADJECTIVES:
        lexicon[adjective] = count(adjective)
    for verb in all_verbs():
        base = verb.english
        lexicon[base] = count(base, verb.past, third_person(base), gerund(base))
    for name in (*MALE_NAMES, *FEMALE_NAMES, *CITIES):
        lexicon[name] = count(name.lower())
    del lexicon["be"]  # Its forms are not made by rule.
    assert len(lexicon) > 300
    assert {word: times for word, times in lexicon.items() if times < 80} == {}


def test_every_form_of_the_lexicon_is_used(pairs):
    english_text = " ".join(english.lower() for english, _ in pairs)
    german_text = " ".join(german_text for _, german_text in pairs)
    german_words = set(words(german_text))
    for noun in NOUNS.values():
        assert re.search(rf"\b{noun.english}\b", english_text), noun
        assert re.search(rf"\b{noun.english_plural}\b", english_text), noun
        assert {noun.german, noun.german_plural, noun.oblique} - {""} <= german_words, noun
    for adjective in adjectives.ADJECTIVES.values():
        forms = {adjective.german, adjective.stem + "e", adjective.stem + "en"}
        assert forms & german_words, adjective
    for verb in all_verbs():
        present = {verb.german_present("he"), verb.prefix + verb.german_present("he")}
        assert (present | {verb.german_participle}) & german_words, verb


def test_the_finite_verb_is_second_after_an_adverb_or_a_question_word(pairs):
    finite, _ = finite_forms()
    first = "Heute|Morgen|Gestern|Jetzt|Bald|Leider|Vielleicht|Natürlich|Warum|Wann|Wohin|Wen|Wem"
    checked = 0
    for _, text in pairs:
        match = re.match(rf"(?:{first}) (?!Abend|Morgen|um)(\w+)", text)
        if match:
            checked += 1
            assert match[1] in finite, text
    assert checked > 1_000


def test_the_finite_verb_is_last_in_subordinate_clauses(pairs):
    _, finite = finite_forms()
    checked = 0
    for _, text in pairs:
        match = re.search(r", (?:weil|dass|ob|obwohl|wenn|warum|wann) .* (\w+)[.]$", text)
        if match:
            checked += 1
            assert match[1] in finite, text
        match = re.match(r"(?:Weil|Obwohl|Wenn|Während) [^,]* (\w+), (\w+) ", text)
        if match:
            checked += 1
            assert match[1] in finite and match[2] in finite, text
    assert checked > 5_000


def test_an_infinitive_with_zu_ends_its_clause(pairs):
    infinitives = {verb.zu_infinitive() for verb in all_verbs()}
    clauses = [text for _, text in pairs if ", um " in text]
    assert len(clauses) > 500
    for text in clauses:
        end = " ".join(text.rstrip(".").split()[-2:])
        assert end in infinitives or end.split()[-1] in infinitives, text


def test_the_generator_needs_only_the_standard_library():
    folder = pathlib.Path(grammar.__file__).parent
    for path in folder.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                names = [node.module]
            else:
                continue
            for module in names:
                inside = module.startswith("pipelines.quickstart.grammar")
                assert inside or module.split(".")[0] in sys.stdlib_module_names, (path, module)


def test_the_documentation_says_that_the_corpus_is_generated():
    assert "generated by a grammar" in grammar.__doc__
