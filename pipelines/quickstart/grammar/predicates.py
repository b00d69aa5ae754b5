"""Draws what someone does: a verb with objects and a place that fit it and its subject."""

import dataclasses
from random import Random

from pipelines.quickstart.grammar.adverbials import MANNERS
from pipelines.quickstart.grammar.choices import (
    known_thing,
    person,
    place_phrase,
    related,
    thing,
)
from pipelines.quickstart.grammar.clauses import Clause
from pipelines.quickstart.grammar.nouns import NOUNS, of_kind
from pipelines.quickstart.grammar.phrases import (
    Adverbial,
    Nominal,
    at_place,
    fixed,
    noun_phrase,
    prepositional,
    to_place,
)
from pipelines.quickstart.grammar.places import CITIES, COUNTRIES, LYING, STANDING, spots_for
from pipelines.quickstart.grammar.sense import PLANS, several, suits
from pipelines.quickstart.grammar.verbs import (
    BE,
    DITRANSITIVE,
    FLY,
    INTRANSITIVE,
    LIE,
    LIVE,
    MOTION,
    PUT_LYING,
    PUT_STANDING,
    SIT,
    STAND,
    TRANSITIVE,
    TRAVEL,
    verb_named,
)
from pipelines.quickstart.grammar.words import Adjective, Noun

# Verbs that are not plans: looking forward to something, and going to another room.
_NO_PLANS = tuple(
    verb for verb in TRANSITIVE + MOTION if verb.reflexive or "bathroom" in verb.places
)
_OBJECTS = {verb: of_kind(*verb.objects) for verb in TRANSITIVE + DITRANSITIVE}
# Games and instruments, without an article in German.
_GAMES = {
    "football": "Fußball",
    "tennis": "Tennis",
    "chess": "Schach",
    "the guitar": "Gitarre",
    "the piano": "Klavier",
}
_ACROSS_THE_SEA = ("London", "Hamburg", "Italy")
_MANNERS_OF = {
    "eat": ("slowly", "quickly", "alone"),
    "drink": ("slowly", "quickly"),
    "run": ("slowly", "quickly"),
    "write": ("slowly", "quickly"),
    "open": ("slowly", "carefully", "quietly"),
    "close": ("slowly", "carefully", "quietly"),
    "wash": ("carefully", "quickly"),
    "clean": ("carefully", "quickly"),
    "laugh": ("quietly", "loudly"),
    "sing": ("quietly", "loudly", "alone"),
    "cry": ("quietly", "loudly"),
    "swim": ("slowly", "quickly", "alone"),
    "dance": ("alone", "slowly"),
}


def plan(rng: Random, actor: Nominal, among: list[str] = PLANS) -> Clause:
    """Draw something that a person may want to do, or, with `DUTIES`, has to do."""
    while True:
        clause = predicate(rng, actor)
        if clause.verb.english in among and clause.verb not in _NO_PLANS:
            return clause


def predicate(rng: Random, actor: Nominal, negated: bool = False) -> Clause:
    """Draw what a person does, in the present."""
    makers = (transitive, intransitive, ditransitive, motion, journey, posture, put, play)
    weights = (56, 16, 12, 6, 6, 5, 2, 3)
    while True:
        clause = rng.choices(makers, weights)[0](rng, actor, negated)
        if suits(clause):
            return clause


def transitive(rng: Random, actor: Nominal, negated: bool = False) -> Clause:
    """Draw a verb with one object."""
    verb = rng.choice(TRANSITIVE)
    things = _OBJECTS[verb]
    if "people" in verb.objects and (not things or rng.random() < 0.5):
        direct = person(rng, actor)
    elif "relatives" in verb.objects and rng.random() < 0.5:
        direct = related(rng, actor)
    else:
        noun = rng.choice(things)
        # People do not buy what they own.
        owner = None if verb.english == "buy" else actor
        direct = thing(rng, noun, owner, negated, several(verb, noun, actor))
    clause = Clause(actor, verb, direct=direct, negated=negated)
    return clause if negated else _with_place(rng, clause)


def intransitive(rng: Random, actor: Nominal, negated: bool = False) -> Clause:
    """Draw a verb without an object."""
    clause = Clause(actor, rng.choice(INTRANSITIVE), negated=negated)
    return _with_place(rng, clause)


def ditransitive(rng: Random, actor: Nominal, negated: bool = False) -> Clause:
    """Draw a verb with a person and a thing as its objects."""
    verb = rng.choice(DITRANSITIVE)
    direct = thing(rng, rng.choice(_OBJECTS[verb]), actor, negated)
    return Clause(actor, verb, indirect=person(rng, actor), direct=direct, negated=negated)


def motion(rng: Random, actor: Nominal, negated: bool = False) -> Clause:
    """Draw a movement to a nearby place."""
    verb = rng.choice(MOTION)
    place = rng.choice(verb.places)
    goal = to_place(place, place_phrase(rng, place))
    company = _company(rng, actor) if not negated and rng.random() < 0.15 else None
    return Clause(actor, verb, complement=goal, manner=company, negated=negated)


def journey(rng: Random, actor: Nominal, negated: bool = False) -> Clause:
    """Draw a journey to a city or a country, or a place to live."""
    destinations = list({**CITIES, **COUNTRIES}.items())
    english, german = rng.choice(destinations)
    draw = rng.random()
    if draw < 0.3:
        where = Adverbial(f"in {english}", f"in {german}")
        return Clause(actor, LIVE, complement=where, negated=negated)
    if draw < 0.45:
        place = rng.choice(("castle", "village", "city", "hotel", "house", "island"))
        where = at_place(place, place_phrase(rng, place))
        return Clause(actor, LIVE, complement=where, negated=negated)
    goal = Adverbial(f"to {english}", f"nach {german}")
    if draw < 0.65:
        return Clause(actor, FLY, complement=goal, negated=negated)
    means = ("train", "bus", "car", "ship" if english in _ACROSS_THE_SEA else "train")
    transport = noun_phrase("the", NOUNS[rng.choice(means)])
    by = Adverbial(f"by {transport.noun}", f"mit {transport.in_case('dative')}")
    return Clause(actor, TRAVEL, complement=goal, manner=by, negated=negated)


def posture(rng: Random, actor: Nominal, negated: bool = False) -> Clause:
    """Draw where someone sits, lies or stands."""
    verb, (english, german), nouns = rng.choice(
        (
            (SIT, ("on", "auf"), "chair sofa bed"),
            (SIT, ("in front of", "vor"), "television computer window"),
            (LIE, ("on", "auf"), "sofa bed"),
            (STAND, ("behind", "hinter"), "door house"),
            (STAND, ("in front of", "vor"), "mirror door church house museum school"),
            (STAND, ("next to", "neben"), "window door car bed"),
        )
    )
    noun = NOUNS[rng.choice(nouns.split())]
    where = prepositional(english, german, known_thing(rng, noun))
    return Clause(actor, verb, complement=where, negated=negated)


def spot(rng: Random, noun: Noun, direction: bool = False) -> Adverbial:
    """Draw where a thing is, or where it is put."""
    (at, to, german), names = rng.choice(spots_for(noun))
    phrase = known_thing(rng, NOUNS[rng.choice(names.split())])
    return prepositional(to if direction else at, german, phrase, direction)


def put(rng: Random, actor: Nominal, negated: bool = False) -> Clause:
    """Draw where someone puts something; the German verb depends on what it is."""
    verb, nouns = rng.choice(((PUT_STANDING, STANDING), (PUT_LYING, LYING)))
    noun = NOUNS[rng.choice(nouns)]
    direct = thing(rng, noun, actor, negated)
    goal = spot(rng, noun, direction=True)
    return Clause(actor, verb, direct=direct, complement=goal, negated=negated)


def play(rng: Random, actor: Nominal, negated: bool = False) -> Clause:
    """Draw a game or an instrument that someone plays."""
    english, german = rng.choice(list(_GAMES.items()))
    clause = Clause(actor, verb_named("play"), direct=fixed(english, german), negated=negated)
    if rng.random() < 0.4:
        return dataclasses.replace(clause, manner=_company(rng, actor))
    return clause


def being(actor: Nominal, adjective: Adjective) -> Clause:
    """Return a clause that describes someone or something with an adjective."""
    return Clause(actor, BE, complement=Adverbial(adjective.english, adjective.german))


def stay_at_home(actor: Nominal) -> Clause:
    """Return a clause that says that someone stays at home."""
    return Clause(actor, verb_named("stay"), complement=Adverbial("at home", "zu Hause"))


def outdoors(rng: Random, actor: Nominal, negated: bool = False) -> Clause:
    """Draw an activity that depends on the weather."""
    clause = _outdoors(rng, actor, negated)
    return clause if suits(clause) else outdoors(rng, actor, negated)


def _outdoors(rng: Random, actor: Nominal, negated: bool) -> Clause:
    if rng.random() < 0.3:
        game = fixed(*rng.choice((("football", "Fußball"), ("tennis", "Tennis"))))
        return Clause(actor, verb_named("play"), direct=game, negated=negated)
    if rng.random() < 0.5:
        verb, place = rng.choice(
            (("run", "park"), ("run", "forest"), ("play", "garden"), ("work", "garden"))
            + (("swim", "lake"), ("swim", "river"), ("dance", "street"), ("sing", "garden"))
        )
        where = at_place(place, noun_phrase("the", NOUNS[place]))
        return Clause(actor, verb_named(verb), complement=where, negated=negated)
    verb, places = rng.choice((("go", "park market beach lake"), ("drive", "city beach village")))
    place = rng.choice(places.split())
    goal = to_place(place, noun_phrase("the", NOUNS[place]))
    return Clause(actor, verb_named(verb), complement=goal, negated=negated)


def _with_place(rng: Random, clause: Clause) -> Clause:
    verb, draw = clause.verb, rng.random()
    if verb.places and draw < 0.3:
        place = rng.choice(verb.places)
        return dataclasses.replace(clause, place=at_place(place, place_phrase(rng, place)))
    manners = _MANNERS_OF.get(verb.english)
    if manners and not clause.negated and draw < 0.6 and not verb.particle:
        return dataclasses.replace(clause, manner=MANNERS[rng.choice(manners)])
    return clause


def _company(rng: Random, actor: Nominal) -> Adverbial:
    companion = person(rng, actor)
    while companion.noun in NOUNS and NOUNS[companion.noun].kind == "person":
        companion = person(rng, actor)
    return prepositional("with", "mit", companion)
