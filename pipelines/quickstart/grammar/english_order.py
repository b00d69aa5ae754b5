"""English word order: statements, questions and infinitives of a clause."""

from pipelines.quickstart.grammar.clauses import Clause, tidy
from pipelines.quickstart.grammar.english import gerund, third_person
from pipelines.quickstart.grammar.german import Agreement
from pipelines.quickstart.grammar.phrases import Adverbial

_BE = {
    "present": {"I": "am", "he": "is", "we": "are", "they": "are"},
    "past": {"I": "was", "he": "was", "we": "were", "they": "were"},
}


def statement(clause: Clause, front: Adverbial | None = None) -> str:
    """Return the clause as a statement: "today Anna is not buying the book"."""
    finite, rest = _verb_group(clause, needs_auxiliary=clause.negated)
    adverb = clause.adverb.english if clause.adverb else ""
    negation = "not" if clause.negated else ""
    subject = clause.subject.english
    if clause.negated and finite == "can":
        finite, negation = "cannot", ""
    if rest or clause.verb.english == "be":
        opening = tidy(subject, finite, negation, adverb)
    else:
        opening, rest = tidy(subject, adverb), [finite]
    return tidy(front.english if front else "", opening, *rest, _after_verb(clause))


def question(clause: Clause, asked: str = "") -> str:
    """Return the clause as a question, after a question word if one is given."""
    finite, rest = _verb_group(clause, needs_auxiliary=True)
    adverb = clause.adverb.english if clause.adverb else ""
    negation = "not" if clause.negated else ""
    return tidy(asked, finite, clause.subject.english, negation, adverb, *rest, _after_verb(clause))


def infinitive(clause: Clause) -> str:
    """Return the clause without its subject: "to buy the book"."""
    return tidy("to", clause.verb.english, _after_verb(clause))


def _verb_group(clause: Clause, needs_auxiliary: bool) -> tuple[str, list[str]]:
    """Return the finite verb and the words of the verb after it."""
    verb, tense, agreement = clause.verb, clause.tense, clause.subject.agreement
    modal = clause.modal_verb
    if modal and not modal.auxiliary:
        finite, rest = _simple(modal.verb, modal.past, tense, agreement, needs_auxiliary)
        return finite, [*rest, modal.link, verb.english]
    if modal:
        finite = _BE[tense][agreement] if modal.auxiliary == "be" else modal.auxiliary
        return finite, [modal.link, verb.english]
    if tense == "future":
        return "will", [verb.english]
    if tense == "perfect":
        return "has" if agreement == "he" else "have", [verb.participle]
    if tense == "passive":
        return _BE["past"][agreement], [verb.participle]
    if verb.english == "be":
        return _BE[tense][agreement], []
    if clause.progressive:
        return _BE[tense][agreement], [gerund(verb.english)]
    return _simple(verb.english, verb.past, tense, agreement, needs_auxiliary)


def _simple(
    base: str, past: str, tense: str, agreement: Agreement, needs_auxiliary: bool
) -> tuple[str, list[str]]:
    third = agreement == "he"
    if needs_auxiliary:
        return "did" if tense == "past" else "does" if third else "do", [base]
    if tense == "past":
        return past, []
    return third_person(base) if third else base, []


def _after_verb(clause: Clause) -> str:
    """Return the objects and adverbials after the verb.

    A pronoun goes before a movable particle ("picks him up"), and so does the first object of a
    verb with two ("explains the plan to him").
    """
    verb = clause.verb
    direct = clause.direct.english_object if clause.direct else ""
    indirect = clause.indirect.english_object if clause.indirect else ""
    moves = verb.movable and clause.direct is not None and clause.direct.order == "pronoun"
    if moves or (indirect and verb.particle):
        words = (direct, verb.particle, indirect)
    else:
        words = (indirect, verb.particle, direct)
    adverbials = (clause.complement, clause.manner, clause.place, clause.time)
    return tidy(*words, *(item.english for item in adverbials if item))
