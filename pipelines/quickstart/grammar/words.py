"""Words with their forms in both languages, and the readers of the lexicon's tables."""

import re
from dataclasses import dataclass
from typing import Literal, cast

from pipelines.quickstart.grammar.german import Agreement, Case, Gender, irregular_present

Aspect = Literal["activity", "state", "event"]

_GENDERS: dict[str, Gender] = {"der": "m", "die": "f", "das": "n"}


@dataclass(frozen=True)
class Noun:
    """A noun. Its plurals are empty if the corpus does not use them."""

    english: str
    english_plural: str
    german: str
    german_plural: str
    gender: Gender
    kind: str
    oblique: str  # singular accusative and dative; differs from `german` for weak nouns
    genitive: str

    def german_form(self, case: Case, plural: bool) -> str:
        """Return the German form: the table `des Mannes, den Männern, dem Studenten`."""
        if plural:
            adds_n = case == "dative" and not self.german_plural.endswith(("n", "s"))
            return self.german_plural + ("n" if adds_n else "")
        if case == "genitive":
            return self.genitive
        return self.german if case == "nominative" else self.oblique


@dataclass(frozen=True)
class Adjective:
    """An adjective; `stem` is what the endings follow (teuer, but der teure Hut)."""

    english: str
    german: str
    stem: str


@dataclass(frozen=True)
class Verb:
    """A verb with its principal parts, its possible objects and its possible places.

    Attributes:
        particle: An English word after the verb: `up` in "pick up", `for` in "wait for".
        movable: Whether a pronoun stands before the particle ("picks him up").
        prefix: A separable German prefix, `ab` in "abholen".
        infinitive: The German infinitive without that prefix.
        third: The German er-form without that prefix.
        german_participle: The whole German participle, `abgeholt`.
        auxiliary: `haben` or `sein`.
        case: The case of the object.
        preposition: The German preposition of the object, if any.
        reflexive: Whether the German verb takes `sich`.
    """

    english: str
    past: str
    participle: str
    particle: str
    movable: bool
    prefix: str
    infinitive: str
    third: str
    german_participle: str
    auxiliary: str
    case: Case
    preposition: str
    reflexive: bool
    aspect: Aspect
    objects: tuple[str, ...]
    places: tuple[str, ...]

    def german_present(self, agreement: Agreement) -> str:
        """Return the finite German form, without the separable prefix."""
        irregular = irregular_present(self.infinitive, agreement)
        if irregular:
            return irregular
        if agreement == "he":
            return self.third
        if agreement == "I":
            return self.infinitive.removesuffix("n").removesuffix("e") + "e"
        return self.infinitive

    def zu_infinitive(self) -> str:
        """Return the infinitive with zu: `zu lesen`, `abzuholen`."""
        return f"{self.prefix}zu{self.infinitive}" if self.prefix else f"zu {self.infinitive}"


def read_nouns(kind: str, table: str) -> tuple[Noun, ...]:
    """Read lines such as `boy boys der Junge Jungen weak`.

    A dash marks an unused plural, and an underscore is a space. The optional last column is `weak`
    for nouns that end in -(e)n in all cases but the nominative, or an irregular genitive.
    """
    nouns = []
    for line in table.strip().splitlines():
        english, plural, article, german, german_plural, *extra = line.split()
        weak = extra == ["weak"]
        gender = _GENDERS[article]
        genitive = german if gender == "f" else german + _genitive_ending(german)
        if extra:
            genitive = german_plural if weak else extra[0]
        nouns.append(
            Noun(
                english=english.replace("_", " "),
                english_plural=plural.strip("-").replace("_", " "),
                german=german,
                german_plural=german_plural.strip("-"),
                gender=gender,
                kind=kind,
                oblique=german_plural if weak else german,
                genitive=genitive,
            )
        )
    return tuple(nouns)


def _genitive_ending(german: str) -> str:
    syllables = len(re.findall(r"[aeiouyäöü]+", german.lower()))
    sibilant = re.search(r"(s|ß|z|sch)$", german)
    vowel = re.search(r"[aeiou]$", german)
    return "es" if sibilant or (syllables == 1 and not vowel) else "s"


def read_adjectives(table: str) -> dict[str, Adjective]:
    """Read lines such as `expensive teuer teur`; the last column is the stem, if it differs."""
    adjectives = {}
    for line in table.strip().splitlines():
        english, german, *stem = line.split()
        adjectives[english] = Adjective(english, german, stem[0] if stem else german)
    return adjectives


def read_verbs(aspect: Aspect, table: str) -> tuple[Verb, ...]:
    """Read lines of four columns, the last two of which may be empty.

    `pick picked picked +up | ab+holen holt abgeholt | kin friend | station` is English, German,
    the kinds of the object (or single nouns) and the places. A plus marks a movable particle or a
    separable prefix. The English particle is the fourth word. The German forms may be followed by
    `sein`, `dative` or `auf/accusative`.
    """
    verbs = []
    for line in table.strip().splitlines():
        columns = [column.split() for column in (line + "|||").split("|")[:4]]
        (english, past, participle, *particle), german, objects, places = columns
        infinitive, third, german_participle, *rest = german
        prefix, _, stem = infinitive.rpartition("+")
        preposition, _, case = next((item for item in rest if "/" in item), "").partition("/")
        if "dative" in rest:
            case = "dative"
        verbs.append(
            Verb(
                english=english,
                past=past,
                participle=participle,
                particle=" ".join(particle).strip("+").replace("_", " "),
                movable="+" in "".join(particle),
                prefix=prefix,
                infinitive=stem.removeprefix("sich_"),
                third=third,
                german_participle=german_participle,
                auxiliary="sein" if "sein" in rest else "haben",
                case=cast(Case, case or "accusative"),
                preposition=preposition,
                reflexive=stem.startswith("sich_"),
                aspect=aspect,
                objects=tuple(objects),
                places=tuple(place.replace("_", " ") for place in places),
            )
        )
    return tuple(verbs)
