"""Noun phrases, pronouns and adverbials, each built in both languages at once."""

import dataclasses
from dataclasses import dataclass
from typing import Literal

from pipelines.quickstart.grammar.determiners import find_determiner
from pipelines.quickstart.grammar.english import a_or_an
from pipelines.quickstart.grammar.german import (
    CASES,
    PREPOSITION_CASE,
    PRONOUN,
    Agreement,
    Case,
    Gender,
    adjective_ending,
    determiner_form,
    with_preposition,
)
from pipelines.quickstart.grammar.places import FEMALE_NAMES, PLACES
from pipelines.quickstart.grammar.words import Adjective, Noun


@dataclass(frozen=True)
class Nominal:
    """A noun phrase, name or pronoun.

    Attributes:
        english: The English phrase as a subject.
        english_object: The English phrase elsewhere (`him`).
        german: The German phrase in the four cases, without the genitive for pronouns.
        agreement: The verb form that it takes as a subject.
        gender: The German gender, or `"p"` for a plural, which pronouns for it agree with.
        referent: The English pronoun that refers back to it, or empty if the German pronoun is
            ambiguous (das Mädchen: es or sie).
        order: The kind of phrase that determines its position in a German clause: pronouns and
            names come first, then definite phrases, then indefinite ones.
        negative: Whether the German phrase has kein, so its clause does not need nicht.
        noun: The English noun or name, to compare whether two phrases name the same thing.
        determiner: The article word of the phrase, or empty if it has none.
    """

    english: str
    english_object: str
    german: tuple[str, ...]
    agreement: Agreement
    gender: Gender
    referent: str
    order: Literal["pronoun", "name", "definite", "indefinite"]
    negative: bool = False
    noun: str = ""
    determiner: str = ""

    @property
    def indefinite(self) -> bool:
        """Whether the phrase is indefinite: a man, three men, milk."""
        return self.order == "indefinite"

    @property
    def single(self) -> bool:
        """Whether the phrase has the indefinite article."""
        return self.determiner in ("a", "not a") and self.agreement == "he"

    @property
    def counted(self) -> bool:
        """Whether the phrase has a quantity: many keys, 12 keys, but not keys."""
        return self.determiner in ("some", "many") or "/" in self.determiner

    def in_case(self, case: Case) -> str:
        """Return the German phrase in a case."""
        return self.german[CASES.index(case)]


@dataclass(frozen=True)
class Adverbial:
    """An adverb or adverbial phrase in both languages.

    In German, `late` adverbs such as nie and schon come after definite objects, like nicht.
    """

    english: str
    german: str
    late: bool = False


_PERSONAL: dict[str, tuple[str, tuple[str, ...], Agreement]] = {
    "I": ("me", ("ich", "mich", "mir"), "I"),
    "we": ("us", ("wir", "uns", "uns"), "we"),
    "he": ("him", ("er", "ihn", "ihm"), "he"),
    "she": ("her", ("sie", "sie", "ihr"), "he"),
    "they": ("them", ("sie", "sie", "ihnen"), "they"),
    "who": ("who", ("wer", "wen", "wem"), "he"),
}


def pronoun(english: str) -> Nominal:
    """Return a personal pronoun, or `who`, by its English subject form."""
    english_object, german, agreement = _PERSONAL[english]
    genders: dict[str, Gender] = {"she": "f", "they": "p", "we": "p"}
    gender = genders.get(english, "m")
    return Nominal(
        english, english_object, german, agreement, gender, english, "pronoun", noun=english
    )


def name(english: str) -> Nominal:
    """Return a person's name."""
    female = english in FEMALE_NAMES
    german = (english, english, english, english + "s")
    referent = "she" if female else "he"
    gender: Gender = "f" if female else "m"
    return Nominal(english, english, german, "he", gender, referent, "name", noun=english)


def fixed(english: str, german: str) -> Nominal:
    """Return a phrase without inflection: `football`, `15 euros`."""
    return Nominal(english, english, (german,) * 4, "he", "n", "it", "indefinite", noun=english)


def refer_back(phrase: Nominal) -> Nominal:
    """Return the pronoun for a phrase: `it`, in German er, sie or es by the gender, `they`, ..."""
    if phrase.referent != "it":
        return pronoun(phrase.referent)
    german = tuple(PRONOUN[case, phrase.gender] for case in CASES[:3])
    return Nominal("it", "it", german, "he", phrase.gender, "it", "pronoun", noun=phrase.noun)


def noun_phrase(
    determiner: str,
    noun: Noun,
    adjective: Adjective | None = None,
    plural: bool = False,
    mass: bool = False,
    owner: Nominal | None = None,
) -> Nominal:
    """Build a noun phrase.

    Args:
        determiner: An article word or a number, as in `find_determiner`; ignored if there is an
            owner.
        noun: The noun.
        adjective: An adjective before the noun.
        plural: Whether the noun is plural; "a" then stands for no article.
        mass: Whether the noun is uncountable; "a" then stands for no article.
        owner: The possessor: `the boy's dog`, in German the genitive `der Hund des Jungen`, or
            `Annas Hund` for a name.
    """
    gender: Gender = "p" if plural else noun.gender
    word = find_determiner("the" if owner else determiner)
    bare = determiner == "a" and (plural or mass) and not owner
    named = owner is not None and owner.order == "name"
    declension = "none" if bare or named else word.declension

    def german(case: Case) -> str:
        article = "" if bare or named else determiner_form(word.stem, declension, case, gender)
        ending = adjective_ending(declension, case, gender)
        words = [
            owner.in_case("genitive") if owner and named else article,
            adjective.stem + ending if adjective else "",
            noun.german_form(case, plural),
            owner.in_case("genitive") if owner and not named else "",
        ]
        return " ".join(word for word in words if word)

    english_noun = noun.english_plural if plural else noun.english
    rest = f"{adjective.english} {english_noun}" if adjective else english_noun
    if owner:
        english = f"{owner.english_object}'s {rest}"
    elif plural:
        english = f"{word.plural} {rest}".strip()
    else:
        article = a_or_an(rest) if word.english == "a" else word.english
        english = rest if mass and word.english == "a" else f"{article} {rest}"
    return Nominal(
        english=english,
        english_object=english,
        german=tuple(german(case) for case in CASES),
        agreement="they" if plural else "he",
        gender=gender,
        referent="they" if plural else _referent(noun),
        order="indefinite" if word.indefinite else "definite",
        negative=word.negative,
        noun=noun.english,
        determiner="" if bare or owner else determiner,
    )


def _referent(noun: Noun) -> str:
    if noun.kind not in ("kin", "friend", "person"):
        return "it"
    return {"m": "he", "f": "she", "n": ""}[noun.gender]


def together(first: Nominal, second: Nominal) -> Nominal:
    """Join two phrases with and."""
    return dataclasses.replace(
        first,
        noun=f"{first.noun} {second.noun}",
        english=f"{first.english} and {second.english}",
        english_object=f"{first.english_object} and {second.english_object}",
        german=tuple(f"{a} und {b}" for a, b in zip(first.german, second.german, strict=True)),
        agreement="they",
        gender="p",
        referent="they",
    )


def prepositional(english: str, german: str, phrase: Nominal, direction: bool = False) -> Adverbial:
    """Put a preposition before a phrase; those of two cases take the accusative for a direction."""
    case = PREPOSITION_CASE.get(german, "accusative" if direction else "dative")
    return Adverbial(
        f"{english} {phrase.english_object}", with_preposition(german, phrase.in_case(case))
    )


def at_place(place: str, phrase: Nominal) -> Adverbial:
    """Return where something is: `at the station` is am Bahnhof."""
    return prepositional(PLACES[place].english_at, PLACES[place].german_at, phrase)


def to_place(place: str, phrase: Nominal) -> Adverbial:
    """Return where something goes: `to the station` is zum Bahnhof."""
    return prepositional(PLACES[place].english_to, PLACES[place].german_to, phrase, direction=True)
