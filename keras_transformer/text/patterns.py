r"""Placeholders, markup and URLs in text: what a translation copies instead of translating.

The patterns have no capturing groups, so `"|".join` combines them.
"""

import functools
import re
import unicodedata

_HTML_NAMES = (
    "a|abbr|acronym|address|area|article|aside|audio|b|base|bdi|bdo|big|blockquote|body|br|BR|button|"
    "canvas|caption|center|cite|code|col|colgroup|data|datalist|dd|del|details|dfn|dialog|div|dl|dt|"
    "em|embed|emph|fieldset|figcaption|figure|font|footer|form|h[1-6]|head|header|hgroup|hr|HR|html|"
    "i|iframe|img|input|ins|kbd|label|legend|li|link|main|map|mark|math|menu|meta|meter|nav|noscript|"
    "object|ol|optgroup|option|output|p|picture|pre|progress|q|qt|rp|rt|ruby|s|samp|script|search|"
    "section|select|slot|small|source|span|strike|strong|style|sub|summary|sup|svg|table|tbody|td|"
    "template|textarea|tfoot|th|thead|time|title|tr|track|tt|u|ul|var|variable|video|wbr"
)
_BLANK = r"[ \t-\r]"
# Also @click.stop of Vue, [(ngModel)] and *ngIf of Angular; as in HTML, a > may be quoted.
_WITH_VALUE = (
    r"[A-Za-z_@*#:.\[(][A-Za-z0-9_@*#:.\[\]()$-]*"
    rf"{_BLANK}*={_BLANK}*"
    r"""\\?(?:"[^"<]*"|'[^'<]*'|[^ \t-\r"'<>=][^ \t-\r"'<>]*)"""
)
# Other words may be text: in "x<y and z>w", there is no tag.
_WITHOUT_VALUE = (
    r"(?:allowfullscreen|async|autofocus|autoplay|checked|compact|controls|default|defer|disabled|"
    r"download|formnovalidate|hidden|inert|ismap|itemscope|loop|multiple|muted|nomodule|noshade|"
    r"novalidate|nowrap|open|playsinline|popover|readonly|required|reversed|selected|"
    r"(?:aria|data|ng|v|x|_ng[a-z]+)-[A-Za-z0-9_:.-]+|[@#*][A-Za-z][A-Za-z0-9_:.-]*)"
)
_ATTRIBUTES = rf"(?:{_BLANK}+(?:{_WITH_VALUE}|{_WITHOUT_VALUE}))"
_FIELD = r"[A-Za-z_]\w*(?:\.\w+|\[\w+\])*"
_LETTER = r"[^\W\d_]"
_CONVERSION = r"(?:hh|h|ll|l|L|q|j|z|t|I64|w)?[diouxXeEfFgGaAcCsSp]"

PATTERNS: dict[str, str] = {
    # %s, %1$d, %-5.2f, %*d, %lu, %%; no space as a flag, and no digit before: in "100 %der" and
    # "100%ige", the sign is a percent sign.
    "printf": (
        r"(?<![\d%])%(?:\d{1,2}\$)?[-+#0']{0,5}(?:\d{1,4}|\*(?:\d{1,2}\$)?)?(?:\.(?:\d{1,4}|\*))?"
        + _CONVERSION
        + "|%%"
    ),
    # {}, {0}, {name!r:>10}, {0:.2f} and %(name)s.
    "python": (
        rf"\{{(?:{_FIELD}|\d*)(?:![rsa])?(?::[^{{}}\s]*)?\}}"
        r"|%\([^()\s]+\)[-+#0]{0,5}\d{0,4}(?:\.\d{1,4})?[diouxXeEfFgGcrsa]"
    ),
    # {name}, {0, number, integer}, and the head of {count, plural, ...}, whose cases are text.
    "icu": (
        r"\{\s*\w+\s*,\s*(?:plural|selectordinal|select)\s*,"
        r"|\{\s*\w+\s*,\s*(?:number|date|time|spellout|ordinal|duration)\s*(?:,[^{}]*)?\}"
        r"|\{(?:[A-Za-z_]\w*|\d+)\}"
    ),
    # %1, %L1 and %n.
    "qt": rf"(?<![\d%])%(?:L?[1-9]\d?(?!\d|\$|(?:\.\d+)?{_CONVERSION})|n(?![a-z]))",
    # ${name}, $(name), %{name}, $name and %NAME; {{name}}, {% if name %} and {# note #}.
    "variables": (
        r"\{\{\{?[^{}\n]*\}?\}\}|\{%[^{}\n]*%\}|\{#[^{}\n]*#\}"
        r"|[$%]\{[\w.:-]+\}|\$\([\w.:-]+\)|(?<![\w$])\$[A-Za-z_]\w+|(?<![\d%])%[A-Z][A-Z0-9_]{3,}%?"
    ),
    # Opening tags are those of HTML, have attributes, or come before a closing tag: <file> alone
    # is a name to translate. <0> and </0> are React's.
    "html": (
        rf"</[A-Za-z][\w:.-]*\s*>|<[A-Za-z][\w:.-]*(?:{_ATTRIBUTES}+{_BLANK}*/?|\s*/)>"
        r"|</?[0-9]+>|<[0-9]+\s*/>"
        rf"|<(?:{_HTML_NAMES}){_BLANK}*>|<[A-Za-z][\w:.-]*>(?=[^<>]*</)"
        r"|&(?:[A-Za-z][A-Za-z0-9]+|#\d+|#x[0-9A-Fa-f]+);"
    ),
    "urls": r"""(?:https?|ftp)://[^\s<>"'\\|^`{}()\[\]]*[\w/]|\bwww\.[\w-]+\.[\w./-]*[\w/]""",
    # _File, E_xit, &Open and ~Close, but no AT&T, no file_name, no &amp; and no &&.
    "accelerators": (
        r"(?<!\w)_(?=[^\W\d_])(?![^\W_]*_)"
        + "".join(rf"|(?<=\b[A-ZÄÖÜ]{_LETTER * n})_(?={_LETTER}+\b)" for n in range(6))
        + r"|(?<![A-Z&])&(?=[^\W\d_])(?!\w+;)|(?<=\b[A-Z])&(?=[a-z])(?!\w+;)"
        r"|(?<!~)~(?=[^\W\d_])"
    ),
}
"""Patterns by name."""

PLACEHOLDERS = ("printf", "python", "icu", "qt", "variables")
"""The names of the patterns of what a program replaces."""


@functools.cache
def mark_ranges() -> str:
    r"""Return the vowel signs, tones and accents that `\w` of `re` lacks, for a class in brackets.

    >>> re.findall(rf"[\w{mark_ranges()}]+", "हिन्दी, ไทย!")
    ['हिन्दी', 'ไทย']
    """
    characters = filter(
        lambda each: unicodedata.category(each) in ("Mn", "Mc"), map(chr, range(0x20000))
    )
    # Variation selectors belong to signs, such as emoji.
    marks = "".join(characters).translate(dict.fromkeys(range(0xFE00, 0xFE10)))
    ranges: list[str] = []
    for mark in marks:
        if ranges and ord(mark) == ord(ranges[-1][-1]) + 1:
            ranges[-1] = f"{ranges[-1][0]}-{mark}"
        else:
            ranges.append(mark)
    return "".join(ranges)


def find_symbols(text: str, *names: str) -> list[str]:
    """Return what some patterns find in a text, from left to right.

    Args:
        text: The text.
        names: Names of `PATTERNS`; at each position, the first that matches counts.

    >>> find_symbols("Copied %1$d of %s to <b>{name}</b>, 100% done.", "printf", "icu", "html")
    ['%1$d', '%s', '<b>', '{name}', '</b>']
    >>> find_symbols("See https://keras.io/api.", "urls")
    ['https://keras.io/api']
    """
    return re.findall("|".join(PATTERNS[name] for name in names), text)
