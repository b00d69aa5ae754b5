"""A small treebank in a directory, and a parser with random weights."""

import functools
import itertools
from pathlib import Path

from keras_transformer.config import DecodingConfig
from keras_transformer.text import (
    SentencePieceTokenizer,
    Tokenizer,
    TreeTokenizer,
    WordTokenizer,
    train_sentencepiece,
    train_words,
)
from keras_transformer.text.tree_tokenizer import tree_vocabulary
from keras_transformer.translation.translator import Translator
from keras_transformer.trees import parse_tree
from tests.helpers.tiny import ODD, tiny_model, toy_sentences

SUBJECTS = ["the dog", "an old cat", "the red sun", "a moon", "a fish", "the tall tree", "the boat"]
VERBS = ["sees", "follows", "likes"]
ANSWERS = ["sleeps", "runs", "sings"]


def toy_trees():
    """Return 168 trees of a small grammar, with tags, traces and functions."""
    trees = []
    for subject, verb, patient in itertools.product(SUBJECTS, VERBS, SUBJECTS):
        trees.append(_sentence(subject, f"(VP (VBZ {verb}) {_noun_phrase(patient)})"))
    for subject, verb in itertools.product(SUBJECTS, ANSWERS):
        trees.append(_sentence(subject, f"(VP (VBZ {verb}) (NP (-NONE- *T*-1)))"))
    return trees


def _sentence(subject, verb_phrase):
    return f"( (S {_noun_phrase(subject, '-SBJ-1')}\n    {verb_phrase} (. .)) )"


def _noun_phrase(text, function=""):
    first, *middle, last = text.split()
    words = [f"(DT {first})", *(f"(JJ {word})" for word in middle), f"(NN {last})"]
    return f"(NP{function} {' '.join(words)})"


def write_treebank(directory, sections=("02", "03", "22")):
    """Write trees as the Penn Treebank is laid out: several lines a tree, files by section."""
    for place, section in enumerate(sections):
        folder = Path(directory) / section
        folder.mkdir(parents=True)
        text = "".join(f"{tree}\n" for tree in toy_trees()[place :: len(sections)])
        (folder / f"wsj_{section}01.mrg").write_text(text, encoding="utf-8")
    return Path(directory)


def parser(word_tags="none", compiled=False, subwords="bpe", device=None, **decoding):
    """Return a parser whose random weights distinguish sentences, one for the same options."""
    search = {"beam_size": 3, "extra_length": 9, "max_source_length": 24, **decoding}
    return _parser(word_tags, compiled, subwords, device, DecodingConfig(**search))


@functools.cache
def _parser(word_tags, compiled, subwords, device, decoding):
    tree = parse_tree("(S (NP (NN a)) (VP (VB a) (PP (IN a))))")
    vocabulary = tree_vocabulary([tree], 160, word_tags=word_tags)
    lines = [*toy_sentences(80), "the dog/NN ( sees )"]
    if subwords == "word":
        source: Tokenizer = WordTokenizer(train_words(lines, 340))
    else:
        source = SentencePieceTokenizer(train_sentencepiece(lines, 340))
    model = tiny_model(340, 160, num_layers=1)
    return Translator(model, source, TreeTokenizer(vocabulary), decoding, compiled, device)


TEXTS = [*toy_sentences(14), *ODD, "( ) [ ] { }", ". , !", "-LRB- x/y", "\u200b", "a\u00a0b c"]
