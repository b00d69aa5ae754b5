"""Sentences of one main clause: what people do, and how people and things are."""

import dataclasses
from random import Random

from pipelines.quickstart.grammar.adjectives import (
    ADJECTIVES,
    COMPARATIVES,
    STATES,
    adjectives_for,
)
from pipelines.quickstart.grammar.adverbials import RECENTLY, number
from pipelines.quickstart.grammar.choices import (
    NAMES,
    known_thing,
    related,
    singular_person,
    subject,
)
from pipelines.quickstart.grammar.clauses import Clause
from pipelines.quickstart.grammar.nouns import NOUNS, of_kind
from pipelines.quickstart.grammar.pairs import Pair, statement, varied_statement
from pipelines.quickstart.grammar.phrases import (
    Adverbial,
    fixed,
    name,
    noun_phrase,
    pronoun,
)
from pipelines.quickstart.grammar.predicates import being, predicate
from pipelines.quickstart.grammar.sense import suits
from pipelines.quickstart.grammar.tenses import in_time
from pipelines.quickstart.grammar.verbs import BE, COST

_PRICE_OF = {
    "literature": (5, 60),
    "garment": (12, 300),
    "device": (20, 900),
    "furniture": (40, 900),
    "instrument": (80, 990),
    "vehicle": (150, 2900),
}
_PRICED = tuple(noun for noun in of_kind(*_PRICE_OF) if noun.english not in ("story", "poem"))
_COMPARED = of_kind(
    *_PRICE_OF, *"fruit dish tableware container article opening room building".split()
)
_DESCRIBED = _COMPARED + of_kind("landscape", "thought")
_PROFESSIONS = (
    "teacher doctor baker farmer policeman musician artist journalist gardener lawyer engineer"
).split()
_PEERS = of_kind("brother", "sister", "friend", "neighbour", "colleague")
_ELDERS = of_kind("father", "mother", "uncle", "aunt")
_AGE_OF = {
    **dict.fromkeys(("father", "mother", "uncle", "aunt"), (35, 60)),
    **dict.fromkeys(("grandfather", "grandmother"), (60, 95)),
    **dict.fromkeys(("boss", "colleague", "neighbour"), (25, 60)),
}
_MEN = of_kind("father", "grandfather", "brother", "son", "uncle", "friend", "neighbour")


def deed(rng: Random) -> Pair:
    """Write what someone does: "Yesterday the boy called his uncle"."""
    negated = rng.random() < 0.16
    actor = subject(rng, definite=negated)
    return varied_statement(rng, in_time(rng, predicate(rng, actor, negated)))


def description(rng: Random) -> Pair:
    """Write what something is like: "The boxes are heavy"."""
    noun = rng.choice(_DESCRIBED)
    plural = bool(noun.english_plural) and rng.random() < 0.3
    if plural:
        phrase = noun_phrase(rng.choice(("the", "this")), noun, plural=True)
    else:
        phrase = known_thing(rng, noun, adjective=False)
    adjective = rng.choice(adjectives_for(noun.kind, noun.english))
    clause = being(phrase, adjective)
    return statement(dataclasses.replace(clause, negated=rng.random() < 0.25))


def state(rng: Random) -> Pair:
    """Write how someone is: "Yesterday she was sad"."""
    clause = being(subject(rng, definite=True), ADJECTIVES[rng.choice(STATES)])
    if not suits(clause):
        return state(rng)
    clause = dataclasses.replace(clause, negated=rng.random() < 0.2)
    if rng.random() < 0.5:
        clause = dataclasses.replace(clause, tense="past", time=rng.choice(RECENTLY))
    return varied_statement(rng, clause)


def comparison(rng: Random) -> Pair:
    """Write a comparison: "The castle is older than the church"."""
    noun = rng.choice(_COMPARED)
    words = [
        word for word in adjectives_for(noun.kind, noun.english) if word.english in COMPARATIVES
    ]
    others = [other for other in _COMPARED if other.kind == noun.kind and other != noun]
    if rng.random() < 0.3 or not words:
        words = [ADJECTIVES[word] for word in ("old", "young", "rich", "strong")]
        first, second = (
            noun_phrase(rng.choice(("my", "our", "his", "her", "their")), noun)
            for noun in rng.sample(rng.choice((_PEERS, _ELDERS)), 2)
        )
        if rng.random() < 0.4:
            second = name(rng.choice(NAMES))
    else:
        first = known_thing(rng, noun, adjective=False)
        second = known_thing(rng, rng.choice(others), adjective=False)
    word = rng.choice(words)
    if rng.random() < 0.25:
        english = f"as {word.english} as {second.english_object}"
        german = f"so {word.german} wie {second.in_case('nominative')}"
    else:
        english_form, german_form = COMPARATIVES[word.english]
        english = f"{english_form} than {second.english_object}"
        german = f"{german_form} als {second.in_case('nominative')}"
    return statement(Clause(first, BE, complement=Adverbial(english, german)))


def age(rng: Random) -> Pair:
    """Write how old someone is: "My son is twenty-one years old"."""
    actor = related(rng) if rng.random() < 0.6 else singular_person(rng)
    lowest, highest = _AGE_OF.get(actor.noun, (5, 49))
    english, german = number(rng, lowest, highest, digits=0.15)
    return statement(
        Clause(actor, BE, complement=Adverbial(f"{english} years old", f"{german} Jahre alt"))
    )


def profession(rng: Random) -> Pair:
    """Write what a man is, which German does without an article: Mein Bruder ist Arzt."""
    work = NOUNS[rng.choice(_PROFESSIONS)]
    man = noun_phrase(rng.choice(("my", "our", "his", "her", "their")), rng.choice(_MEN))
    if rng.random() < 0.4:
        man = pronoun("he") if rng.random() < 0.3 else singular_person(rng)
    if man.referent != "he":
        return profession(rng)
    english = noun_phrase("a", work).english
    return statement(Clause(man, BE, complement=Adverbial(english, work.german)))


def price(rng: Random) -> Pair:
    """Write what something costs: "This coat costs 85 euros"."""
    noun = rng.choice(_PRICED)
    amount = rng.randint(*_PRICE_OF[noun.kind])
    amount -= amount % 50 if amount > 100 else amount % 5
    euros = fixed(f"{amount} euros", f"{amount} Euro")
    return statement(Clause(known_thing(rng, noun), COST, direct=euros))
