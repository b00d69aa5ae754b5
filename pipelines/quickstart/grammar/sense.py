"""Rules for sensible sentences: who does what, and what is a plan, a duty or a habit."""

from pipelines.quickstart.grammar.adjectives import STATES
from pipelines.quickstart.grammar.choices import OFTEN_PLURAL, WOMENS_CLOTHES
from pipelines.quickstart.grammar.clauses import Clause
from pipelines.quickstart.grammar.nouns import NOUNS
from pipelines.quickstart.grammar.phrases import Nominal
from pipelines.quickstart.grammar.words import Noun, Verb

# What people have to do, and what they may also plan to do.
DUTIES = (
    "sell repair write clean wash visit call meet feed tidy help cook drive explain bring"
    " send look pick"
).split()
PLANS = DUTIES + "buy read go play swim show invite".split()

_NOT_FOR_CHILDREN = set("sell repair build drive work beer wine coffee".split())
_CHILDREN = ("child", "boy", "girl")
# Adjectives that contradict the verb: nobody washes a clean shirt or buys a broken lamp.
_CONTRADICTIONS = {
    "wash": ("clean",),
    "clean": ("clean",),
    "repair": ("new",),
    "tidy": ("clean",),
    "buy": ("broken", "dirty", "clean"),
    "wear": ("dirty",),
    "put": ("dirty",),
}
# "Does not understand a question" would be odd.
_OF_SOMETHING_KNOWN = ("understand", "know", "see", "hear", "explain")
_NEVER_HABITS = "buy sell repair build invite have need forget put explain".split()
# "Often reads a book" makes sense, "often picks up a man" does not;
_ONE_EACH_TIME = "eat read sing wear cook write open close".split()
# neither does "often eats the apple".
_CONSUMED = "eat drink cook".split()


def suits(clause: Clause) -> bool:
    """Tell whether a deed suits who does it and what it is done to."""
    verb, actor, direct = clause.verb.english, clause.subject, clause.direct
    noun = direct.noun if direct else ""
    if actor.noun in _CHILDREN and _NOT_FOR_CHILDREN & {verb, noun}:
        return False
    if direct and verb in ("wear", "put") and NOUNS[noun].kind == "garment":
        many = actor.agreement in ("we", "they") or actor.determiner == "every"
        shared = many and direct.agreement == "he"
        if shared or direct.counted or noun in WOMENS_CLOTHES and actor.referent in ("he", "they"):
            return False
    if verb == "be" and clause.complement and clause.complement.english in STATES:
        return not set(STATES) & set(actor.english.split())
    if verb == "know" and direct and direct.single:
        return False
    if clause.negated and direct and direct.indefinite:
        if clause.verb.preposition or verb in _OF_SOMETHING_KNOWN:
            return False
    adjectives = _CONTRADICTIONS.get(verb, ())
    return direct is None or not set(adjectives) & set(direct.english.split())


def several(verb: Verb, noun: Noun, actor: Nominal) -> bool | None:
    """Tell whether there should be several of a thing; None leaves it to chance."""
    if verb.english in ("wear", "put") and noun.kind == "garment":
        return noun.english == "shoe" or actor.agreement in ("we", "they")
    if verb.english in ("buy", "sell") and noun.english in OFTEN_PLURAL:
        return True
    return None


def may_be_habit(clause: Clause) -> bool:
    """Tell whether a deed is one that people repeat."""
    verb, direct = clause.verb.english, clause.direct
    # "They read the letters every day" might be the past.
    looks_past = verb == clause.verb.past and clause.subject.agreement != "he"
    if clause.negated or looks_past or verb in _NEVER_HABITS:
        return False
    if direct is None:
        return verb != "sleep" or clause.place is not None
    if direct.counted or direct.single and verb not in _ONE_EACH_TIME:
        return False
    return verb not in _CONSUMED or direct.indefinite
