"""Sentences of two clauses: conditions, the weather, two deeds at once, wish and reality."""

import dataclasses
from random import Random

from pipelines.quickstart.grammar.adjectives import ADJECTIVES
from pipelines.quickstart.grammar.adverbials import SOON
from pipelines.quickstart.grammar.choices import person_to_refer_to, subject
from pipelines.quickstart.grammar.clauses import Clause
from pipelines.quickstart.grammar.nouns import NOUNS
from pipelines.quickstart.grammar.pairs import (
    Pair,
    again,
    followed,
    joined,
    preceded,
    subordinate,
)
from pipelines.quickstart.grammar.phrases import Adverbial, fixed, noun_phrase, refer_back
from pipelines.quickstart.grammar.predicates import (
    being,
    outdoors,
    plan,
    predicate,
    stay_at_home,
)
from pipelines.quickstart.grammar.sense import DUTIES, PLANS
from pipelines.quickstart.grammar.tenses import now
from pipelines.quickstart.grammar.verbs import verb_named

_BECAUSE = Adverbial("because", "weil")
_ALTHOUGH = Adverbial("although", "obwohl")
_IF = Adverbial("if", "wenn")
_WHILE = Adverbial("while", "während")
_TOMORROW = SOON[0]

_IT = fixed("it", "es")
_GOOD_WEATHER = (
    Clause(noun_phrase("the", NOUNS["sun"]), verb_named("shine"), progressive=True),
    being(noun_phrase("the", NOUNS["weather"]), ADJECTIVES["good"]),
)
_BAD_WEATHER = (
    Clause(_IT, verb_named("rain"), progressive=True),
    Clause(_IT, verb_named("snow"), progressive=True),
    being(noun_phrase("the", NOUNS["weather"]), ADJECTIVES["bad"]),
)


def in_weather(rng: Random) -> Pair:
    """Write what people do in good and bad weather."""
    actor, draw = subject(rng, definite=True), rng.random()
    good = draw < 0.45
    weather = rng.choice(_GOOD_WEATHER if good else _BAD_WEATHER)
    clause = outdoors(rng, actor) if good else stay_at_home(actor)
    if draw < 0.25 or 0.45 < draw < 0.6:
        return _either_way(rng, _BECAUSE, weather, now(rng, clause))
    if draw > 0.8:
        return _either_way(rng, _ALTHOUGH, weather, now(rng, outdoors(rng, actor)))
    weather = dataclasses.replace(weather, progressive=False, time=_TOMORROW)
    return _either_way(rng, _IF, weather, dataclasses.replace(clause, tense="future"))


def if_there_is_time(rng: Random) -> Pair:
    """Write "If Anna has time tomorrow, she will visit her uncle"."""
    actor = person_to_refer_to(rng)
    clause = dataclasses.replace(plan(rng, actor), tense="future")
    means = NOUNS[rng.choice(("time", "money") if clause.verb.english == "buy" else ("time",))]
    time = rng.choice((None, _TOMORROW))
    having = Clause(actor, verb_named("have"), direct=noun_phrase("a", means, mass=True), time=time)
    return preceded(subordinate(_IF, having), again(clause))


def meanwhile(rng: Random) -> Pair:
    """Write two deeds at the same time: "While Anna is reading, Paul is cooking soup"."""
    first, second = (
        dataclasses.replace(predicate(rng, actor), progressive=True, place=None)
        for actor in (subject(rng, definite=True), subject(rng, definite=True))
    )
    same = set(first.subject.noun.split()) & set(second.subject.noun.split())
    both_of_us = {first.subject.english, second.subject.english} == {"I", "we"}
    if (
        same
        or both_of_us
        or first.verb == second.verb
        or {first.verb.aspect, second.verb.aspect} != {"activity"}
    ):
        return meanwhile(rng)
    if rng.random() < 0.4:
        return joined(first, " and ", second, " und ")
    return preceded(subordinate(_WHILE, first), second)


def contrast(rng: Random) -> Pair:
    """Write "Paul wants to buy the car, but he has no money"."""
    actor = person_to_refer_to(rng)
    modal = rng.choice(("want", "would like", "must", "should"))
    clause = plan(rng, actor, DUTIES if modal in ("must", "should") else PLANS)
    clause = dataclasses.replace(clause, modal=modal)
    same, draw = refer_back(actor), rng.random()
    if draw < 0.4:
        means = "money" if clause.verb.english == "buy" and draw < 0.3 else "time"
        phrase = noun_phrase("no", NOUNS[means], mass=True)
        second = Clause(same, verb_named("have"), direct=phrase)
    elif draw < 0.7:
        second = being(same, ADJECTIVES[rng.choice(("tired", "sick"))])
    else:
        second = Clause(same, verb_named("work"), modal="must")
        second = dataclasses.replace(second, time=Adverbial("today", "heute"))
    return joined(clause, ", but ", second, ", aber ")


def _either_way(rng: Random, conjunction: Adverbial, part: Clause, main: Clause) -> Pair:
    """Write the subordinate clause first or last."""
    if rng.random() < 0.5:
        return preceded(subordinate(conjunction, part), main)
    return followed(main, subordinate(conjunction, part))
