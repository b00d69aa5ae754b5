"""The scores of a parser with and without the rules of its search, compared with a grammar.

    python -m benchmarks.parsing --model runs/parser --trees dev.mrg
    python -m benchmarks.parsing --model runs/parser --trees dev.mrg --train train.mrg --beams 1 10

"Valid" is the share of sentences whose result is a tree over exactly their words. Others, which
only a search without rules has, count as sentences without brackets. With `--train`, the last row
is the grammar read off those trees; see `benchmarks.pcfg`.
"""

import argparse
import itertools
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import tensorflow as tf

from benchmarks.machine import describe_machine
from benchmarks.pcfg import Grammar
from benchmarks.report import print_report, table_line
from keras_transformer.config import EOS_ID
from keras_transformer.data import read_trees
from keras_transformer.data.trees import tree_pair
from keras_transformer.evaluation import score_brackets
from keras_transformer.text import TreeTokenizer
from keras_transformer.translation import Translator
from keras_transformer.translation.search import TokenSearch
from keras_transformer.trees import WORD, Tree, delinearize, parse_tree, split_words

HEADER = """\
| parser | beam | rules | valid | F1 | F1 to 40 | precision | recall | complete | sentences/s |
|---|--:|---|--:|--:|--:|--:|--:|--:|--:|"""
_BATCH = 32


def parse_freely(translator: Translator, sentences: Sequence[str]) -> list[Tree | None]:
    """Return the trees that a parser writes without rules, None where it writes no tree."""
    tokenizer = translator.target_tokenizer
    assert isinstance(tokenizer, TreeTokenizer)
    search = tf.function(TokenSearch(translator.model, translator.decoding), autograph=False)
    found: list[Tree | None] = []
    for start in range(0, len(sentences), _BATCH):
        part = list(sentences[start : start + _BATCH])
        source, lengths = translator.encode_text(tf.constant(part))
        result = search(source, lengths)
        for text, ids, length in zip(part, result.ids[:, 0], result.lengths[:, 0], strict=True):
            words, _ = split_words(text, tagged=tokenizer.word_tags == "source")
            found.append(_read(tokenizer, ids.numpy()[:length], words))
    return found


def _read(tokenizer: TreeTokenizer, ids: Sequence[int], words: Sequence[str]) -> Tree | None:
    pieces = iter(tokenizer.id_to_piece([i for i in ids if i != EOS_ID]))
    numbers = itertools.cycle(tokenizer.id_to_piece(tokenizer.word_ids))
    tokens = []
    for piece in pieces:
        is_word = piece.startswith(WORD)
        tokens.append(WORD if is_word and piece == next(numbers) else piece)
        if is_word and tokenizer.tags and next(pieces, None) not in tokenizer.tags:
            return None
    try:
        return delinearize(tokens, words)
    except ValueError:
        return None


def parse_with_grammar(grammar: Grammar, references: Sequence[Tree]) -> list[Tree]:
    """Return the trees that a grammar finds, or a single bracket around all words."""
    found = [grammar.parse(reference.words) for reference in references]
    return [
        tree if tree is not None else Tree("S", tuple(reference.leaves()))
        for tree, reference in zip(found, references, strict=True)
    ]


def report(options: argparse.Namespace) -> Iterator[str]:
    """Yield the lines of the report."""
    references = read_trees(options.trees)
    yield HEADER
    for beam_size in options.beams:
        translator = Translator.load(options.model, beam_size=beam_size)
        assert isinstance(translator.target_tokenizer, TreeTokenizer)
        tagged = translator.target_tokenizer.word_tags == "source"
        sentences = [tree_pair(tree, tagged=tagged)[0] for tree in references]
        for rules in ("yes", "no"):
            start = time.perf_counter()
            if rules == "yes":
                predicted = [parse_tree(tree) for tree in translator(sentences, _BATCH)]
            else:
                predicted = parse_freely(translator, sentences)
            pace = len(sentences) / (time.perf_counter() - start)
            cells = _cells(predicted, references, pace)
            yield table_line(["Transformer", beam_size, rules, *cells])
    if options.train:
        grammar = Grammar(read_trees(options.train), vertical=2, horizontal=2)
        start = time.perf_counter()
        predicted = parse_with_grammar(grammar, references)
        pace = len(references) / (time.perf_counter() - start)
        _, *cells = _cells(predicted, references, pace)
        yield table_line(["grammar, v=2, h=2", "", "", "", *cells])
    yield f"\n- {len(references):,} sentences of {options.trees.name}. {describe_machine()}."


def _cells(predicted: Sequence[Tree | None], references: Sequence[Tree], pace: float) -> list[str]:
    valid = sum(tree is not None for tree in predicted)
    filled = [
        tree if tree is not None else Tree("TOP", tuple(reference.leaves()))
        for tree, reference in zip(predicted, references, strict=True)
    ]
    scores = score_brackets(filled, references)
    short = score_brackets(filled, references, max_words=40)
    numbers = (scores.f1, short.f1, scores.precision, scores.recall, scores.complete_match)
    share = f"{100 * valid / len(predicted):.1f}%"
    return [share, *(f"{number:.2f}" for number in numbers), f"{pace:.1f}"]


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the benchmark with command-line arguments."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.parsing")
    parser.add_argument("--model", type=Path, required=True, help="the run of a parser")
    parser.add_argument("--trees", type=Path, required=True, help="trees to parse")
    parser.add_argument("--train", type=Path, help="trees of a grammar to compare with")
    parser.add_argument("--beams", type=int, nargs="+", default=[1, 4], help="default 1 and 4")
    parser.add_argument("--output", type=Path, help="also write the report to this file")
    print_report(report(options := parser.parse_args(arguments)), options.output)


if __name__ == "__main__":
    main()
