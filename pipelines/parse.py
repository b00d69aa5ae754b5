"""Parse sentences into constituency trees: arguments, a file, or standard input, in order.

Usage:
    python -m pipelines.parse --model runs/parser "The old dog sleeps ."
    python -m pipelines.parse --model runs/parser --draw tree.svg "The old dog sleeps ."
    python -m pipelines.parse --model runs/parser --draw - "The old dog sleeps ."

Each tree takes one line: (S (NP (XX The) (XX old) (XX dog)) (VP (XX sleeps)) (XX .)). With
--num-hypotheses N, each sentence has N lines, best first: rank, score and tree, separated by tabs.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pipelines.cli.errors import plain_errors
from pipelines.cli.parser import Parser, add_model_options
from pipelines.cli.process import import_tensorflow
from pipelines.cli.text import add_text_options, one_line, read_text

if TYPE_CHECKING:
    from rich.text import Text
    from rich.tree import Tree as Lines

    from keras_transformer.trees import Tree

TERMINAL = "-"
"""The value of --draw for the terminal."""
SUFFIXES = (".svg", ".png", ".pdf")
_WIDTH = 10_000  # A terminal wraps a line that is too long for it; rich would drop the end.


@plain_errors()
def main(argv: Sequence[str] | None = None, prog: str = "python -m pipelines.parse") -> None:
    parser = Parser(
        prog=prog,
        description=__doc__.split("\n")[0],
        epilog="With --num-hypotheses N, N lines are printed per sentence, best first: rank, "
        "score and tree, separated by tabs.",
    )
    add_model_options(parser)
    add_text_options(parser, "to parse, with spaces between words and punctuation")
    parser.add_argument(
        "--draw",
        metavar="FILE",
        help="also draw the tree as FILE.svg, .png or .pdf, or those of several sentences as "
        f"FILE-1.svg, FILE-2.svg and so on; {TERMINAL} draws them in the terminal instead",
    )
    args = parser.parse_args(argv)
    parser.exclude(args, "sentences", "--input")
    _check_draw(parser, args)
    n_best = args.num_hypotheses is not None
    import_tensorflow()
    from keras_transformer.trees import parse_tree
    from pipelines.cli.models import load_model, translate_in_parts, warn_of_long

    sys.stdout.reconfigure(encoding="utf-8")
    parse = load_model(args, n_best, trees=True)
    sentences = read_text(args)
    warn_of_long(args, sentences)
    trees = translate_in_parts(parse, sentences, args.batch_size)
    for number, text in enumerate(trees, start=1):
        tree = parse_tree(text) if args.draw and text else None  # An empty line has no tree.
        if tree is None or args.draw != TERMINAL:
            print(text if n_best else one_line(text))
        else:
            print_tree(tree)
        if tree is not None and args.draw != TERMINAL:
            from keras_transformer.plots import tree_figure

            _save(tree_figure(tree), _numbered(Path(args.draw), number, len(sentences)))


def _check_draw(parser: Parser, args: argparse.Namespace) -> None:
    """Exit with status 2 if --draw cannot be done."""
    parser.exclude(args, "--draw", "--num-hypotheses")
    if args.draw in (None, TERMINAL):
        return
    if (path := Path(args.draw)).suffix not in SUFFIXES:
        parser.error(f"--draw must end in {', '.join(SUFFIXES)} or be {TERMINAL}, received {path}")
    parser.check_outputs(args, ["--draw"], ["--input"])


def print_tree(tree: "Tree") -> None:
    """Print a tree with its constituents below each other, in color if standard output allows it.

    A constituent of words alone takes one line, and so does a constituent of only one other. Known
    part-of-speech tags follow their words after a slash.

    Args:
        tree: The tree.

    >>> from keras_transformer.trees import parse_tree
    >>> print_tree(parse_tree("(S (NP (DT The) (NN dog)) (VP (VBZ is) (XX asleep)) (. .))"))
    S
    ├── NP  The/DT dog/NN
    ├── VP  is/VBZ asleep
    └── ./.
    """
    from rich.console import Console

    Console(width=_WIDTH).print(_branch(tree))


def _branch(tree: "Tree") -> "Lines":
    from rich.tree import Tree as Lines

    text, below = _line(tree)
    lines = Lines(text, guide_style="dim")
    lines.children.extend(_branch(child) for child in below)
    return lines


def _line(tree: "Tree") -> "tuple[Text, tuple[Tree, ...]]":
    """Return a line, and the trees that are to be below it."""
    from rich.text import Text

    if tree.word is not None:
        return _word(tree), ()
    labels = [tree.label]
    while len(tree.children) == 1 and tree.children[0].word is None:
        (tree,) = tree.children
        labels.append(tree.label)
    text = Text(" ─ ").join(Text(label, "bold blue") for label in labels)
    if any(child.word is None for child in tree.children):
        return text, tree.children
    return text.append("  ").append_text(Text(" ").join(map(_word, tree.children))), ()


def _word(leaf: "Tree") -> "Text":
    from rich.text import Text

    from keras_transformer.trees import UNKNOWN_TAG

    text = Text(leaf.word or "")
    return text if leaf.label == UNKNOWN_TAG else text.append(f"/{leaf.label}", "dim")


def _numbered(path: Path, number: int, count: int) -> Path:
    """Return the path of one of several figures, or the path itself for a single one.

    >>> _numbered(Path("tree.svg"), 7, 12)
    PosixPath('tree-07.svg')
    """
    if count == 1:
        return path
    return path.with_stem(f"{path.stem}-{number:0{len(str(count))}}")


def _save(figure, path: Path) -> None:
    """Save a figure, and say in a line if its font lacks characters."""
    from keras_transformer.plots import save_figure
    from keras_transformer.plots.style import glyphs_lacking

    with glyphs_lacking() as lacking:
        save_figure(figure, path)
    if lacking:
        print(
            f"{path} has boxes for characters that matplotlib's font lacks; an .svg shows them.",
            file=sys.stderr,
        )


if __name__ == "__main__":
    main()
