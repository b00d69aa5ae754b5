"""Whole sentences and clauses in both languages at once."""

import dataclasses
from random import Random

from pipelines.quickstart.grammar import english_order, german_order
from pipelines.quickstart.grammar.adverbials import OPENERS
from pipelines.quickstart.grammar.clauses import Clause, sentence, tidy
from pipelines.quickstart.grammar.german import RELATIVE
from pipelines.quickstart.grammar.phrases import Adverbial, Nominal, refer_back

Pair = tuple[str, str]


def statement(clause: Clause, front: Adverbial | None = None) -> Pair:
    """Return a statement, which starts with its subject unless something stands in front."""
    return (
        sentence(english_order.statement(clause, front)),
        sentence(german_order.verb_second(clause, front.german if front else "")),
    )


def varied_statement(rng: Random, clause: Clause) -> Pair:
    """Return a statement, sometimes with its time or a comment in front."""
    draw = rng.random()
    if clause.time and draw < 0.35:
        return statement(dataclasses.replace(clause, time=None), clause.time)
    if not clause.time and not clause.adverb and draw < 0.15:
        return statement(clause, rng.choice(OPENERS))
    return statement(clause)


def joined(first: Clause, english: str, second: Clause, german: str) -> Pair:
    """Return two main clauses with a conjunction between them: `, but`, `, aber`."""
    return (
        sentence(english_order.statement(first) + english + english_order.statement(second)),
        sentence(german_order.verb_second(first) + german + german_order.verb_second(second)),
    )


def question(clause: Clause) -> Pair:
    """Return a yes-or-no question."""
    return (
        sentence(english_order.question(clause), "?"),
        sentence(german_order.verb_first(clause), "?"),
    )


def asked(word: Adverbial, clause: Clause) -> Pair:
    """Return a question for something other than the subject: when, whom, which book."""
    return (
        sentence(english_order.question(clause, word.english), "?"),
        sentence(german_order.verb_second(clause, word.german), "?"),
    )


def subordinate(conjunction: Adverbial, clause: Clause) -> Adverbial:
    """Return a subordinate clause with its conjunction."""
    return Adverbial(
        tidy(conjunction.english, english_order.statement(clause)),
        german_order.verb_final(clause, conjunction.german),
    )


def followed(main: Clause, part: Adverbial, front: Adverbial | None = None) -> Pair:
    """Return a main clause and, after a comma in German, a subordinate clause or infinitive."""
    german = german_order.verb_second(main, front.german if front else "")
    return (
        sentence(tidy(english_order.statement(main, front), part.english)),
        sentence(tidy(german + ",", part.german)),
    )


def preceded(part: Adverbial, main: Clause) -> Pair:
    """Return a subordinate clause and its main clause, whose verb then comes first in German."""
    return statement(main, Adverbial(part.english + ",", part.german + ","))


def infinitive(clause: Clause, opening: str = "") -> Adverbial:
    """Return "to buy bread" and, after `opening`, "um Brot zu kaufen"."""
    return Adverbial(
        english_order.infinitive(clause), tidy(opening, german_order.zu_infinitive(clause))
    )


def again(clause: Clause) -> Clause:
    """Return the clause with a pronoun for its subject."""
    return dataclasses.replace(clause, subject=refer_back(clause.subject))


def with_relative(phrase: Nominal, english: str, german: str) -> Nominal:
    """Attach a relative clause to a noun phrase; German sets it off with commas."""
    return dataclasses.replace(
        phrase,
        english=f"{phrase.english} {english}",
        english_object=f"{phrase.english_object} {english}",
        german=tuple(f"{form}, {german}," for form in phrase.german),
    )


def who_does(phrase: Nominal, clause: Clause) -> Nominal:
    """Attach a clause about the phrase as its subject: the man who lives in Berlin."""
    relative = RELATIVE["nominative", phrase.gender]
    english = english_order.statement(dataclasses.replace(clause, subject=_named(phrase, "who")))
    return with_relative(phrase, english, f"{relative} {german_order.predicate_final(clause)}")


def that_someone(phrase: Nominal, clause: Clause, english_relative: str) -> Nominal:
    """Attach a clause about the phrase as its object: the book that Anna is reading."""
    relative = RELATIVE[clause.verb.case, phrase.gender]
    english = tidy(english_relative, english_order.statement(clause))
    return with_relative(phrase, english, german_order.verb_final(clause, relative))


def _named(phrase: Nominal, english: str) -> Nominal:
    return dataclasses.replace(phrase, english=english)
