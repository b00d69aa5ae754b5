import re

import pytest

from pipelines.quickstart import toy_corpus as corpus
from pipelines.quickstart.toy_corpus import english_order, generated_corpus, german_order

VERBS = {verb.english: verb for verb in corpus._ALL_VERBS}
VERBS["tired"] = corpus.Verb("be", "tired", "müde")
SUBJECTS = {row.split()[0]: row.split()[1:] for row in corpus.SUBJECTS.split(", ")}
NOUNS = {word: noun for nouns in corpus._NOUNS.values() for noun in nouns for word in noun}
ADJECTIVES = {pair[0]: pair for pairs in corpus._ADJECTIVES.values() for pair in pairs}
ADVERBIALS = dict(corpus._pairs(", ".join([*corpus.PLACES.values(), *corpus.TIMES.values()])))
FORMS = {verb: (verb.german.rpartition("|")[2], verb.third) for verb in VERBS.values()}
FINITE = {form for pair in FORMS.values() for form in (pair[0].removesuffix("n"), *pair)}
FINITE |= {form for forms in corpus._IRREGULAR.values() for form in forms.split()}


def phrase(text):
    """Return the phrase with an English text such as "these old dogs"; "no" stands for kein."""
    if text in SUBJECTS:
        german, person = SUBJECTS[text]
        return corpus.Phrase(text, {"nominative": german}, int(person))
    determiner, *adjectives, word = text.split()
    determiner = {"these": "this", "an": "a", "no": "not a"}.get(determiner, determiner)
    adjective = [ADJECTIVES[english] for english in adjectives]
    return corpus.noun_phrase(determiner, NOUNS[word], *adjective, plural=word == NOUNS[word][1])


def clause(subject, verb, **parts):
    """Return a clause from texts in English."""
    for name, text in parts.items():
        if name in ("object", "receiver"):
            parts[name] = phrase(text)
        elif name in ("place", "time"):
            parts[name] = (text, ADVERBIALS[text])
    return corpus.Clause(phrase(subject), VERBS[verb], **parts)


STATEMENTS = """
the old man, buy, object=a new book:
    the old man buys a new book = der alte Mann kauft ein neues Buch
an old woman, buy, object=the red lamp, tense=past:
    an old woman bought the red lamp = eine alte Frau hat die rote Lampe gekauft
a sick child, see, object=a big table:
    a sick child sees a big table = ein krankes Kind sieht einen großen Tisch
these young girls, eat, object=the warm apples:
    these young girls eat the warm apples = diese jungen Mädchen essen die warmen Äpfel
two old kings, visit, object=my sick uncle, time=today:
    two old kings visit my sick uncle today = zwei alte Könige besuchen heute meinen kranken Onkel
I, help, receiver=two old friends: I help two old friends = ich helfe zwei alten Freunden
we, give, receiver=our tired sister, object=an egg, tense=will:
    we will give our tired sister an egg = wir werden unserer müden Schwester ein Ei geben
he, show, receiver=these doctors, object=the keys, tense=past:
    he showed these doctors the keys = er hat diesen Ärzten die Schlüssel gezeigt
Anna, call, object=the teacher, time=every day:
    Anna calls the teacher every day = Anna ruft jeden Tag den Lehrer an
the queen, go, place=home, tense=want to:
    the queen wants to go home = die Königin will nach Hause gehen
he, listen to, receiver=the king, tense=have to, negated=yes:
    he does not have to listen to the king = er muss dem König nicht zuhören
I, sleep, place=in the garden, tense=can, negated=yes:
    I cannot sleep in the garden = ich kann nicht im Garten schlafen
Paul, buy, object=no small dog, negated=yes:
    Paul does not buy a small dog = Paul kauft keinen kleinen Hund
they, open, object=the window, tense=past, negated=yes:
    they did not open the window = sie haben das Fenster nicht aufgemacht
"""


@pytest.mark.parametrize("row", re.findall(r"(.*):\s+(.*) = (.*)", STATEMENTS))
def test_statements(row):
    (subject, verb, *parts), english, german = row[0].split(", "), *row[1:]
    said = clause(subject, verb, **dict(part.split("=") for part in parts))
    assert (english_order(said), german_order(said)) == (english, german)


INVITE = clause("the uncle", "invite", object="the doctor")
GO = clause("the girl", "go", tense="past")
TIRED = clause("she", "tired", tense="past")


ORDERS = {
    "does the uncle invite the doctor": english_order(INVITE, ""),
    "where did the girl go": english_order(GO, "where"),
    "why was she tired": english_order(TIRED, "why"),
    "heute lädt der Onkel den Arzt ein": german_order(INVITE, "heute"),
    "lädt der Onkel den Arzt ein": german_order(INVITE, ""),
    "weil der Onkel den Arzt einlädt": german_order(INVITE, conjunction="weil"),
    "wohin ist das Mädchen gegangen": german_order(GO, "wohin"),
    "dass das Mädchen gegangen ist": german_order(GO, conjunction="dass"),
    "obwohl sie müde war": german_order(TIRED, conjunction="obwohl"),
}


@pytest.mark.parametrize("expected", ORDERS)
def test_other_orders(expected):
    assert ORDERS[expected] == expected


@pytest.fixture(scope="module")
def pairs():
    return generated_corpus(train=5_000, validation=0, test=0).train


def words_at(pattern, pairs):
    """Return the different words at the group of a pattern that many German sentences match."""
    found = [match[1] for _, german in pairs if (match := re.search(pattern, german))]
    assert len(found) > 200
    return set(found)


PREFIXED = [verb for verb in VERBS.values() if "|" in verb.german]
PREFIXES = {verb.german.partition("|")[0] for verb in PREFIXED}


def test_the_verb_is_second_after_a_time(pairs):
    assert words_at(r"^(?:Heute|Morgen|Gestern|Bald) (\w+)", pairs) <= FINITE


def test_the_verb_follows_a_leading_subordinate_clause(pairs):
    assert words_at(r"^(?:Weil|Obwohl) [^,]*, (\w+)", pairs) <= FINITE


def test_a_negation_means_the_same_in_both_languages(pairs):
    # "Jeden Tag nicht" is never, and "einem Mann nicht" is "keinem Mann".
    assert not [german for _, german in pairs if re.search("(?i)jeden Tag [^,]*nicht", german)]
    dative = "(?i)(?:hilft|helfe|helfen) [^,]*\\beine[mr] [^,]*nicht"
    assert not [german for _, german in pairs if re.search(dative, german)]


def test_the_verb_is_last_in_a_subordinate_clause(pairs):
    joined = {prefix + form for prefix in PREFIXES for form in FINITE}
    assert words_at(r", (?:weil|obwohl|dass|ob) .* (\w+)\.", pairs) <= FINITE | joined


def test_a_separable_prefix_is_last(pairs):
    forms = "|".join(form for verb in PREFIXED for form in FORMS[verb])
    assert words_at(rf"(?i)^(?:[^,]* )?(?:{forms}) [^,]*\b(\w+)[.?]", pairs) == PREFIXES


def test_sentences_are_clean_and_each_english_one_has_one_translation(pairs):
    translations = dict(pairs)
    assert len(translations) == len({german for _, german in pairs}) == 5_000
    for english, german in pairs + generated_corpus(5_000, 0, 0, seed=1).train:
        assert translations.setdefault(english, german) == german
        for text in (english, german):
            assert re.fullmatch(r"[A-ZÄÖÜ][A-Za-zÄÖÜäöüß]*(,? [A-Za-zÄÖÜäöüß]+)+[.?]", text), text
    assert len(translations) < 9_990  # Some recur, so the comparison has compared something.


def test_splits_share_no_sentence_and_do_not_depend_on_the_size_of_train():
    small, large = (generated_corpus(size, 20, 30, seed=3) for size in (40, 400))
    assert [len(split) for split in large] == [400, 20, 30]
    assert (small.validation, small.test, small.train) == (*large[1:], large.train[:40])
    for side in (0, 1):
        assert len({pair[side] for split in large for pair in split}) == 450
    assert generated_corpus(40, 20, 30, seed=4).test != small.test
    with pytest.raises(ValueError, match="Sizes must be at least 0, .* validation=-1"):
        generated_corpus(1, -1, 1)
