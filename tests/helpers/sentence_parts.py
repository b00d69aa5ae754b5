"""The parts that tests build sentences of the generated corpus from."""

from pipelines.quickstart.grammar.adjectives import ADJECTIVES
from pipelines.quickstart.grammar.clauses import Clause
from pipelines.quickstart.grammar.nouns import NOUNS
from pipelines.quickstart.grammar.phrases import (
    Adverbial,
    at_place,
    name,
    noun_phrase,
    pronoun,
    to_place,
)
from pipelines.quickstart.grammar.verbs import TRANSITIVE, verb_named

ANNA, PAUL, HE, SHE, WE, THEY = (
    name("Anna"),
    name("Paul"),
    pronoun("he"),
    pronoun("she"),
    pronoun("we"),
    pronoun("they"),
)
TODAY, TOMORROW = Adverbial("today", "heute"), Adverbial("tomorrow", "morgen")
YESTERDAY, OFTEN = Adverbial("yesterday", "gestern"), Adverbial("often", "oft")
BECAUSE, THAT = Adverbial("because", "weil"), Adverbial("that", "dass")
ALTHOUGH, IF = Adverbial("although", "obwohl"), Adverbial("if", "wenn")
LOOK_FORWARD = next(verb for verb in TRANSITIVE if verb.reflexive)


def the(noun, adjective=None, **how):
    return phrase("the", noun, adjective, **how)


def phrase(determiner, noun, adjective=None, **how):
    return noun_phrase(determiner, NOUNS[noun], ADJECTIVES.get(adjective), **how)


def clause(subject, verb, **parts):
    return Clause(subject, verb_named(verb) if isinstance(verb, str) else verb, **parts)


def now(subject, verb, **parts):
    return clause(subject, verb, progressive=True, **parts)


def at(place, determiner="the"):
    return at_place(place, phrase(determiner, place))


def to(place, determiner="the"):
    return to_place(place, phrase(determiner, place))
