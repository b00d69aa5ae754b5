"""Sentences that contain a whole clause: what someone knows, which one is meant, what one tries."""

import dataclasses
from random import Random

from pipelines.quickstart.grammar.adjectives import ADJECTIVES, STATES, adjectives_for
from pipelines.quickstart.grammar.adverbials import RECENTLY, weekday
from pipelines.quickstart.grammar.choices import (
    OFTEN_PLURAL,
    known_thing,
    stranger,
    subject,
)
from pipelines.quickstart.grammar.clauses import Clause
from pipelines.quickstart.grammar.nouns import of_kind
from pipelines.quickstart.grammar.pairs import (
    Pair,
    followed,
    infinitive,
    statement,
    subordinate,
    that_someone,
    who_does,
)
from pipelines.quickstart.grammar.phrases import Adverbial, Nominal, noun_phrase
from pipelines.quickstart.grammar.places import CITIES
from pipelines.quickstart.grammar.predicates import being, predicate, transitive
from pipelines.quickstart.grammar.sense import suits
from pipelines.quickstart.grammar.tenses import in_time, now
from pipelines.quickstart.grammar.verbs import (
    BE,
    BELIEVE,
    HOPE,
    KNOW,
    LIVE,
    SAY,
    TRANSITIVE,
    TRY,
    verb_named,
)

_THAT = Adverbial("that", "dass")
_WHETHER = Adverbial("whether", "ob")
_WHY = Adverbial("why", "warum")
_WHEN = Adverbial("when", "wann")
_WHERE = Adverbial("where", "wo")
_TRIED = ("repair", "open", "close", "understand", "find", "cook", "sell", "read", "help")
_LOST = of_kind("article", "container", "literature", "dog", "cat", "camera", "shoe", "hat")
_IN_HAND = tuple(
    verb
    for verb in TRANSITIVE
    if verb.english in "read buy sell wear repair wash clean need write have".split()
)
_WITH_PEOPLE = tuple(
    verb
    for verb in TRANSITIVE
    if verb.objects == ("people",) and not verb.preposition and not verb.particle
)


def reported(rng: Random) -> Pair:
    """Write "Anna says that she will visit her aunt tomorrow"."""
    speaker = subject(rng, definite=True)
    verb = rng.choice((KNOW, SAY, BELIEVE, HOPE))
    actor = subject(rng, definite=True)
    if set(actor.noun.split()) & set(speaker.noun.split()):
        return reported(rng)
    if verb == SAY and speaker.agreement in ("I", "we"):
        return reported(rng)
    clause = in_time(rng, predicate(rng, actor))
    if verb == HOPE and clause.modal in ("must", "should", "have to"):
        return reported(rng)
    return followed(Clause(speaker, verb), subordinate(_THAT, clause))


def unknown(rng: Random) -> Pair:
    """Write what someone does not know: whether, why, when something happens, where it is."""
    speaker = subject(rng, definite=True)
    not_knowing = Clause(speaker, KNOW, negated=True)
    draw = rng.random()
    if draw < 0.2:
        lost = Clause(known_thing(rng, rng.choice(_LOST), speaker), BE)
        return followed(not_knowing, subordinate(_WHERE, lost))
    actor = subject(rng, definite=True)
    if set(actor.noun.split()) & set(speaker.noun.split()) or actor.agreement in ("I", "we"):
        return unknown(rng)
    clause = in_time(rng, predicate(rng, actor))
    timely = clause.verb.aspect == "activity" and not clause.verb.reflexive
    asks_when = timely and clause.time and not clause.modal
    if draw < 0.4 and asks_when:
        clause = dataclasses.replace(clause, time=None, manner=None)
        return followed(not_knowing, subordinate(_WHEN, clause))
    return followed(not_knowing, subordinate(_WHY if draw < 0.6 else _WHETHER, clause))


def attempt(rng: Random) -> Pair:
    """Write "Paul is trying to open the bottle"."""
    actor = subject(rng, definite=True)
    verb = verb_named(rng.choice(_TRIED))
    clause = transitive(rng, actor)
    while clause.verb != verb:
        clause = transitive(rng, actor)
    clause = dataclasses.replace(clause, place=None, manner=None)
    if not suits(clause):
        return attempt(rng)
    trying = Clause(actor, TRY, progressive=True)
    if rng.random() < 0.6:
        time = rng.choice((*RECENTLY, weekday(rng)))
        trying = Clause(actor, TRY, tense="past")
        return followed(trying, infinitive(clause), front=time)
    return followed(trying, infinitive(clause))


def relative_subject(rng: Random) -> Pair:
    """Write "The woman who bought the house last year is happy"."""
    phrase = stranger(rng, definite=True)
    about = in_time(rng, predicate(rng, phrase))
    if about.time and about.manner:
        return relative_subject(rng)
    return statement(_about_person(rng, who_does(phrase, about)))


def relative_object(rng: Random) -> Pair:
    """Write "Anna knows the boy who is playing in the garden"."""
    phrase = stranger(rng, definite=True)
    actor = subject(rng, definite=True)
    if phrase.noun == actor.noun:
        return relative_object(rng)
    about = now(rng, predicate(rng, phrase))
    about = dataclasses.replace(about, manner=None, time=None)
    verb = verb_named(rng.choice(("know", "see", "help", "visit", "meet", "wait")))
    if about.verb == verb:
        return relative_object(rng)
    clause = now(rng, Clause(actor, verb, direct=who_does(phrase, about)))
    return statement(dataclasses.replace(clause, time=None))


def relative_thing(rng: Random) -> Pair:
    """Write "The coat that my mother is wearing is warm"."""
    verb = rng.choice(_IN_HAND)
    noun = rng.choice(of_kind(*verb.objects))
    share = 0.9 if noun.english in OFTEN_PLURAL else 0.25
    plural = bool(noun.english_plural) and rng.random() < share
    phrase = noun_phrase("the", noun, plural=plural)
    clause = Clause(subject(rng, definite=True), verb, direct=phrase)
    if not suits(clause) or noun.kind in ("animal", "other"):
        return relative_thing(rng)
    clause = dataclasses.replace(in_time(rng, clause), direct=None)
    whole = that_someone(phrase, clause, "that")
    word = rng.choice(adjectives_for(noun.kind, noun.english))
    cared_for = verb.english in ("wash", "clean", "repair")
    unlikely = {"dirty", "broken", "new", "clean"} if cared_for else set()
    if word.english in unlikely or clause.tense == "past" and verb.english == "have":
        return relative_thing(rng)
    return statement(being(whole, word))


def relative_person(rng: Random) -> Pair:
    """Write "The man whom Anna is helping lives in Berlin", in German with the dative."""
    phrase = stranger(rng, definite=True)
    actor = subject(rng, definite=True)
    if phrase.noun == actor.noun:
        return relative_person(rng)
    verb = rng.choice(_WITH_PEOPLE)
    about = now(rng, Clause(actor, verb, direct=phrase))
    about = dataclasses.replace(about, direct=None, time=None)
    return statement(_about_person(rng, that_someone(phrase, about, "whom")))


def _about_person(rng: Random, phrase: Nominal) -> Clause:
    """Draw how someone is, or where they live."""
    feeling = being(phrase, ADJECTIVES[rng.choice(STATES)])
    if rng.random() < 0.6 and suits(feeling):
        return feeling
    english, german = rng.choice(list(CITIES.items()))
    return Clause(phrase, LIVE, complement=Adverbial(f"in {english}", f"in {german}"))
