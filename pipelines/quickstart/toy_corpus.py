"""An English-German toy corpus: sentences that a few rules make of some hundred words.

Nobody wrote these sentences. They are correct, but many make little sense, and their vocabulary is
tiny: scores on them say nothing about real text. A model has to learn more than words, though:
gender, case and number of articles and adjectives; the finite verb in second position, also after
a time or a place, first in questions, and last in subordinate clauses; participles, infinitives and
separable prefixes at the end; nicht and kein. Each English sentence has one German translation.
"""

import re
from collections.abc import Mapping, Sequence
from random import Random
from typing import NamedTuple

Pair = tuple[str, str]  # English and German

# Nouns by kind: English singular and plural, German singular, gender and plural.
NOUNS = {
    "person": """man men Mann m Männer, woman women Frau f Frauen, girl girls Mädchen n Mädchen,
        child children Kind n Kinder, teacher teachers Lehrer m Lehrer, king kings König m Könige,
        doctor doctors Arzt m Ärzte, queen queens Königin f Königinnen""",
    "family": """brother brothers Bruder m Brüder, sister sisters Schwester f Schwestern,
        uncle uncles Onkel m Onkel, aunt aunts Tante f Tanten, friend friends Freund m Freunde""",
    "animal": """dog dogs Hund m Hunde, cat cats Katze f Katzen, horse horses Pferd n Pferde""",
    "thing": """book books Buch n Bücher, newspaper newspapers Zeitung f Zeitungen,
        table tables Tisch m Tische, chair chairs Stuhl m Stühle, lamp lamps Lampe f Lampen,
        picture pictures Bild n Bilder, key keys Schlüssel m Schlüssel""",
    "cover": """door doors Tür f Türen, window windows Fenster n Fenster,
        suitcase suitcases Koffer m Koffer""",
    "food": """apple apples Apfel m Äpfel, egg eggs Ei n Eier, cake cakes Kuchen m Kuchen,
        potato potatoes Kartoffel f Kartoffeln, sausage sausages Wurst f Würste""",
}
ADJECTIVES = {
    "person family": "old=alt, young=jung, tired=müd, happy=glücklich, hungry=hungrig, sick=krank",
    "animal": "old=alt, young=jung, big=groß, small=klein, hungry=hungrig",
    "thing cover": "old=alt, new=neu, big=groß, small=klein, beautiful=schön, red=rot",
    "food": "good=gut, big=groß, small=klein, fresh=frisch, warm=warm",
}
# Base form, past, infinitive with its separable prefix, form with er, participle, auxiliary. Then
# what else: a dative, an accusative of these kinds, a place, a direction, or a clause.
VERBS = """
buy          bought        kaufen          kauft     gekauft         haben  thing food animal
see          saw           sehen           sieht     gesehen         haben  thing cover person
look for     looked for    suchen          sucht     gesucht         haben  thing food animal
eat          ate           essen           isst      gegessen        haben  food
visit        visited       besuchen        besucht   besucht         haben  person family
call         called        an|rufen        ruft      angerufen       haben  person family
invite       invited       ein|laden       lädt      eingeladen      haben  person family
pick up      picked up     ab|holen        holt      abgeholt        haben  person family thing
take along   took along    mit|nehmen      nimmt     mitgenommen     haben  family animal thing food
open         opened        auf|machen      macht     aufgemacht      haben  cover
close        closed        zu|machen       macht     zugemacht       haben  cover
help         helped        helfen          hilft     geholfen        haben  dative
listen to    listened to   zu|hören        hört      zugehört        haben  dative
give         gave          geben           gibt      gegeben         haben  dative thing food
show         showed        zeigen          zeigt     gezeigt         haben  dative thing animal
sleep        slept         schlafen        schläft   geschlafen      haben  place
wait         waited        warten          wartet    gewartet        haben  place
arrive       arrived       an|kommen       kommt     angekommen      sein   place
go           went          gehen           geht      gegangen        sein   direction
get up       got up        auf|stehen      steht     aufgestanden    sein
come back    came back     zurück|kommen   kommt     zurückgekommen  sein
know         knew          wissen          weiß      gewusst         haben  that=dass
think        thought       glauben         glaubt    geglaubt        haben  that=dass
ask          asked         fragen          fragt     gefragt         haben  whether=ob
"""
# Forms with ich, with er, and in the plural.
IRREGULAR = """haben=habe hat haben, sein=bin ist sind, war=war war waren, wissen=weiß weiß wissen,
    werden=werde wird werden, können=kann kann können, wollen=will will wollen,
    müssen=muss muss müssen"""
# Endings in the nominative, accusative and dative, each for m, f, n and plural; "-" is no ending.
_DER, _EIN = "er e es e  en e es e  em er em en", "- e - e  en e - e  em er em en"
_AFTER_DER, _AFTER_EIN = "e e e en  en e e en  en en en en", "er e es en  en e es en  en en en en"
# A German stem, its endings, and those of an adjective after it.
DETERMINERS = {
    "the": ("d", "er ie as ie  en ie as ie  em er em en", _AFTER_DER),
    "this": ("dies", _DER, _AFTER_DER),
    "a": ("ein", _EIN, _AFTER_EIN),
    "not a": ("kein", _EIN, _AFTER_EIN),
    "my": ("mein", _EIN, _AFTER_EIN),
    "our": ("unser", _EIN, _AFTER_EIN),
    "two": ("zwei", "- - - -  - - - -  - - - -", "e e e e  e e e e  en en en en"),
}
# Subjects without an article, and their person: 0 is ich, 1 is er, 2 is wir and sie.
SUBJECTS = "I ich 0, he er 1, she sie 1, we wir 2, they sie 2, Anna Anna 1, Paul Paul 1"
PLACES = {
    "place": """in the garden=im Garten, in the park=im Park, in the kitchen=in der Küche,
        at the station=am Bahnhof, at the market=auf dem Markt, at home=zu Hause""",
    "direction": """to the station=zum Bahnhof, to the market=zum Markt, to the park=in den Park,
        into the kitchen=in die Küche, into the garden=in den Garten, home=nach Hause""",
}
# Modal verbs count as tenses: a clause has one tense, and a time that goes with it.
MODALS = {"will": "werden", "can": "können", "want to": "wollen", "have to": "müssen"}
TIMES = {
    "present": "today=heute, every day=jeden Tag, on Sunday=am Sonntag",
    "past": "yesterday=gestern, last week=letzte Woche, on Sunday=am Sonntag",
    **dict.fromkeys(MODALS, "today=heute, tomorrow=morgen, soon=bald"),
}


class Verb(NamedTuple):
    """A line of `VERBS`. The verb "be" has an adjective as its past and its infinitive."""

    english: str
    past: str
    german: str
    third: str = ""
    participle: str = ""
    auxiliary: str = ""
    needs: str = ""


class Phrase(NamedTuple):
    """A noun phrase in English and, by case, in German. The person is a number as in `SUBJECTS`."""

    english: str
    german: Mapping[str, str]
    person: int = 1


class Clause(NamedTuple):
    """The parts of a clause, which the two languages put in different orders."""

    subject: Phrase
    verb: Verb
    tense: str = "present"
    receiver: Phrase | None = None
    object: Phrase | None = None
    place: Pair = ("", "")
    time: Pair = ("", "")
    negated: bool = False


def _pairs(text: str) -> list[Pair]:
    return [(part.partition("=")[0], part.partition("=")[2]) for part in re.split(r",\s+", text)]


_IRREGULAR = dict(_pairs(IRREGULAR))
_ALL_VERBS = [Verb(*re.split(r"\s{2,}", line)) for line in VERBS.strip().splitlines()]
_VERBS, _REPORTS = _ALL_VERBS[:-3], _ALL_VERBS[-3:]
_NOUNS = {kind: [noun.split() for noun in text.split(",")] for kind, text in NOUNS.items()}
_ADJECTIVES = {kind: _pairs(text) for kinds, text in ADJECTIVES.items() for kind in kinds.split()}


def noun_phrase(
    determiner: str, noun: Sequence[str], adjective: Pair = ("", ""), *, plural: bool = False
) -> Phrase:
    """Return a noun phrase with the endings of each case.

    `determiner` is a key of `DETERMINERS`, "not a" after a negated verb; `noun` has the forms of a
    noun in `NOUNS`, and the German `adjective` no ending.

    >>> noun_phrase("the", "dog dogs Hund m Hunde".split(), ("old", "alt")).german["dative"]
    'dem alten Hund'
    """
    *english_forms, singular, gender, german_plural = noun
    stem, endings, adjective_endings = DETERMINERS[determiner]
    german = {}
    for row, case in enumerate(("nominative", "accusative", "dative")):
        column = 4 * row + (3 if plural else "mfn".index(gender))
        form = german_plural if plural else singular
        if plural and case == "dative" and not form.endswith("n"):
            form += "n"
        described = adjective[1] and adjective[1] + adjective_endings.split()[column]
        german[case] = _join(stem + endings.split()[column].strip("-"), described, form)
    english = _join(adjective[0], english_forms[plural])
    if determiner == "this" and plural:
        determiner = "these"
    elif determiner.endswith("a"):
        determiner = "an" if english[0] in "aeiou" else "a"
    return Phrase(f"{determiner} {english}", german, 2 if plural else 1)


def english_order(clause: Clause, question: str | None = None) -> str:
    """Return an English statement or, after a question word or "", a question."""
    auxiliary, verb = _english_verbs(clause, clause.negated or question is not None)
    objects = [phrase.english for phrase in (clause.receiver, clause.object) if phrase]
    rest = _join("not" if clause.negated else "", verb, *objects, clause.place[0], clause.time[0])
    if question is not None:
        return _join(question, auxiliary, clause.subject.english, rest)
    return _join(clause.subject.english, auxiliary, rest).replace(" can not ", " cannot ")


def _english_verbs(clause: Clause, needs_auxiliary: bool) -> tuple[str, str]:
    verb, tense, person = clause.verb, clause.tense, clause.subject.person
    if verb.english == "be":
        return ("was was were" if tense == "past" else "am is are").split()[person], verb.past
    if tense in ("will", "can"):
        return tense, verb.english
    base = _join(tense, verb.english) if tense in MODALS else verb.english
    if needs_auxiliary:
        return "did" if tense == "past" else ("do", "does", "do")[person], base
    if tense == "past" or person != 1:
        return "", verb.past if tense == "past" else base
    first, _, rest = base.partition(" ")
    return "", _join({"go": "goes", "have": "has"}.get(first, first + "s"), rest)


def german_order(clause: Clause, front: str | None = None, conjunction: str = "") -> str:
    """Return a German clause.

    The finite verb follows the subject, or what is in front; with "" in front it is first, as in a
    yes-or-no question. After a conjunction it is last.
    """
    finite, end = _german_verbs(clause)
    subject = clause.subject.german["nominative"]
    receiver = clause.receiver.german["dative"] if clause.receiver else ""
    accusative = clause.object.german["accusative"] if clause.object else ""
    negation = "nicht" if clause.negated and not accusative.startswith("kein") else ""
    middle = (clause.time[1], receiver, accusative, negation, clause.place[1])
    if conjunction:
        has_prefix = clause.tense == "present" and "|" in clause.verb.german
        verbs = end + finite if has_prefix else _join(end, finite)
        return _join(conjunction, subject, *middle, verbs)
    start = (subject, finite) if front is None else (front, finite, subject)
    return _join(*start, *middle, end)


def _german_verbs(clause: Clause) -> tuple[str, str]:
    """Return the finite verb and the end of a main clause: prefix, participle or infinitive."""
    verb, tense, person = clause.verb, clause.tense, clause.subject.person
    prefix, _, infinitive = verb.german.rpartition("|")
    regular = f"{infinitive.removesuffix('n')} {verb.third} {infinitive}"
    forms, end = _IRREGULAR.get(infinitive, regular), prefix
    if verb.english == "be":
        forms, end = _IRREGULAR["war" if tense == "past" else "sein"], verb.german
    elif tense == "past":
        forms, end = _IRREGULAR[verb.auxiliary], verb.participle
    elif tense in MODALS:
        forms, end = _IRREGULAR[MODALS[tense]], prefix + infinitive
    return forms.split()[person], end


def _join(*parts: str) -> str:
    return " ".join(part for part in parts if part)


def _noun(rng: Random, kinds: Sequence[str], instead_of_a: str = "a") -> Phrase:
    kind, plural = rng.choice(kinds), rng.random() < 0.3
    owners = [] if kind in ("person", "food") else ["my", "our"]
    determiner = rng.choice(["the", "the", "this", "two" if plural else "a", *owners])
    if instead_of_a != "a":
        determiner = {"a": instead_of_a, "two": "the"}.get(determiner, determiner)
    adjective = rng.choice(_ADJECTIVES[kind]) if rng.random() < 0.4 else ("", "")
    return noun_phrase(determiner, rng.choice(_NOUNS[kind]), adjective, plural=plural)


def _clause(rng: Random) -> Clause:
    tense, negated = rng.choice(["present", "past", *TIMES]), rng.random() < 0.2
    verb = rng.choice(_VERBS)
    needs = verb.needs.split()
    subject = _noun(rng, ["person", "family", *["animal"] * (verb.english in ("see", "sleep"))])
    if rng.random() < 0.4:
        english, german, person = rng.choice(SUBJECTS.split(", ")).split()
        subject = Phrase(english, {"nominative": german}, int(person))
    clause = Clause(subject, verb, tense, negated=negated)
    if kinds := [kind for kind in needs if kind in NOUNS]:
        clause = clause._replace(object=_noun(rng, kinds, "not a" if negated else "a"))
    if "dative" in needs:
        clause = clause._replace(
            receiver=_noun(rng, ["person", "family"], "the" if negated else "a")
        )
    if verb.needs in PLACES or clause.object and rng.random() < 0.2:
        clause = clause._replace(place=rng.choice(_pairs(PLACES.get(verb.needs, PLACES["place"]))))
    if tense not in MODALS and rng.random() < 0.15:
        english, german = rng.choice(_ADJECTIVES["person"][2:])
        verb = Verb("be", english, german.replace("müd", "müde"))
        clause = Clause(subject, verb, tense, negated=negated)
    if rng.random() < 0.4:
        time = rng.choice(_pairs(TIMES[tense]))
        if not (negated and time[0] == "every day"):  # "Jeden Tag nicht" would mean never.
            clause = clause._replace(time=time)
    return clause


def _statement(rng: Random) -> Pair:
    clause, part = _clause(rng), rng.choice(["time", "place"])
    english, german = getattr(clause, part)
    if not english or clause.verb.needs == "direction" or rng.random() < 0.3:
        return english_order(clause), german_order(clause)
    clause = clause._replace(**{part: ("", "")})
    return _join(english, english_order(clause)), german_order(clause, german)


def _question(rng: Random) -> Pair:
    clause = _clause(rng)
    words = [("", ""), ("why", "warum"), ("when", "wann")]
    if clause.place[0]:
        words.append(("where", "wohin" if clause.verb.needs == "direction" else "wo"))
    english, german = rng.choice(words)
    if english in ("when", "where"):  # They ask for what the clause leaves out.
        clause = clause._replace(**{"time" if english == "when" else "place": ("", "")})
    return english_order(clause, english), german_order(clause, german)


def _two_clauses(rng: Random) -> Pair:
    english, german = rng.choice([("because", "weil"), ("although", "obwohl")])
    main, part = _clause(rng), _clause(rng)
    if rng.random() < 0.3:
        first = f"{english} {english_order(part)}, {english_order(main)}"
        return first, f"{german_order(part, conjunction=german)}, {german_order(main, '')}"
    if rng.random() < 0.5 and main.tense not in MODALS:
        verb = rng.choice(_REPORTS)
        main = Clause(main.subject, verb, main.tense, negated=main.negated)
        english, german = verb.needs.split("=")
    end = german_order(part, conjunction=german)
    return f"{english_order(main)} {english} {english_order(part)}", f"{german_order(main)}, {end}"


class GeneratedCorpus(NamedTuple):
    """Pairs of an English sentence and its German translation; the splits share no sentence."""

    train: list[Pair]
    validation: list[Pair]
    test: list[Pair]


def generated_corpus(
    train: int = 30_000, validation: int = 500, test: int = 500, seed: int = 0
) -> GeneratedCorpus:
    """Generate a corpus of distinct sentences; no English and no German one occurs twice.

    The test and validation pairs do not depend on the size of the training split, and a larger
    one starts with the pairs of a smaller one.

    Args:
        train, validation, test: The number of pairs of each split.
        seed: Seed of all random choices.

    Returns:
        The three splits.

    Raises:
        ValueError: If a size is negative.

    >>> corpus = generated_corpus(train=30, validation=2, test=1)
    >>> len(corpus.train), len(corpus.validation), len(corpus.test)
    (30, 2, 1)
    """
    if min(train, validation, test) < 0:
        raise ValueError(f"Sizes must be at least 0, received {train=}, {validation=}, {test=}.")
    rng = Random(seed)
    pairs: list[Pair] = []
    seen: set[str] = set()
    while len(pairs) < test + validation + train:
        pattern = rng.choice([_statement, _statement, _question, _two_clauses])
        end = "?" if pattern is _question else "."
        english, german = (text[0].upper() + text[1:] + end for text in pattern(rng))
        if not seen & {english, german} and len(english.split()) <= 16:
            seen |= {english, german}
            pairs.append((english, german))
    return GeneratedCorpus(pairs[test + validation :], pairs[test:][:validation], pairs[:test])
