"""A small treebank in a directory, and a parser with random weights."""

import functools
from pathlib import Path

from keras_transformer.config import DecodingConfig
from keras_transformer.text import (
    SentencePieceTokenizer,
    TreeTokenizer,
    train_sentencepiece,
    tree_vocabulary,
)
from keras_transformer.translation.translator import Translator
from keras_transformer.trees import parse_tree
from tests.helpers.tiny import ODD, tiny_model, toy_sentences

SUBJECTS = ["the dog", "an old cat", "the red sun", "a big moon"]
VERBS = ["sees", "follows", "likes"]
ANSWERS = ["sleeps", "runs", "sings"]


def toy_tree(number):
    """Return one of 84 trees of a small grammar, with tags, traces and functions."""
    subject, rest = (SUBJECTS[number % 4], number // 4)
    object_, verb = SUBJECTS[rest % 4], VERBS[rest // 4 % 3]
    noun_phrase = lambda text, function="": (  # noqa: E731
        f"(NP{function} "
        + " ".join(
            f"({'DT' if word in ('the', 'an', 'a') else 'NN' if last else 'JJ'} {word})"
            for word, last in _with_last(text.split())
        )
        + ")"
    )
    if number >= 48:
        verb_phrase = f"(VP (VBZ {ANSWERS[number % 3]}) (NP (-NONE- *T*-1)))"
    else:
        verb_phrase = f"(VP (VBZ {verb}) {noun_phrase(object_)})"
    return f"( (S {noun_phrase(subject, '-SBJ-1')} {verb_phrase} (. .)) )"


def _with_last(words):
    return [(word, place == len(words) - 1) for place, word in enumerate(words)]


def write_treebank(directory, sections=("02", "03", "22")):
    """Write trees as the Penn Treebank is laid out: several lines a tree, files by section."""
    for place, section in enumerate(sections):
        folder = Path(directory) / section
        folder.mkdir(parents=True)
        numbers = range(place, 84, len(sections))
        text = "".join(toy_tree(number).replace(" (VP", "\n    (VP") + "\n" for number in numbers)
        (folder / f"wsj_{section}01.mrg").write_text(text, encoding="utf-8")
    return Path(directory)


@functools.cache
def parser(word_tags="none", compiled=False, **decoding):
    """Return a parser whose random weights distinguish sentences."""
    tree = parse_tree("(S (NP (NN a)) (VP (VB a) (PP (IN a))))")
    vocabulary = tree_vocabulary([tree], 20, word_tags=word_tags)
    lines = [*toy_sentences(80), "the dog/NN ( sees )"]
    source = SentencePieceTokenizer(train_sentencepiece(lines, 340))
    search = DecodingConfig(
        **{"beam_size": 3, "extra_length": 9, "max_source_length": 24, **decoding}
    )
    model = tiny_model(340, 20)
    return Translator(model, source, TreeTokenizer(vocabulary), search, compiled)


TEXTS = [*toy_sentences(14), *ODD, "( ) [ ] { }", ". , !", "-LRB- x/y", "\u200b", "a\u00a0b c"]
