"""Tense, modal verb and matching adverbials of time for clauses.

A past without an auxiliary always has a time ("read yesterday"), since some English verbs do not
show it.
"""

import dataclasses
from random import Random

from pipelines.quickstart.grammar.adverbials import (
    ALREADY,
    EARLIER,
    FREQUENCY,
    HABIT,
    LATER,
    NEVER,
    NOW,
    RECENTLY,
    SEASONS,
    SOON,
    ago,
    ahead,
    clock,
    weekday,
)
from pipelines.quickstart.grammar.clauses import Clause
from pipelines.quickstart.grammar.nouns import NOUNS, of_kind
from pipelines.quickstart.grammar.phrases import Adverbial
from pipelines.quickstart.grammar.sense import may_be_habit

# Verbs of events that can be weeks or years away.
_LASTING = "buy sell repair visit build meet travel fly write lose help invite have".split()
_GROCERIES = of_kind("fruit", "vegetable", "dish", "hot_drink", "cold_drink", "press")
_LIKED = (
    "eat drink cook read write sing dance swim run play visit meet help travel fly wear".split()
)
_COMPLETED = (
    "eat drink cook buy sell read write repair clean wash open close put turn pick invite"
    " visit call meet feed build tidy find lose forget arrive get give show send explain"
).split()
_AT_THE_CLOCK = "arrive meet call pick".split()
_NOT_PLANNED = "sit lie stand cry".split()
_STATES_IN_PAST = "need see hear understand have".split()
_ABLE = "see hear understand".split()
_MODALS = ("can", "must", "should", "want", "would like", "be allowed", "like", "have to")
_NEGATED_MODALS = ("can", "should", "want", "be allowed", "have to", "like")
# Getting up has its own adverbials and a time of day.
_DAYS_OF_RISING = {
    "past": (RECENTLY[0], RECENTLY[2]),
    "future": SOON[:1],
    "habit": HABIT[:2],
}


def in_time(rng: Random, clause: Clause) -> Clause:
    """Draw a tense or a modal verb, and a time, that fit the verb."""
    verb, draw = clause.verb, rng.random()
    if verb.aspect == "state":
        return _state(rng, clause)
    if verb.aspect == "event":
        return _past(rng, clause) if clause.negated or draw < 0.7 else _done(clause)
    if draw < 0.10 or verb.particle == "forward to":
        return now(rng, clause)
    if verb.english in _NOT_PLANNED:
        return _past(rng, clause) if clause.negated or draw < 0.5 else _habit(rng, clause)
    if draw < 0.17:
        return dataclasses.replace(clause, progressive=True, time=_coming(rng, clause))
    if draw < 0.36:
        return _past(rng, clause)
    if draw < 0.42:
        return _future(rng, clause)
    if draw < 0.52:
        return _with_modal(rng, clause)
    completed = verb.english in _COMPLETED and not verb.preposition
    if completed and not clause.negated and rng.random() < 0.35:
        return _done(clause)
    return _habit(rng, clause) if may_be_habit(clause) else _past(rng, clause)


def now(rng: Random, clause: Clause) -> Clause:
    """Put a clause in the present, often with a time."""
    if clause.verb.aspect == "state":
        return clause
    if clause.verb.aspect == "event":
        return _done(clause)
    time = rng.choice(NOW) if rng.random() < 0.4 else None
    return dataclasses.replace(clause, progressive=True, time=time)


def _with_modal(rng: Random, clause: Clause) -> Clause:
    """Give a clause a modal verb."""
    modal = rng.choice(_NEGATED_MODALS if clause.negated else _MODALS)
    if modal == "like":
        if clause.verb.english in _LIKED and may_be_habit(clause) and clause.place is None:
            return dataclasses.replace(clause, modal=modal, manner=None)
        modal = "want"
    if modal == "have to" and not clause.negated or modal == "want" and rng.random() < 0.3:
        past = _passed(rng, clause)
        return dataclasses.replace(clause, modal=modal, tense="past", time=past)
    time = _coming(rng, clause) if rng.random() < 0.4 else None
    return dataclasses.replace(clause, modal=modal, time=time)


def _state(rng: Random, clause: Clause) -> Clause:
    verb, draw = clause.verb.english, rng.random()
    if verb == "have" and clause.direct and not clause.direct.indefinite:
        return clause
    if verb in _STATES_IN_PAST and draw < 0.3:
        time = ago(rng, "year", "month") if verb == "have" else _passed(rng, clause)
        return dataclasses.replace(clause, tense="past", time=time)
    if verb in _ABLE and draw < 0.55:
        return dataclasses.replace(clause, modal="can")
    if verb == "have" and draw < 0.5:
        return dataclasses.replace(clause, modal="want" if clause.negated else "would like")
    return clause


def _past(rng: Random, clause: Clause) -> Clause:
    return dataclasses.replace(clause, tense="past", time=_passed(rng, clause))


def _future(rng: Random, clause: Clause) -> Clause:
    soon = not clause.negated and rng.random() < 0.25
    time = SOON[-1] if soon else _coming(rng, clause)
    return dataclasses.replace(clause, tense="future", time=time)


def _done(clause: Clause) -> Clause:
    return dataclasses.replace(clause, tense="perfect", adverb=ALREADY, manner=None, place=None)


def _habit(rng: Random, clause: Clause) -> Clause:
    verb, draw = clause.verb, rng.random()
    if draw < 0.55 and verb.english not in ("get", "arrive"):
        everyone = clause.subject.determiner in ("every", "all")
        if draw < 0.1 and not everyone and not clause.subject.indefinite:
            return dataclasses.replace(clause, adverb=NEVER)
        # "Everybody rarely does" is confusing.
        adverb = rng.choice(FREQUENCY[:-1] if everyone else FREQUENCY)
        return dataclasses.replace(clause, adverb=adverb)
    if verb.english in _LASTING:
        return dataclasses.replace(clause, time=rng.choice(SEASONS))
    return dataclasses.replace(clause, time=_on_time(rng, clause, rng.choice(HABIT), "habit"))


def _may_last(clause: Clause) -> bool:
    groceries = clause.direct and NOUNS.get(clause.direct.noun) in _GROCERIES
    return clause.verb.english in _LASTING and not clause.negated and not groceries


def _passed(rng: Random, clause: Clause) -> Adverbial:
    draw = rng.random()
    if _may_last(clause) and draw < 0.6 or clause.verb.english == "build":
        return rng.choice(EARLIER) if draw < 0.3 else ago(rng, "week", "month", "year", "day")
    if draw < 0.7 or clause.verb.english in ("get", "arrive"):
        return _on_time(rng, clause, rng.choice(RECENTLY), "past")
    return weekday(rng) if draw < 0.9 else ago(rng, "hour", "day")


def _coming(rng: Random, clause: Clause) -> Adverbial:
    draw = rng.random()
    if _may_last(clause) and draw < 0.5:
        return rng.choice(LATER) if draw < 0.3 else ahead(rng, "week", "month", "year", "day")
    if draw < 0.8 or clause.verb.english == "get":
        return _on_time(rng, clause, rng.choice(SOON[:-1]), "future")
    return weekday(rng)


def _on_time(rng: Random, clause: Clause, time: Adverbial, tense: str) -> Adverbial:
    """Add an hour to a time where the verb goes with one."""
    if clause.verb.english == "get":
        time = rng.choice(_DAYS_OF_RISING[tense])
    elif clause.verb.english not in _AT_THE_CLOCK or rng.random() < 0.5:
        return time
    hour = clock(rng)
    return Adverbial(f"{time.english} {hour.english}", f"{time.german} {hour.german}")
