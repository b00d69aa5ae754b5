"""Sentences about things and animals: their owners, positions and fates."""

import dataclasses
from random import Random

from pipelines.quickstart.grammar.adjectives import adjectives_for
from pipelines.quickstart.grammar.adverbials import CAUSES, RECENTLY, weekday
from pipelines.quickstart.grammar.choices import (
    OFTEN_PLURAL,
    known_thing,
    person,
    place_phrase,
    subject,
    thing,
)
from pipelines.quickstart.grammar.clauses import Clause, sentence
from pipelines.quickstart.grammar.nouns import NOUNS, of_kind
from pipelines.quickstart.grammar.pairs import Pair, statement, varied_statement
from pipelines.quickstart.grammar.phrases import (
    Adverbial,
    Nominal,
    at_place,
    noun_phrase,
    prepositional,
    pronoun,
)
from pipelines.quickstart.grammar.places import LYING, STANDING
from pipelines.quickstart.grammar.predicates import outdoors, spot
from pipelines.quickstart.grammar.sense import suits
from pipelines.quickstart.grammar.tenses import now
from pipelines.quickstart.grammar.verbs import (
    BELONG,
    LIE,
    SIT,
    STAND,
    TRANSITIVE,
    verb_named,
)
from pipelines.quickstart.grammar.words import Noun

_POSSESSIONS = of_kind("vehicle", "device", "instrument", "container", "article", "coat", "hat")
_SIGHTS = of_kind("church", "museum", "hotel", "castle", "school", "restaurant", "cinema", "park")
_PETS = of_kind("dog", "cat", "rabbit", "mouse")
_CATTLE = of_kind("horse", "cow", "pig", "bird", "dog")
_PET_SPOTS = (
    ("under", "unter", "table chair bed sofa"),
    ("behind", "hinter", "door sofa"),
    ("on", "auf", "sofa bed chair"),
    ("in front of", "vor", "door window television"),
    ("next to", "neben", "sofa bed"),
)
_DONE_TO_THINGS = tuple(
    verb
    for verb in TRANSITIVE
    if verb.english in "repair sell find clean wash forget open close write".split()
)
_BUILT = of_kind("house", "church", "school", "bridge", "castle", "hotel", "hospital", "factory")


def possession(rng: Random) -> Pair:
    """Write whose something is: "The guitar belongs to my sister"."""
    phrase = thing(rng, rng.choice(_POSSESSIONS), negated=True)
    owner = person(rng, phrase)
    if phrase.indefinite or owner.indefinite or owner.determiner == "all":
        return possession(rng)
    return statement(Clause(phrase, BELONG, direct=owner, negated=rng.random() < 0.2))


def existence(rng: Random) -> Pair:
    """Write what there is somewhere, with es gibt: "There is an old castle in this city"."""
    noun = rng.choice(_SIGHTS)
    several = bool(noun.english_plural) and rng.random() < 0.4
    determiner = rng.choice(("many", "some", "two/zwei", "three/drei")) if several else "a"
    adjective = rng.choice((None, rng.choice(adjectives_for(noun.kind, noun.english))))
    phrase = noun_phrase(determiner, noun, adjective, plural=several)
    town = rng.choice(("city", "village"))
    place = at_place(town, noun_phrase(rng.choice(("the", "the", "this", "our")), NOUNS[town]))
    english = f"there {'are' if several else 'is'} {phrase.english} {place.english}"
    return sentence(english), sentence(f"{place.german} gibt es {phrase.in_case('accusative')}")


def whereabouts(rng: Random) -> Pair:
    """Write where a thing is: it lies or stands, in German too."""
    verb, nouns = rng.choice(((LIE, LYING), (STAND, STANDING)))
    noun = NOUNS[rng.choice(nouns)]
    phrase = _subject(rng, noun)
    negated = not phrase.indefinite and rng.random() < 0.15
    where = spot(rng, noun)
    return statement(Clause(phrase, verb, progressive=True, complement=where, negated=negated))


def animal(rng: Random) -> Pair:
    """Write what an animal does: "Our cats are sleeping under the sofa"."""
    if rng.random() < 0.5:
        noun, verb = rng.choice(_PETS), rng.choice((verb_named("sleep"), SIT, LIE))
        english, german, names = rng.choice(_PET_SPOTS)
        beside = known_thing(rng, NOUNS[rng.choice(names.split())])
        where = prepositional(english, german, beside)
    else:
        noun, verb = rng.choice(_CATTLE), rng.choice((verb_named("sleep"), STAND))
        place = rng.choice(("garden", "forest", "street", "park", "bridge", "beach"))
        where = at_place(place, place_phrase(rng, place))
    phrase = _subject(rng, noun, pronoun(rng.choice(("I", "we", "she", "he"))))
    return varied_statement(rng, now(rng, Clause(phrase, verb, complement=where)))


def passive(rng: Random) -> Pair:
    """Write what was done to a thing: "The church was built in 1850"."""
    if rng.random() < 0.4:
        noun = rng.choice(_BUILT)
        phrase = noun_phrase(rng.choice(("the", "this")), noun)
        year = str(rng.randrange(1800, 2021, 10))  # Few enough that each is seen in training.
        time = Adverbial(f"in {year}", year)
        return statement(Clause(phrase, verb_named("build"), tense="passive", time=time))
    verb = rng.choice(_DONE_TO_THINGS)
    noun = rng.choice([noun for noun in of_kind(*verb.objects) if noun.kind != "animal"])
    phrase = thing(rng, noun, negated=True, plural=noun.english in OFTEN_PLURAL or None)
    time = rng.choice(RECENTLY) if rng.random() < 0.6 else weekday(rng)
    clause = Clause(phrase, verb, tense="passive", time=time)
    if phrase.indefinite or not suits(dataclasses.replace(clause, direct=phrase)):
        return passive(rng)
    return varied_statement(rng, clause)


def weather(rng: Random) -> Pair:
    """Write what people do or do not do because of the weather, with a German genitive."""
    cause = rng.choice(CAUSES)
    negated = cause.english.startswith("because")
    clause = outdoors(rng, subject(rng, definite=True), negated)
    clause = dataclasses.replace(clause, modal="can") if negated else now(rng, clause)
    return statement(clause, cause)


def _subject(rng: Random, noun: Noun, owner: Nominal | None = None) -> Nominal:
    """Draw a phrase that can start a sentence: one without digits at the beginning."""
    phrase = thing(rng, noun, owner)
    return _subject(rng, noun, owner) if phrase.english[0].isdigit() else phrase
