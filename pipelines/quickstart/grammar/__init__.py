"""An English-German corpus that a grammar generates, for quick starts and tests.

Nobody wrote these sentences: they are drawn at random, by a seed, from a grammar and a lexicon of
some 400 English words that build both languages at once. They are correct and mostly sensible, but
they are no sample of what people write, and scores on them say nothing about real text.

What makes the translation more than replacing words: gender and case, with weak, mixed and strong
adjective endings; plurals; weak nouns; possessives and genitives; numbers in words and digits; the
finite verb second, with inversion, first in questions and last in subordinate and relative clauses;
separable, reflexive, modal and passive verbs; perfect tenses with haben and sein; prepositions with
a case for places and another for directions; nicht and kein; pronouns in the gender of what they
refer to. Each English sentence has one German translation.
"""

from pipelines.quickstart.grammar.corpus import (
    GeneratedCorpus,
    generate_pairs,
    generated_corpus,
)

__all__ = ["GeneratedCorpus", "generate_pairs", "generated_corpus"]
