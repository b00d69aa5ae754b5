"""Random noun phrases that make sense as subjects and objects."""

from random import Random

from pipelines.quickstart.grammar.adjectives import adjectives_for
from pipelines.quickstart.grammar.adverbials import number, number_words
from pipelines.quickstart.grammar.determiners import POSSESSIVE
from pipelines.quickstart.grammar.nouns import MASS_NOUNS, NOUNS, of_kind
from pipelines.quickstart.grammar.phrases import (
    Nominal,
    name,
    noun_phrase,
    pronoun,
    together,
)
from pipelines.quickstart.grammar.places import FEMALE_NAMES, MALE_NAMES
from pipelines.quickstart.grammar.words import Adjective, Noun

PEOPLE = of_kind("kin", "friend", "person")
_FEW = tuple("/".join(number_words(count)) for count in (2, 3, 4, 5))
NAMES = MALE_NAMES + FEMALE_NAMES
# People with a possessive (my sister), and people with an article (the doctor).
_RELATED = of_kind("kin", "friend")
_STRANGERS = of_kind("person")
_OWN_KINDS = "garment vehicle device instrument furniture container article literature room".split()
_OWN_NOUNS = "house garden dog cat horse rabbit plan idea problem trip".split()
WOMENS_CLOTHES = ("dress", "skirt")
OFTEN_PLURAL = "pear banana potato tomato egg shoe flower".split()
_ONE_OF_MANY = "garden forest village church castle hotel restaurant park island".split()
# Nouns used with the definite article only: the kitchen, the bus.
_ONLY_THE = ("room", "transport")


def subject(rng: Random, definite: bool = False) -> Nominal:
    """Draw a subject; `definite` excludes phrases such as "a man" and "many women"."""
    draw = rng.random()
    if draw < 0.30:
        return pronoun(rng.choice(("I", "he", "she", "we", "they")))
    if draw < 0.53:
        return name(rng.choice(NAMES))
    if draw < 0.56:
        return together(*map(name, rng.sample(NAMES, 2)))
    if draw < 0.73:
        return related(rng)
    return stranger(rng, definite=definite)


def person_to_refer_to(rng: Random) -> Nominal:
    """Draw someone to whom a pronoun can refer back."""
    while True:
        actor = subject(rng, definite=True)
        if actor.referent:
            return actor


def singular_person(rng: Random) -> Nominal:
    """Draw a person with a name or he or she, to whom a pronoun can refer back."""
    return name(rng.choice(NAMES)) if rng.random() < 0.8 else pronoun(rng.choice(("he", "she")))


def person(rng: Random, actor: Nominal) -> Nominal:
    """Draw a person other than `actor`, as the object of a verb."""
    while True:
        draw = rng.random()
        if draw < 0.18:
            drawn = pronoun(rng.choice(("I", "he", "she", "we", "they")))
        elif draw < 0.34:
            drawn = name(rng.choice(NAMES))
        elif draw < 0.64:
            drawn = related(rng, actor)
        else:
            drawn = stranger(rng, definite=True)
            if draw > 0.93:
                drawn = noun_phrase("a", rng.choice(_STRANGERS))
        first_persons = {"I", "we"}
        same = set(drawn.noun.split()) & set(actor.noun.split())
        if not same and not {drawn.noun, actor.noun} <= first_persons:
            return drawn


def related(rng: Random, actor: Nominal | None = None) -> Nominal:
    """Draw a relative, friend or colleague, most often of `actor`."""
    noun = rng.choice(_RELATED)
    plural = bool(noun.english_plural) and rng.random() < 0.3
    adjective = _adjective(rng, noun, 0.15)
    if rng.random() < 0.15:
        owner = name(rng.choice(NAMES))
        if rng.random() < 0.5:
            owner = noun_phrase("the", rng.choice(_STRANGERS))
        return noun_phrase("the", noun, adjective, plural, owner=owner)
    own = POSSESSIVE.get(actor.referent) if actor else None
    if own is None or rng.random() < 0.2:
        own = rng.choice(("my", "our") if actor else ("my", "my", "our", "his", "her", "their"))
    return noun_phrase(own, noun, adjective, plural)


def stranger(rng: Random, definite: bool = False) -> Nominal:
    """Draw someone known by what they are: the doctor, three old farmers."""
    noun = rng.choice(_STRANGERS)
    adjective = _adjective(rng, noun, 0.3)
    if noun.english_plural and rng.random() < 0.4:
        determiners = ["the", "the", "the", "this"]
        if not definite:
            determiners += ["many", "some", "all", *_FEW]
        return noun_phrase(rng.choice(determiners), noun, adjective, plural=True)
    determiners = ["the", "the", "the", "this"] + ([] if definite else ["a", "a", "every"])
    determiner = rng.choice(determiners)
    return noun_phrase(determiner, noun, None if determiner == "every" else adjective)


def thing(
    rng: Random,
    noun: Noun,
    actor: Nominal | None = None,
    negated: bool = False,
    plural: bool | None = None,
    adjective: bool = True,
) -> Nominal:
    """Draw a phrase around a noun for an object.

    Args:
        rng: The source of chance.
        noun: The noun.
        actor: The subject, if it may be what they possess.
        negated: Whether the clause is negated; the phrase is then definite or has kein.
        plural: Whether the phrase is plural, by chance if None.
        adjective: Whether the noun may have an adjective.
    """
    indefinite = "not a" if negated else "a"
    word = _adjective(rng, noun, 0.38) if adjective else None
    if noun.english in MASS_NOUNS:
        return noun_phrase(rng.choice((indefinite, indefinite, "the")), noun, word, mass=True)
    own = _own(noun, actor)
    if noun.kind in _ONLY_THE:
        return noun_phrase(own if own and rng.random() < 0.4 else "the", noun, word)
    if plural is None:
        plural = rng.random() < (0.7 if noun.english in OFTEN_PLURAL else 0.3)
    if plural and noun.english_plural:
        determiners = ["the", "the", "this", indefinite, indefinite]
        if not negated:
            count = "/".join(number(rng, 2, 19))
            determiners += ["some", "many", count, count]
    else:
        plural = False
        determiners = ["the", "the", "the", indefinite, indefinite, indefinite, "this"]
    if own:
        determiners += [own, own]
    determiner = rng.choice(determiners)
    if own and determiner == "the" and rng.random() < 0.25:
        return noun_phrase("the", noun, word, plural, owner=_owner(rng, noun, actor))
    return noun_phrase(determiner, noun, word, plural)


def known_thing(
    rng: Random, noun: Noun, actor: Nominal | None = None, adjective: bool = True
) -> Nominal:
    """Draw a definite singular phrase around a noun: the key, this old key, Anna's key."""
    word = _adjective(rng, noun, 0.2) if adjective else None
    own = _own(noun, actor)
    draw = rng.random()
    if noun.kind in _OWN_KINDS and draw < 0.2:
        return noun_phrase("the", noun, word, owner=_owner(rng, noun, actor))
    if own and draw < 0.45:
        return noun_phrase(own, noun, word)
    this = draw > 0.9 and noun.kind not in _ONLY_THE and noun.english not in MASS_NOUNS
    return noun_phrase("this" if this else "the", noun, word)


def place_phrase(rng: Random, place: str) -> Nominal:
    """Draw a phrase for a place to be in or to go to: the kitchen, a small village."""
    noun = NOUNS[place]
    adjective = _adjective(rng, noun, 0.15) if noun.kind not in _ONLY_THE else None
    one_of_many = place in _ONE_OF_MANY and rng.random() < 0.3
    return noun_phrase("a" if one_of_many else "the", noun, adjective)


def _own(noun: Noun, actor: Nominal | None) -> str | None:
    if actor is None or noun.kind not in _OWN_KINDS and noun.english not in _OWN_NOUNS:
        return None
    if noun.english in WOMENS_CLOTHES and actor.referent in ("he", "they"):
        return None
    return POSSESSIVE.get(actor.referent)


def _owner(rng: Random, noun: Noun, actor: Nominal | None) -> Nominal:
    while True:
        draw = rng.random()
        if noun.english in WOMENS_CLOTHES:
            owner = name(rng.choice(FEMALE_NAMES))
        elif draw < 0.4:
            owner = name(rng.choice(NAMES))
        elif draw < 0.7:
            owner = noun_phrase(rng.choice(("my", "our")), rng.choice(_RELATED))
        else:
            owner = noun_phrase("the", rng.choice(_STRANGERS))
        if actor is None or owner.noun != actor.noun:
            return owner


def _adjective(rng: Random, noun: Noun, share: float) -> Adjective | None:
    fitting = adjectives_for(noun.kind, noun.english)
    return rng.choice(fitting) if fitting and rng.random() < share else None
