"""Questions: yes or no, and with a question word whose case German shows."""

import dataclasses
from random import Random

from pipelines.quickstart.grammar.adverbials import NEVER
from pipelines.quickstart.grammar.choices import OFTEN_PLURAL, PEOPLE, known_thing, subject
from pipelines.quickstart.grammar.clauses import Clause
from pipelines.quickstart.grammar.nouns import NOUNS, of_kind
from pipelines.quickstart.grammar.pairs import Pair, asked, question, statement
from pipelines.quickstart.grammar.phrases import Adverbial, Nominal, noun_phrase, pronoun
from pipelines.quickstart.grammar.predicates import (
    journey,
    motion,
    predicate,
    transitive,
)
from pipelines.quickstart.grammar.sense import suits
from pipelines.quickstart.grammar.tenses import in_time
from pipelines.quickstart.grammar.verbs import BE, COST, TRANSITIVE

_WHY, _WHEN = Adverbial("why", "warum"), Adverbial("when", "wann")
_WHERE, _WHERE_TO = Adverbial("where", "wo"), Adverbial("where", "wohin")
_WHAT = Adverbial("what", "was")
_WHOM = {"accusative": Adverbial("who", "wen"), "dative": Adverbial("who", "wem")}
_THINGS = of_kind("vehicle", "device", "instrument", "furniture", "garment", "article")
_LOST = of_kind("article", "container", "device", "literature", "tableware", "dog", "cat")
_CHOSEN = tuple(
    verb
    for verb in TRANSITIVE
    if verb.english in "read buy sell wear repair wash clean visit need take".split()
    and verb.objects != ("people",)
)


def _someone(rng: Random) -> Nominal:
    """Draw the subject of a question, which is not the speaker."""
    actor = subject(rng, definite=True)
    return actor if actor.english not in ("I", "we") else _someone(rng)


def yes_or_no(rng: Random) -> Pair:
    """Ask whether someone does something."""
    actor = _someone(rng) if rng.random() < 0.9 else pronoun("we")
    return question(in_time(rng, predicate(rng, actor)))


def who(rng: Random) -> Pair:
    """Ask who does something."""
    clause = in_time(rng, predicate(rng, pronoun("who")))
    english, german = statement(clause)
    return english[:-1] + "?", german[:-1] + "?"


def what(rng: Random) -> Pair:
    """Ask for the object: what, or who in the case that the German verb asks for."""
    clause = in_time(rng, transitive(rng, _someone(rng)))
    if clause.verb.preposition or not suits(clause):
        return what(rng)
    noun = NOUNS.get(clause.direct.noun) if clause.direct else None
    word = _WHAT if noun and noun not in PEOPLE else _WHOM[clause.verb.case]
    pair = asked(word, dataclasses.replace(clause, direct=None, manner=None))
    return pair if " on on " not in pair[0] else what(rng)


def why(rng: Random) -> Pair:
    """Ask why someone does something or does not."""
    negated = rng.random() < 0.3
    clause = predicate(rng, _someone(rng), negated)
    if negated and clause.verb.aspect == "event":
        return why(rng)
    return asked(_WHY, in_time(rng, clause))


def when(rng: Random) -> Pair:
    """Ask when someone does something."""
    clause = in_time(rng, predicate(rng, _someone(rng)))
    never_asked = clause.verb.reflexive or clause.verb.aspect == "state"
    if clause.time is None or clause.adverb or never_asked:
        return when(rng)
    return asked(_WHEN, dataclasses.replace(clause, time=None, manner=None))


def where(rng: Random) -> Pair:
    """Ask where something is or happens, and where someone goes (wohin)."""
    draw = rng.random()
    if draw < 0.3:
        phrase = known_thing(rng, rng.choice(_LOST))
        return asked(_WHERE, Clause(phrase, BE))
    word = _WHERE
    if draw < 0.6:
        clause = rng.choice((motion, journey))(rng, _someone(rng))
        word = _WHERE if clause.verb.english == "live" else _WHERE_TO
        unanswered = dataclasses.replace(clause, complement=None)
    else:
        clause = transitive(rng, _someone(rng))
        unanswered = dataclasses.replace(clause, place=None)
    timed = in_time(rng, unanswered)
    # "Where did he run" is ambiguous between place and direction.
    doubtful = clause.verb.english == "run" or timed.adverb == NEVER
    if clause == unanswered or doubtful or not suits(clause):
        return where(rng)
    return asked(word, timed)


def how_much(rng: Random) -> Pair:
    """Ask for a price, an age or a number."""
    draw = rng.random()
    if draw < 0.35:
        clause = Clause(known_thing(rng, rng.choice(_THINGS)), COST)
        return asked(Adverbial("how much", "wie viel"), clause)
    if draw < 0.6:
        phrase = _someone(rng)
        if phrase.order == "pronoun" or rng.random() < 0.4:
            phrase = known_thing(rng, rng.choice(_THINGS), adjective=False)
        return asked(Adverbial("how old", "wie alt"), Clause(phrase, BE))
    return _about_noun(rng, "how many", plural=True)


def which(rng: Random) -> Pair:
    """Ask which of several things: welches Buch, welchen Mantel."""
    return _about_noun(rng, "which", plural=False)


def _about_noun(rng: Random, determiner: str, plural: bool) -> Pair:
    verb = rng.choice(_CHOSEN)
    if plural and verb.english == "wear":
        return _about_noun(rng, determiner, plural)
    nouns = [noun for noun in of_kind(*verb.objects) if noun.english_plural]
    if not plural:
        nouns = [noun for noun in nouns if noun.english not in OFTEN_PLURAL]
    if not nouns:
        return _about_noun(rng, determiner, plural)
    phrase = noun_phrase(determiner, rng.choice(nouns), plural=plural)
    clause = Clause(_someone(rng), verb, direct=phrase)
    if not suits(clause):
        return _about_noun(rng, determiner, plural)
    clause = dataclasses.replace(in_time(rng, clause), direct=None)
    return asked(Adverbial(phrase.english, phrase.in_case(verb.case)), clause)
