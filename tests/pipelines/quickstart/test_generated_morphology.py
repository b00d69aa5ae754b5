import pytest

from pipelines.quickstart.grammar.adjectives import ADJECTIVES
from pipelines.quickstart.grammar.adverbials import number_words
from pipelines.quickstart.grammar.english import a_or_an, gerund, third_person
from pipelines.quickstart.grammar.german import (
    CASES,
    adjective_ending,
    determiner_form,
    irregular_present,
    irregular_preterite,
    with_preposition,
)
from pipelines.quickstart.grammar.nouns import NOUNS
from pipelines.quickstart.grammar.phrases import name, noun_phrase
from pipelines.quickstart.grammar.verbs import BE, KNOW, TRANSITIVE, verb_named
from pipelines.quickstart.grammar.words import read_nouns


def four_cases(phrase):
    return [phrase.in_case(case) for case in CASES]


def german_cases(determiner, noun, adjective=None, **how):
    word = ADJECTIVES[adjective] if adjective else None
    return four_cases(noun_phrase(determiner, NOUNS[noun], word, **how))


@pytest.mark.parametrize(
    ("stem", "declension", "forms"),
    [
        ("", "article", "der die das die, den die das die, dem der dem den, des der des der"),
        (
            "dies",
            "der",
            "dieser diese dieses diese, diesen diese dieses diese, "
            "diesem dieser diesem diesen, dieses dieser dieses dieser",
        ),
        (
            "kein",
            "ein",
            "kein keine kein keine, keinen keine kein keine, "
            "keinem keiner keinem keinen, keines keiner keines keiner",
        ),
        (
            "unser",
            "ein",
            "unser unsere unser unsere, unseren unsere unser unsere, "
            "unserem unserer unserem unseren, unseres unserer unseres unserer",
        ),
    ],
)
def test_article_words_have_the_endings_of_the_grammar_book(stem, declension, forms):
    for case, row in zip(CASES, forms.split(", "), strict=True):
        made = [determiner_form(stem, declension, case, gender) for gender in "mfnp"]
        assert made == row.split(), case


@pytest.mark.parametrize(
    ("after", "endings"),
    [
        ("article", "e e e en, en e e en, en en en en, en en en en"),
        ("der", "e e e en, en e e en, en en en en, en en en en"),
        ("ein", "er e es en, en e es en, en en en en, en en en en"),
        ("none", "er e es e, en e es e, em er em en, en er en er"),
        ("strong", "er e es e, en e es e, em er em en, en er en er"),
    ],
)
def test_adjectives_have_weak_mixed_and_strong_endings(after, endings):
    for case, row in zip(CASES, endings.split(", "), strict=True):
        made = [adjective_ending(after, case, gender) for gender in "mfnp"]
        assert made == row.split(), case


@pytest.mark.parametrize(
    ("determiner", "noun", "adjective", "how", "forms"),
    [
        ("the", "man", "old", {}, "der alte Mann|den alten Mann|dem alten Mann|des alten Mannes"),
        ("a", "cup", "clean", {}, "eine saubere Tasse|eine saubere Tasse|einer sauberen Tasse"),
        ("a", "house", "new", {}, "ein neues Haus|ein neues Haus|einem neuen Haus"),
        ("my", "dog", "black", {}, "mein schwarzer Hund|meinen schwarzen Hund"),
        ("the", "boy", None, {}, "der Junge|den Jungen|dem Jungen|des Jungen"),
        ("this", "student", "lazy", {}, "dieser faule Student|diesen faulen Studenten"),
        ("the", "neighbour", None, {}, "der Nachbar|den Nachbarn|dem Nachbarn|des Nachbarn"),
        ("a", "coat", "expensive", {}, "ein teurer Mantel|einen teuren Mantel"),
        ("a", "woman", "tired", {}, "eine müde Frau|eine müde Frau|einer müden Frau"),
        ("a", "milk", "cold", {"mass": True}, "kalte Milch|kalte Milch|kalter Milch"),
        ("a", "wine", "good", {"mass": True}, "guter Wein|guten Wein|gutem Wein"),
        ("not a", "water", None, {"mass": True}, "kein Wasser|kein Wasser|keinem Wasser"),
        ("the", "child", None, {"plural": True}, "die Kinder|die Kinder|den Kindern|der Kinder"),
        ("a", "apple", "fresh", {"plural": True}, "frische Äpfel|frische Äpfel|frischen Äpfeln"),
        ("some", "book", "old", {"plural": True}, "einige alte Bücher|einige alte Bücher|"
         "einigen alten Büchern"),
        ("many", "car", None, {"plural": True}, "viele Autos|viele Autos|vielen Autos"),
        ("all", "girl", "small", {"plural": True}, "alle kleinen Mädchen|alle kleinen Mädchen|"
         "allen kleinen Mädchen"),
        ("three/drei", "egg", "big", {"plural": True}, "drei große Eier|drei große Eier|"
         "drei großen Eiern"),
        ("our", "son", "clever", {"plural": True}, "unsere klugen Söhne|unsere klugen Söhne|"
         "unseren klugen Söhnen|unserer klugen Söhne"),
    ],
)  # fmt: skip
def test_noun_phrases_agree_in_gender_case_and_number(determiner, noun, adjective, how, forms):
    expected = forms.split("|")
    assert german_cases(determiner, noun, adjective, **how)[: len(expected)] == expected


def test_owners_stand_in_the_genitive_after_the_noun_and_names_before_it():
    boy = noun_phrase("the", NOUNS["boy"])
    car = noun_phrase("the", NOUNS["car"], ADJECTIVES["red"], owner=boy)
    assert car.english == "the boy's red car"
    assert four_cases(car)[:3] == [
        "das rote Auto des Jungen",
        "das rote Auto des Jungen",
        "dem roten Auto des Jungen",
    ]
    dog = noun_phrase("the", NOUNS["dog"], ADJECTIVES["old"], owner=name("Anna"))
    assert dog.english == "Anna's old dog"
    assert four_cases(dog)[:3] == ["Annas alter Hund", "Annas alten Hund", "Annas altem Hund"]


@pytest.mark.parametrize(
    ("noun", "genitive"),
    [
        ("man", "Mannes"),
        ("child", "Kindes"),
        ("doctor", "Arztes"),
        ("friend", "Freundes"),
        ("teacher", "Lehrers"),
        ("uncle", "Onkels"),
        ("engineer", "Ingenieurs"),
        ("lawyer", "Anwalts"),
        ("boss", "Chefs"),
        ("girl", "Mädchens"),
        ("house", "Hauses"),
        ("farmer", "Bauern"),
        ("policeman", "Polizisten"),
        ("actress", "Schauspielerin"),
    ],
)
def test_genitives_have_the_endings_of_the_grammar_book(noun, genitive):
    assert NOUNS[noun].german_form("genitive", plural=False) == genitive


def test_nouns_are_read_with_their_gender_and_without_unused_plurals():
    milk, room = read_nouns("kind", "milk - die Milch -\nliving_room rooms das Wohnzimmer Räume")
    assert (milk.gender, milk.english_plural, milk.german_plural) == ("f", "", "")
    assert (room.english, room.gender, room.german_form("dative", True)) == (
        "living room",
        "n",
        "Räumen",
    )


@pytest.mark.parametrize(
    ("verb", "ich", "er", "wir", "participle", "auxiliary"),
    [
        ("read", "lese", "liest", "lesen", "gelesen", "haben"),
        ("eat", "esse", "isst", "essen", "gegessen", "haben"),
        ("see", "sehe", "sieht", "sehen", "gesehen", "haben"),
        ("help", "helfe", "hilft", "helfen", "geholfen", "haben"),
        ("give", "gebe", "gibt", "geben", "gegeben", "haben"),
        ("sleep", "schlafe", "schläft", "schlafen", "geschlafen", "haben"),
        ("drive", "fahre", "fährt", "fahren", "gefahren", "sein"),
        ("run", "laufe", "läuft", "laufen", "gelaufen", "sein"),
        ("wash", "wasche", "wäscht", "waschen", "gewaschen", "haben"),
        ("wear", "trage", "trägt", "tragen", "getragen", "haben"),
        ("forget", "vergesse", "vergisst", "vergessen", "vergessen", "haben"),
        ("work", "arbeite", "arbeitet", "arbeiten", "gearbeitet", "haben"),
        ("feed", "füttere", "füttert", "füttern", "gefüttert", "haben"),
        ("visit", "besuche", "besucht", "besuchen", "besucht", "haben"),
        ("repair", "repariere", "repariert", "reparieren", "repariert", "haben"),
        ("have", "habe", "hat", "haben", "gehabt", "haben"),
        ("get", "stehe", "steht", "stehen", "aufgestanden", "sein"),
        ("pick", "hole", "holt", "holen", "abgeholt", "haben"),
        ("invite", "lade", "lädt", "laden", "eingeladen", "haben"),
        ("take", "nehme", "nimmt", "nehmen", "mitgenommen", "haben"),
    ],
)
def test_german_verbs_have_the_forms_of_the_grammar_book(verb, ich, er, wir, participle, auxiliary):
    word = verb_named(verb)
    assert [word.german_present(agreement) for agreement in ("I", "he", "we", "they")] == [
        ich,
        er,
        wir,
        wir,
    ]
    assert (word.german_participle, word.auxiliary) == (participle, auxiliary)


def test_irregular_verbs_have_the_forms_of_the_grammar_book():
    assert [BE.german_present(who) for who in ("I", "he", "they")] == ["bin", "ist", "sind"]
    assert [KNOW.german_present(who) for who in ("I", "he", "they")] == ["weiß", "weiß", "wissen"]
    assert [irregular_present("dürfen", who) for who in ("I", "he", "we")] == [
        "darf",
        "darf",
        "dürfen",
    ]
    assert [irregular_preterite("sein", who) for who in ("I", "he", "we")] == [
        "war",
        "war",
        "waren",
    ]
    assert irregular_preterite("müssen", "they") == "mussten"
    assert irregular_present("lesen", "he") is None
    assert irregular_preterite("lesen", "he") is None


def test_zu_goes_between_the_prefix_and_the_verb():
    assert verb_named("pick").zu_infinitive() == "abzuholen"
    assert verb_named("read").zu_infinitive() == "zu lesen"


def test_participles_of_separable_verbs_hold_ge_after_the_prefix():
    separable = [verb for verb in TRANSITIVE if verb.prefix]
    assert len(separable) >= 7
    for verb in separable:
        assert verb.german_participle.startswith(verb.prefix + "ge"), verb.english


@pytest.mark.parametrize(
    ("preposition", "phrase", "joined"),
    [
        ("in", "dem Garten", "im Garten"),
        ("in", "das Haus", "ins Haus"),
        ("in", "die Stadt", "in die Stadt"),
        ("in", "einem Garten", "in einem Garten"),
        ("an", "dem alten Bahnhof", "am alten Bahnhof"),
        ("an", "den Strand", "an den Strand"),
        ("zu", "dem See", "zum See"),
        ("zu", "der Schule", "zur Schule"),
        ("auf", "dem Tisch", "auf dem Tisch"),
    ],
)
def test_prepositions_contract_with_the_definite_article(preposition, phrase, joined):
    assert with_preposition(preposition, phrase) == joined


def test_german_puts_the_unit_of_a_number_first():
    assert number_words(7) == ("seven", "sieben")
    assert number_words(17) == ("seventeen", "siebzehn")
    assert number_words(20) == ("twenty", "zwanzig")
    assert number_words(21) == ("twenty-one", "einundzwanzig")
    assert number_words(36) == ("thirty-six", "sechsunddreißig")


def test_english_words_have_their_endings():
    assert [third_person(verb) for verb in ("read", "go", "wash", "tidy", "play", "have")] == [
        "reads",
        "goes",
        "washes",
        "tidies",
        "plays",
        "has",
    ]
    assert [gerund(verb) for verb in ("lie", "write", "run", "see", "visit", "travel", "open")] == [
        "lying",
        "writing",
        "running",
        "seeing",
        "visiting",
        "travelling",
        "opening",
    ]
    assert [a_or_an(word) for word in ("apple", "honest man", "house", "hospital")] == [
        "an",
        "an",
        "a",
        "a",
    ]
