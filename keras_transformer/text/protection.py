r"""Spans of a text that a translation keeps, and terms that it uses, found inside a graph.

The regular expressions are RE2's, which has no lookaround. Instead, one expression matches a span
or what must not precede one, such as a word, so that a text is scanned from left to right.
"""

import re
from collections.abc import Mapping

import tensorflow as tf

from keras_transformer.config.data import PATTERN_PREFIX
from keras_transformer.config.decoding import ALL_KINDS
from keras_transformer.text.patterns import PATTERNS

# Unicode's characters for internal use, which are in no text.
OPEN, CLOSE, _TERM, _WORD, _WORD_END, _PAIRED, _MARK, _PLACE = map(chr, range(0xFDD0, 0xFDD8))
_INTERNAL = r"[\x{FDD0}-\x{FDEF}]"
_NEVER = r"\x{FDEF}"

_LETTERS = r"[\pL\pM\pN_]"
_NOT_AFTER = r"(?<![\d%])", r"(?<![\w$])"
_NO_SPAN = rf"{_LETTERS}*[0-9]%|{_LETTERS}+[-/]?"
"""What is no span, nor a part of one: in 100%der, and/or and well-known."""
_BLANK = r"[\s\pZ]"
_EDGE = rf"(?:{_BLANK}|\\[nrt])*"
_PATH = r"(?:^|[^\pL\pM\pN_])[A-Za-z]:(?:\\[nrt])*\\(?:[^\Wnrt]|[nrt.-][\w.-])[\w.\\-]*\w"
"""A path with a directory, whose end may look like a break: C:\\data\\n, but not A:\\n."""


def _without(pattern: str, *lookarounds: str) -> str:
    for each in lookarounds:
        pattern = pattern.replace(each, "")
    return pattern


# At each position, the first that matches counts.
_SPANS = {
    "urls": PATTERNS["urls"],
    "emails": r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+",
    "paths": r"[A-Za-z]:\\[\w.\\-]*\w|(?:~|\.\.?)?(?:/[\w.@+-]*\w)+/?",
    "html": PATTERNS["html"].replace(">(?=[^<>]*</)", rf"\x{{{ord(_PAIRED):X}}}>"),
    "variables": _without(PATTERNS["variables"], *_NOT_AFTER),
    "python": PATTERNS["python"],
    "icu": PATTERNS["icu"],
    "printf": _without(PATTERNS["printf"], *_NOT_AFTER),
    "qt": r"%(?:L?[1-9][0-9]?|n\b)",
    "options": r"--[A-Za-z](?:[\w-]*\w)?|-[A-Za-z]\b",
    "breaks": r"\\[nrt]|[ \t\r]*\n\s*|\t+",
    "numbers": r"[0-9]+(?:[.,:][0-9]+)*",
}

_LONGEST_TERM = 400

_SIGNS = "&_~"
_ACCELERATORS = (
    (rf"{_WORD}_(\pL[\pL\pM\pN]*{_WORD_END})", rf"{_WORD}{_MARK}_\1"),
    (rf"{_WORD}(\p{{Lu}}\pL{{0,5}})_(\pL+{_WORD_END})", rf"{_WORD}\1{_MARK}_\2"),
    (rf"(^|[^&A-Z{_WORD_END}]|[^A-Z]{_WORD_END})&({_WORD}\pL)", rf"\1{_MARK}&\2"),
    (rf"({_WORD}[A-Z]{_WORD_END})&({_WORD}[a-z])", rf"\1{_MARK}&\2"),
    (rf"(^|[^~])~({_WORD}\pL)", rf"\1{_MARK}~\2"),
)
"""_File, E_xit, &Open and ~Close among marked words, as in `text.patterns`."""


class Protection:
    """Splits texts into what is translated and what is kept.

    Args:
        protect: What `DecodingConfig.protect` names. Its regular expressions apply to every text of
            which something is protected.

    Raises:
        ValueError: If RE2 does not accept a regular expression.

    >>> spans = Protection()
    >>> pieces, _ = spans.split(["Copied %s to <b>{0}</b>."], ["printf icu"], [""])
    >>> [piece.decode() for piece in pieces[0].numpy()]
    ['Copied ', '%s', ' to <b>', '{0}', '</b>.']
    >>> pieces, is_term = spans.split(["Old invoices"], [""], ["invoice*\\tRechnung"])
    >>> [piece.decode() for piece in pieces[0].numpy()], is_term.numpy().tolist()
    (['Old ', 'Rechnung', ''], [False, True, False])
    """

    def __init__(self, protect: str = ""):
        given = protect.replace(",", " ").split()
        own = [x.removeprefix(PATTERN_PREFIX) for x in given if x.startswith(PATTERN_PREFIX)]
        for pattern in own:
            try:
                tf.strings.regex_replace("", pattern, "").numpy()
            except tf.errors.InvalidArgumentError as error:
                raise ValueError(
                    f"protect must have regular expressions of RE2, received {pattern!r}: "
                    f"{error.message}. Write it without lookaround and backreferences."
                ) from error
        self._own = "".join(f"|(?:{pattern})" for pattern in own)

    def split(
        self, text: tf.Tensor, protect: tf.Tensor, terms: tf.Tensor
    ) -> tuple[tf.RaggedTensor, tf.Tensor]:
        """Split texts at their spans and terms.

        Args:
            text: string [B].
            protect: string [B], the names of kinds of spans, as in `DecodingConfig.protect`.
            terms: string [B], lines of source, tab and target. A source is whole words in any case;
                a * at its end stands for any letters. The longest comes first.

        Returns:
            The pieces of each text, string [B, None]: text, span, text and so on, with text at both
            ends, which may be empty. A term is replaced by its target. And which of all pieces are
            such targets, bool [N].
        """
        text, terms = (clean(tf.convert_to_tensor(each)) for each in (text, terms))
        marked = self._mark_spans(text, tf.convert_to_tensor(protect))
        marked = tf.cond(
            tf.reduce_all(terms == ""), lambda: marked, lambda: _mark_terms(marked, terms)
        )
        pieces = split_marked(marked)
        is_term = tf.strings.regex_full_match(pieces.values, f"(?s){_TERM}.*")
        return pieces.with_values(tf.strings.regex_replace(pieces.values, _TERM, "")), is_term

    def _mark_spans(self, text, protect):
        is_on = [is_named(name, protect)[:, tf.newaxis] for name in _SPANS]
        alternatives = tf.constant([f"|{pattern}" for pattern in _SPANS.values()])
        alternatives = tf.where(tf.concat(is_on, axis=1), alternatives, "")
        spans = tf.strings.reduce_join(alternatives, axis=1)
        is_any = tf.strings.regex_full_match(protect, r"(?s).*[^\s,].*")
        spans = tf.strings.join([tf.where(is_any, self._own, ""), spans])
        # A tag is a pair's if a closing one follows.
        pair = r"(<[A-Za-z][\w:.-]*)(>[^<>]*</)"
        paired = tf.strings.regex_replace(text, pattern=pair, rewrite=rf"\1{_PAIRED}\2")

        def mark(spans, marked, is_its):
            before = rf"({_LETTERS}*[0-9])(%%)"
            pattern = tf.strings.join(["(?:", before, "|(", _NEVER, spans, f")|({_NO_SPAN}))"])
            found = tf.strings.regex_replace(paired, pattern, rf"\1{OPEN}\2\3{CLOSE}\4")
            return tf.where(is_its & (spans != ""), found, marked)

        marked = _for_each(spans, mark, text)
        return tf.strings.regex_replace(marked, f"{OPEN}{CLOSE}|{_PAIRED}", "")


def is_named(kind: str, protect: tf.Tensor) -> tf.Tensor:
    """Return whether a kind is among the names of `DecodingConfig.protect` [B], bool [B]."""
    names = kind if kind in ("numbers", "accelerators") else f"{kind}|{ALL_KINDS}"
    return tf.strings.regex_full_match(protect, rf"(?s)(?:.*[\s,])?(?:{names})(?:[\s,].*)?")


def write_terms(terms: Mapping[str, str]) -> str:
    r"""Return terms as `Protection.split` reads them, one a line.

    Args:
        terms: Targets by source.

    Raises:
        ValueError: If a source has no letter, a target no text, or one of both more than a line.

    >>> write_terms({"invoice*": "Rechnung", "note": "Notiz"})
    'invoice*\tRechnung\nnote\tNotiz'
    """
    lines = [f"{source.strip()}\t{target.strip()}" for source, target in terms.items()]
    wrong = [
        line
        for line in lines
        if not re.fullmatch(r"[^\t\r\n]*\w[^\t\r\n]*\t[^\t\r\n]+", line)
        or len(line.encode("utf-8", "surrogatepass")) > _LONGEST_TERM
    ]
    if wrong:
        raise ValueError(
            "terms must have a source with a letter and a target in one line of at most "
            f"{_LONGEST_TERM} bytes, received {', '.join(map(repr, wrong[:3]))}. Change or remove "
            f"{'it' if len(wrong) == 1 else 'these'}."
        )
    return "\n".join(lines)


def clean(text):
    """Return valid UTF-8 without characters for internal use."""
    text = tf.strings.unicode_transcode(text, "UTF-8", "UTF-8")
    return tf.strings.regex_replace(text, _INTERNAL, "\ufffd")


def split_marked(marked: tf.Tensor) -> tf.RaggedTensor:
    """Return the pieces of texts [B], every other of which is between `OPEN` and `CLOSE`."""
    return tf.strings.split(tf.strings.regex_replace(marked, CLOSE, OPEN), sep=OPEN)


def _for_each(values, function, start):
    """Return `function(value, result, is_its)` after all distinct values [B], from `start` on."""
    distinct, index = tf.unique(values)
    return tf.while_loop(
        lambda i, result: i < tf.size(distinct),
        lambda i, result: (i + 1, function(distinct[i], result, index == i)),
        (0, start),
    )[1]


def _mark_words(text):
    return tf.strings.regex_replace(text, f"({_LETTERS}+)", rf"{_WORD}\1{_WORD_END}")


def _mark_terms(marked, terms):
    """Return marked texts [B] with the targets of terms, marked, instead of their sources."""
    pieces = split_marked(marked)
    is_span = is_odd(pieces)
    values = tf.where(
        is_span,
        tf.strings.join([OPEN, pieces.values, CLOSE]),
        _mark_words(pieces.values),
    )
    marked = join(pieces.with_values(values))

    def mark_all(glossary, marked, is_its):
        lines = tf.strings.split(glossary, sep="\n")
        usable = rf"[^\t]*{_LETTERS}[^\t]*\t[^\t\r]*[^\s][^\t\r]*\r?"
        is_usable = tf.strings.regex_full_match(lines, usable)
        lines = tf.boolean_mask(lines, is_usable & (tf.strings.length(lines) <= _LONGEST_TERM))
        sources, targets = (
            tf.strings.strip(tf.strings.regex_replace(lines, r"^([^\t]*)\t(.*)$", group))
            for group in (r"\1", r"\2")
        )
        order = tf.argsort(tf.strings.length(sources), direction="DESCENDING", stable=True)
        patterns = _term_patterns(tf.gather(sources, order))
        targets = tf.strings.regex_replace(tf.gather(targets, order), r"\\", r"\\\\")
        rewrites = tf.strings.join([OPEN, _TERM, targets, CLOSE])

        def mark(i, marked):
            found = tf.strings.regex_replace(marked, patterns[i], rewrites[i])
            return i + 1, tf.where(is_its, found, marked)

        return tf.while_loop(lambda i, marked: i < tf.size(patterns), mark, (0, marked))[1]

    marked = _for_each(terms, mark_all, marked)
    return tf.strings.regex_replace(marked, f"[{_WORD}{_WORD_END}]", "")


def _term_patterns(sources):
    """Return the expression that finds each source [N] in texts with marked words."""
    is_open = tf.strings.regex_full_match(sources, r".*\*")
    sources = tf.strings.regex_replace(sources, r"\s*\*+$", "")
    sources = tf.strings.regex_replace(sources, r"([\\.+*?()|\[\]{}^$])", r"\\\1")
    words = tf.strings.regex_replace(_mark_words(sources), rf"{_BLANK}+", r"[\\s\\pZ]+")
    endings = tf.strings.regex_replace(words, f"{_WORD_END}$", rf"[\\pL\\pM]*{_WORD_END}")
    return tf.strings.join(["(?i)", tf.where(is_open, endings, words)])


def is_odd(pieces: tf.RaggedTensor) -> tf.Tensor:
    """Return which of all pieces [N] have an odd place in their row: the spans."""
    places = tf.range(tf.size(pieces.values, tf.int64))
    return (places - tf.gather(pieces.row_starts(), pieces.value_rowids())) % 2 == 1


def join(pieces: tf.RaggedTensor) -> tf.Tensor:
    """Return the texts [B] of pieces [B, None]."""
    return tf.strings.reduce_join(pieces.to_tensor(""), axis=1)


def place_accelerators(source: tf.RaggedTensor, output: tf.RaggedTensor) -> tf.Tensor:
    """Return translations with the accelerators of their sources.

    If a source has exactly one, its translation has it at its own first one, or else before the
    first word that begins with a letter. Other translations stay as they are.

    Args:
        source: string [B, None], the pieces of sources as `Protection.split` returns them.
        output: string [B, None], the pieces of translations.

    >>> source, output = (tf.ragged.constant([[text]]) for text in ("Save _as", "Speichern als"))
    >>> place_accelerators(source, output).numpy()[0].decode()
    '_Speichern als'
    """
    text, marked = _mark_accelerators(source), _mark_accelerators(output)
    no_mark = f"[^{_MARK}]*"
    is_one = tf.strings.regex_full_match(text, f"{no_mark}{_MARK}{no_mark}")
    before = f"(?:{OPEN}[^{CLOSE}]*{CLOSE}|[^{OPEN}])*?{_WORD}"
    word = rf"\pL[\pL\pM\pN]*{_WORD_END}"
    placed = tf.where(
        tf.strings.regex_full_match(marked, no_mark),
        tf.strings.regex_replace(marked, f"^({before})({word})", rf"\1{_PLACE}\2"),
        tf.strings.regex_replace(marked, f"{_MARK}.", _PLACE, replace_global=False),
    )
    placed = tf.strings.regex_replace(placed, f"{_MARK}.", "")
    for sign in _SIGNS:
        is_its = tf.strings.regex_full_match(text, f"{no_mark}{_MARK}{sign}{no_mark}")
        placed = tf.where(is_its, tf.strings.regex_replace(placed, _PLACE, sign), placed)
    placed = tf.strings.regex_replace(placed, f"[{OPEN}{CLOSE}{_WORD}{_WORD_END}]", "")
    return tf.where(is_one, placed, join(output))


def _mark_accelerators(pieces):
    """Return texts [B] with marks for spans, words and accelerators."""
    text = _mark_words(pieces.values)
    for pattern, rewrite in _ACCELERATORS:
        text = tf.strings.regex_replace(text, pattern, rewrite)
    spans = tf.strings.join([OPEN, pieces.values, CLOSE])
    return join(pieces.with_values(tf.where(is_odd(pieces), spans, text)))


def in_capitals(pieces: tf.RaggedTensor) -> tf.Tensor:
    """Return which texts have a word of four capitals or more, and no lowercase letter, bool [B].

    Args:
        pieces: string [B, None], as `Protection.split` returns them; spans don't count.
    """
    text = join(pieces.with_values(tf.where(is_odd(pieces), " ", pieces.values)))
    return tf.strings.regex_full_match(text, r"(?s)\P{Ll}*\p{Lu}{4}\P{Ll}*")


def lower(pieces: tf.RaggedTensor) -> tf.RaggedTensor:
    """Return pieces in lowercase, apart from spans and a first letter.

    >>> spans = Protection().split(["NOT %S: FILE <br>"], ["printf html"], [""])[0]
    >>> join(lower(spans)).numpy()[0].decode()
    'Not %S: file <br>'
    """
    values = pieces.values
    start = tf.strings.regex_replace(values, r"(?s)^(\PL*\pL)?.*$", r"\1")
    places = tf.range(tf.size(values, tf.int64))
    is_first = places == tf.gather(pieces.row_starts(), pieces.value_rowids())
    start = tf.where(is_first, start, "")
    rest = tf.strings.substr(values, tf.strings.length(start), tf.strings.length(values))
    lowercase = tf.strings.join([start, tf.strings.lower(rest, "utf-8")])
    return pieces.with_values(tf.where(is_odd(pieces), values, lowercase))


def upper(pieces: tf.RaggedTensor) -> tf.RaggedTensor:
    """Return pieces in uppercase, apart from spans."""
    capitals = tf.strings.upper(pieces.values, "utf-8")
    return pieces.with_values(tf.where(is_odd(pieces), pieces.values, capitals))


def cut_edges(text: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    r"""Return the white space and breaks before texts [B], the texts between, and those after.

    >>> [part.numpy()[0].decode() for part in cut_edges(tf.constant([r" a b\n "]))]
    [' ', 'a b', '\\n ']
    >>> [part.numpy()[0].decode() for part in cut_edges(tf.constant([r"in C:\data\new\t "]))]
    ['', 'in C:\\data\\new\\t', ' ']
    """
    before = tf.strings.regex_replace(text, rf"(?s)^({_EDGE}).*$", r"\1")
    rest = tf.strings.substr(text, tf.strings.length(before), tf.strings.length(text))
    middle = tf.strings.regex_replace(rest, f"({_PATH})?{_EDGE}$", r"\1")
    after = tf.strings.substr(rest, tf.strings.length(middle), tf.strings.length(rest))
    return before, middle, after
