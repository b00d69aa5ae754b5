"""A clause without its word order: who does what to whom, when, where and in which tense."""

from dataclasses import dataclass
from typing import Literal

from pipelines.quickstart.grammar.phrases import Adverbial, Nominal
from pipelines.quickstart.grammar.verbs import MODALS, Modal
from pipelines.quickstart.grammar.words import Verb

Tense = Literal["present", "past", "perfect", "future", "passive"]


@dataclass(frozen=True)
class Clause:
    """The parts of a clause; `english_order` and `german_order` arrange them.

    Attributes:
        subject: The subject.
        verb: The verb.
        tense: The English past ("bought") and perfect ("has bought") are both the German perfect,
            or the preterite of sein, haben and the modal verbs. The passive is in the past.
        progressive: Whether the English present is "is buying" rather than "buys".
        modal: A key of `MODALS`, or empty.
        negated: Whether the clause is negated; German has nicht unless an object has kein.
        indirect: The dative object of a verb with two objects.
        direct: The only or the second object, in the case that the verb asks for.
        adverb: An adverb in the middle of the English clause: often, never, already.
        manner: How: slowly, with his sister.
        place: Where it happens.
        complement: What belongs to the verb most closely: an adjective after be, a destination.
        time: When.
    """

    subject: Nominal
    verb: Verb
    tense: Tense = "present"
    progressive: bool = False
    modal: str = ""
    negated: bool = False
    indirect: Nominal | None = None
    direct: Nominal | None = None
    adverb: Adverbial | None = None
    manner: Adverbial | None = None
    place: Adverbial | None = None
    complement: Adverbial | None = None
    time: Adverbial | None = None

    @property
    def modal_verb(self) -> Modal | None:
        """The modal verb of the clause, if it has one."""
        return MODALS[self.modal] if self.modal else None


def tidy(*parts: str) -> str:
    """Join the parts that are not empty with single spaces, and commas with what they follow."""
    text = " ".join(part for part in parts if part)
    return text.replace(" ,", ",").replace(",,", ",")


def sentence(text: str, mark: str = ".") -> str:
    """Finish a sentence: a capital at the start, a mark at the end instead of a comma."""
    return text[0].upper() + text[1:].rstrip(",") + mark
