"""German word order: the position of the finite verb, and the order of everything else.

A German clause has a frame: the finite verb on the left, and a participle, infinitive or separable
prefix on the right. Kinds of clauses differ only in the position of the finite verb: second, first
or last.
"""

from pipelines.quickstart.grammar.clauses import Clause, tidy
from pipelines.quickstart.grammar.german import (
    Agreement,
    irregular_present,
    irregular_preterite,
    with_preposition,
)
from pipelines.quickstart.grammar.phrases import Nominal

_REFLEXIVE = {"I": "mich", "we": "uns", "he": "sich", "they": "sich"}


def verb_second(clause: Clause, front: str = "") -> str:
    """Return a main clause that starts with `front`, or with the subject if `front` is empty."""
    finite, right = _frame(clause)
    if front:
        return tidy(front, finite, _middle(clause, subject_inside=True), *right)
    subject = clause.subject.in_case("nominative")
    return tidy(subject, finite, _middle(clause), *right)


def verb_first(clause: Clause) -> str:
    """Return a yes-or-no question."""
    finite, right = _frame(clause)
    return tidy(finite, _middle(clause, subject_inside=True), *right)


def verb_final(clause: Clause, opening: str) -> str:
    """Return a subordinate clause: `opening` is its conjunction or question word."""
    return tidy(opening, clause.subject.in_case("nominative"), predicate_final(clause))


def predicate_final(clause: Clause) -> str:
    """Return a clause without its subject, the finite verb last, as in a relative clause."""
    finite, right = _frame(clause)
    if clause.verb.prefix and right == [clause.verb.prefix]:
        return tidy(_middle(clause), clause.verb.prefix + finite)
    return tidy(_middle(clause), *right, finite)


def zu_infinitive(clause: Clause) -> str:
    """Return the clause without its subject as an infinitive with zu."""
    return tidy(_middle(clause), clause.verb.zu_infinitive())


def _frame(clause: Clause) -> tuple[str, list[str]]:
    """Return the finite verb and the right end of the frame."""
    verb, agreement = clause.verb, clause.subject.agreement
    modal = clause.modal_verb
    infinitive = verb.prefix + verb.infinitive
    if modal and modal.german:
        return _auxiliary(modal.german, clause.tense, agreement), [infinitive]
    if clause.tense == "future":
        return _auxiliary("werden", "present", agreement), [infinitive]
    if clause.tense == "passive":
        return _auxiliary("werden", "past", agreement), [verb.german_participle]
    if clause.tense in ("past", "perfect"):
        preterite = irregular_preterite(infinitive, agreement)
        if preterite:
            return preterite, []
        return _auxiliary(verb.auxiliary, "present", agreement), [verb.german_participle]
    return verb.german_present(agreement), [verb.prefix] if verb.prefix else []


def _auxiliary(infinitive: str, tense: str, agreement: Agreement) -> str:
    conjugate = irregular_preterite if tense == "past" else irregular_present
    return conjugate(infinitive, agreement) or ""


def _middle(clause: Clause, subject_inside: bool = False) -> str:
    """Return the words between the two parts of the frame.

    The order is: pronouns, names and definite dative objects; time; other definite objects;
    negation; manner; place; indefinite objects; and finally complements of the verb.
    """
    verb, direct, indirect = clause.verb, clause.direct, clause.indirect
    modal = clause.modal_verb
    reflexive = _REFLEXIVE[clause.subject.agreement] if verb.reflexive else ""
    subject = clause.subject.in_case("nominative") if subject_inside else ""
    if clause.subject.order == "pronoun":
        opening = [subject, reflexive]
    else:
        opening = [reflexive, subject]

    slots = {"pronoun": "", "definite": "", "indefinite": "", "prepositional": ""}
    if direct and verb.preposition:
        phrase = with_preposition(verb.preposition, direct.in_case(verb.case))
        slots["prepositional"] = phrase
    elif direct:
        early = direct.order == "name" or (verb.case == "dative" and not direct.indefinite)
        slot = "pronoun" if early else direct.order
        slots[slot] = direct.in_case(verb.case)

    adverb = clause.adverb.german if clause.adverb else ""
    late = clause.adverb is not None and clause.adverb.late
    return tidy(
        *opening,
        slots["pronoun"],
        indirect.in_case("dative") if indirect else "",
        clause.time.german if clause.time else "",
        "" if late else adverb,
        slots["definite"],
        "nicht" if _needs_nicht(clause, direct) else "",
        adverb if late else "",
        modal.adverb if modal else "",
        clause.manner.german if clause.manner else "",
        clause.place.german if clause.place else "",
        slots["indefinite"],
        slots["prepositional"],
        clause.complement.german if clause.complement else "",
    )


def _needs_nicht(clause: Clause, direct: Nominal | None) -> bool:
    return clause.negated and not (direct and direct.negative)
