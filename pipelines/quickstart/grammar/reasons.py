"""Sentences that give a reason, a contrast or a purpose."""

import dataclasses
from random import Random

from pipelines.quickstart.grammar.adjectives import ADJECTIVES, adjectives_for
from pipelines.quickstart.grammar.adverbials import RECENTLY, SOON
from pipelines.quickstart.grammar.choices import (
    person,
    person_to_refer_to,
    related,
    subject,
    thing,
)
from pipelines.quickstart.grammar.clauses import Clause
from pipelines.quickstart.grammar.nouns import NOUNS, of_kind
from pipelines.quickstart.grammar.pairs import (
    Pair,
    again,
    followed,
    infinitive,
    preceded,
    subordinate,
)
from pipelines.quickstart.grammar.phrases import (
    Adverbial,
    Nominal,
    noun_phrase,
    refer_back,
    to_place,
)
from pipelines.quickstart.grammar.predicates import being, plan, stay_at_home
from pipelines.quickstart.grammar.sense import DUTIES, several, suits
from pipelines.quickstart.grammar.tenses import in_time, now
from pipelines.quickstart.grammar.verbs import verb_named

_BECAUSE = Adverbial("because", "weil")
_ALTHOUGH = Adverbial("although", "obwohl")

# What people do or do not do in a state: a verb with an object or a destination.
_DEEDS_IN_STATE = {
    "tired": ("sleep", "drink coffee", "go to bedroom", "not dance", "not work", "stay"),
    "hungry": ("eat dish", "cook soup", "buy bread", "go to restaurant", "go to kitchen"),
    "sick": ("drink tea", "visit doctor", "go to hospital", "not work", "not come", "stay"),
    "sad": ("cry", "not laugh", "not dance", "call relatives", "not sing"),
    "happy": ("laugh", "sing", "dance"),
    "nervous": ("not sleep", "drink water", "not eat", "run"),
    "angry": ("not laugh", "not help relatives", "not eat", "not come"),
}
# Qualities of things that are reasons to do something with them.
_QUALITIES = {
    "buy": "cheap beautiful practical comfortable modern fresh good",
    "not buy": "expensive ugly old big small heavy dirty",
    "sell": "old slow broken small ugly",
    "repair": "old broken",
    "wash": "dirty",
    "clean": "dirty",
    "read": "interesting short good important",
    "not read": "boring long old",
    "wear": "warm beautiful new comfortable",
    "eat": "fresh delicious sweet good",
    "drink": "hot good",
    "understand": "simple short",
    "not understand": "difficult strange long",
}
# Destinations and their purposes.
_PURPOSES = {
    "city": ("buy garment", "buy book", "meet people", "visit museum"),
    "market": ("buy fruit", "buy vegetable", "sell vegetable", "buy flower", "buy cheese"),
    "kitchen": ("cook soup", "eat dish", "drink hot_drink", "wash tableware", "cook egg"),
    "library": ("read literature", "read press", "write report", "look literature"),
    "station": ("pick people", "meet people"),
    "garden": ("feed animal", "play", "look cat", "call people", "read press"),
    "bakery": ("buy bread", "buy cake"),
    "shop": ("buy cold_drink", "buy dish", "buy press", "buy umbrella"),
    "hospital": ("visit people", "visit relatives"),
    "lake": ("swim",),
    "restaurant": ("eat dish", "drink cold_drink", "meet people"),
    "office": ("work", "write email", "write letter", "call people"),
    "bedroom": ("sleep", "look article", "open window"),
    "cellar": ("look article", "repair vehicle", "look container", "repair device"),
}


def because_of_state(rng: Random) -> Pair:
    """Write "Anna is sleeping because she is tired", or the reason first."""
    state = rng.choice(list(_DEEDS_IN_STATE))
    actor = person_to_refer_to(rng)
    clause = _deed(rng, actor, rng.choice(_DEEDS_IN_STATE[state]))
    feeling = being(actor, ADJECTIVES[state])
    if not suits(feeling):
        return because_of_state(rng)
    if rng.random() < 0.3:
        clause = dataclasses.replace(clause, tense="past", time=rng.choice(RECENTLY))
        feeling = dataclasses.replace(feeling, tense="past")
    else:
        clause = now(rng, clause)
    if rng.random() < 0.5:
        return preceded(subordinate(_BECAUSE, feeling), again(clause))
    return followed(clause, subordinate(_BECAUSE, again(feeling)))


def because_of_quality(rng: Random) -> Pair:
    """Write "Paul is buying the coat because it is warm", with a pronoun in its gender."""
    key = rng.choice(list(_QUALITIES))
    negated = key.startswith("not ")
    verb = verb_named(key.removeprefix("not "))
    noun = rng.choice(of_kind(*verb.objects))
    fitting = [
        word
        for word in adjectives_for(noun.kind, noun.english)
        if word.english in _QUALITIES[key].split()
    ]
    direct = thing(rng, noun, adjective=False, negated=True)
    clause = Clause(person_to_refer_to(rng), verb, direct=direct, negated=negated)
    if not fitting or direct.indefinite or not suits(clause):
        return because_of_quality(rng)
    quality = being(refer_back(direct), rng.choice(fitting))
    if rng.random() < 0.35:
        clause = dataclasses.replace(clause, tense="past", time=rng.choice(RECENTLY))
        return followed(clause, subordinate(_BECAUSE, dataclasses.replace(quality, tense="past")))
    return followed(now(rng, clause), subordinate(_BECAUSE, quality))


def because_of_need(rng: Random) -> Pair:
    """Write "She is looking for her key because she needs it tomorrow"."""
    verb = verb_named(rng.choice(("look", "repair", "wash", "take")))
    actor = person_to_refer_to(rng)
    direct = thing(rng, rng.choice(of_kind(*verb.objects)), actor, negated=True)
    if direct.indefinite or direct.noun in ("dog", "cat"):
        return because_of_need(rng)
    need = Clause(refer_back(actor), verb_named("need"), direct=refer_back(direct))
    time = rng.choice((None, SOON[0], SOON[1], Adverbial("today", "heute")))
    need = dataclasses.replace(need, time=time)
    clause = Clause(actor, verb, direct=direct, progressive=True)
    return followed(clause, subordinate(_BECAUSE, need))


def excuse(rng: Random) -> Pair:
    """Write "Anna has no time because she has to write a letter"."""
    actor = person_to_refer_to(rng)
    reason = again(plan(rng, actor, DUTIES))
    if rng.random() < 0.5:
        reason = dataclasses.replace(reason, modal="must")
    else:
        reason = now(rng, reason)
    if rng.random() < 0.5:
        main = Clause(actor, verb_named("have"), direct=noun_phrase("no", NOUNS["time"], mass=True))
    else:
        main = Clause(actor, verb_named("come"), modal="can", negated=True)
    return followed(main, subordinate(_BECAUSE, reason))


def although(rng: Random) -> Pair:
    """Write "Although Anna is tired, she is washing the car", or the exception last."""
    actor = person_to_refer_to(rng)
    clause = now(rng, plan(rng, actor, DUTIES))
    feeling = being(actor, ADJECTIVES[rng.choice(("tired", "sick"))])
    if not suits(feeling):
        return although(rng)
    if rng.random() < 0.6:
        return preceded(subordinate(_ALTHOUGH, feeling), again(clause))
    return followed(clause, subordinate(_ALTHOUGH, again(feeling)))


def purpose(rng: Random) -> Pair:
    """Write "She is going into the city to buy a coat", in German with um ... zu."""
    actor = subject(rng, definite=True)
    place = rng.choice(list(_PURPOSES))
    clause = _deed(rng, actor, rng.choice(_PURPOSES[place]))
    going = _deed(rng, actor, f"go to {place}")
    if not suits(clause):
        return purpose(rng)
    return followed(in_time(rng, going), infinitive(clause, "um"))


def _deed(rng: Random, actor: Nominal, text: str) -> Clause:
    """Build a clause from `not eat dish`, `go to kitchen`, `stay`."""
    negated = text.startswith("not ")
    name, *rest = text.removeprefix("not ").split()
    verb = verb_named(name)
    if rest[:1] == ["to"]:
        goal = to_place(rest[1], noun_phrase("the", NOUNS[rest[1]]))
        return Clause(actor, verb, complement=goal, negated=negated)
    if name == "stay":
        return stay_at_home(actor)
    if not rest:
        return Clause(actor, verb, negated=negated)
    if rest == ["people"]:
        return Clause(actor, verb, direct=person(rng, actor), negated=negated)
    if rest == ["relatives"]:
        return Clause(actor, verb, direct=related(rng, actor), negated=negated)
    if rest == ["doctor"]:
        return Clause(actor, verb, direct=noun_phrase("the", NOUNS["doctor"]), negated=negated)
    noun = rng.choice(of_kind(rest[0]))
    owner = None if name == "buy" else actor
    direct = thing(rng, noun, owner, negated, several(verb, noun, actor))
    return Clause(actor, verb, direct=direct, negated=negated)
