"""Files of each kind: what a translation changes in them, and what it does not."""

import asyncio
import io
import json
import random
import re
import zipfile
from html.parser import HTMLParser
from xml.dom import minidom

import pytest
import tensorflow as tf

from keras_transformer.documents import word
from keras_transformer.documents.files import KEPT, check_suffix, translate_file
from keras_transformer.documents.markdown import from_tags, hide, show, to_tags
from keras_transformer.documents.messages import read_message, write_message
from keras_transformer.serving.errors import ServingError
from keras_transformer.serving.files import File, Files
from keras_transformer.text.patterns import find_symbols
from keras_transformer.text.protection import Protection
from keras_transformer.text.sentences import split_sentences
from tests.helpers.tiny import run_python

PO = r"""# A header.
msgid ""
msgstr ""
"Content-Type: text/plain; charset=UTF-8\n"
"Plural-Forms: nplurals=3; plural=(n > 2);\n"

# A note.
#. extracted
#: src/a.c:10
#, c-format
msgid "Copied %s files. Done."
msgstr ""

#: src/a.c:20
msgid "%d file"
msgid_plural "%d files"
msgstr[0] ""
msgstr[1] ""
msgstr[2] ""

msgctxt "menu"
msgid "Open"
msgstr "Auf"

#~ msgid "Obsolete"
#~ msgstr "Alt"
"""
XLIFF = """<?xml version="1.0" encoding="UTF-8"?>
<xliff xmlns="urn:oasis:names:tc:xliff:document:1.1" version="1.1">
  <file original="x" source-language="en" target-language="de" datatype="plaintext">
    <body>
      <trans-unit id="1">
        <note>A note.</note>
        <source>Plain &amp; simple.</source>
      </trans-unit>
      <trans-unit id="2">
        <source>Some <g id="1">bold</g> text.</source>
      </trans-unit>
    </body>
  </file>
</xliff>
"""
XLIFF_2 = """<?xml version="1.0" encoding="UTF-8"?>
<xliff xmlns="urn:oasis:names:tc:xliff:document:2.0" version="2.0" srcLang="en" trgLang="de">
  <file id="f1">
    <unit id="1">
      <segment><source>Plain &amp; simple.</source></segment>
      <ignorable><source> </source></ignorable>
      <segment><source>Some <pc id="1">bold</pc> text.</source></segment>
    </unit>
  </file>
</xliff>
"""
MARKDOWN = """---
title: A page
---

# Heading with `code`

A paragraph with **bold** and [a link](https://x.org). Two sentences.

* item one
  1. nested

```python
print("code")
```

| a        | b   |
| -------- | --- |
| one cell | two |

> A quote.
"""
HTML = """<!DOCTYPE html>
<html lang="en">
<head><title>A title</title><style>p { color: red; }</style><script>var x = "no";</script></head>
<body>
<!-- A note. -->
<h1 class="x">Heading &amp; more</h1>
<p>First sentence. <b>Second</b> sentence.</p>
<img src="a.png" alt="A picture">
</body>
</html>
"""
CUE = "Hello there.\nHow are you?\n"
FILES = {
    ".txt": ("\ufeffSome text. More text.\r\n\r\n  Last\n", "More"),
    ".po": (PO, "Copied"),
    ".xliff": (XLIFF, "Plain"),
    ".md": (MARKDOWN, "item"),
    ".html": (HTML, "Heading"),
    ".json": (json.dumps({"a": "Hello", "b": {"c": "A {name}"}, "n": 5}, indent=4) + "\n", "Hello"),
    ".arb": (json.dumps({"hello": "Hello", "@hello": {"type": "x"}}, indent=2) + "\n", "Hello"),
    ".properties": ("# A note.\nkey.one=Hello world\nkey.two=A {0} file\n", "Hello"),
    ".srt": (f"1\n00:00:01,000 --> 00:00:02,500\n{CUE}\n", "How"),
    ".vtt": (f"WEBVTT\n\n00:01.000 --> 00:02.500\n{CUE}", "How"),
}
INLINE = [
    "**bold** and *it* or __x__ and _y_, but 2 * 3 * 4, snake_case_name, \\*no\\* and `**code**`.",
    'A [link *with* x](https://x.org/a_b_c "A title"), ![an image](i.png) and [one][ref].',
    '[![CI](ci.svg)](LICENSE), [x](docs/a_(b).md) and [y](b?x=&quot;y&quot;&c="d")',
    "**[a](b)** *a **b** c* <b>html *x*</b> [ ] [x] [*](y) ** _ *",
    "[a [b] c](d.md), [e](f){.g}, [h [i]][ref], [j [k](l) m](n), [[o]] and [p]{.q}",
]


@pytest.mark.parametrize("text", INLINE)
def test_marks_of_markdown_come_back(text):
    assert from_tags(to_tags(text)) == text
    assert "**" not in to_tags(INLINE[0]).replace("`**code**`", "")
    assert len(find_symbols(to_tags(text), "html")) == len(re.findall("</?[A-Za-z]", to_tags(text)))


def translated(folder, suffix, content, translate, **options):
    path = folder / f"file{suffix}"
    path.write_bytes(content.encode())
    found, failures = read_and_translate(path, translate, **options)
    return found.decode(), failures


def read_and_translate(path, translate, **options):
    output = io.BytesIO()
    failures = translate_file(path, output, translate, **options)
    return output.getvalue(), failures


@pytest.mark.parametrize("suffix", FILES)
def test_what_is_not_text_stays(suffix, tmp_path):
    content, word = FILES[suffix]
    same, _ = translated(tmp_path, suffix, content, lambda texts: texts)
    if suffix == ".po":  # Entries are filled in, and marked.
        lines = [line for line in same.splitlines() if not line.startswith(("msgstr", "#, "))]
        expected = [x for x in content.splitlines() if not x.startswith(("msgstr", "#, "))]
        assert lines == expected
    elif suffix == ".xliff":
        targets = minidom.parseString(same).getElementsByTagName("target")
        assert [re.sub(" ?(xmlns|state)=.[^ >]*", "", node.toxml()) for node in targets] == [
            "<target>Plain &amp; simple.</target>",
            '<target>Some <g id="1">bold</g> text.</target>',
        ]
    else:
        assert same == content
    changed, _ = translated(
        tmp_path, suffix, content, lambda texts: [x.replace(word, "Ünd") for x in texts]
    )
    new = r"\u00dcnd" if suffix == ".properties" else "Ünd"  # Its source is ASCII.
    assert new in changed
    if suffix != ".po" and suffix != ".xliff":
        assert changed == content.replace(word, new)


@pytest.mark.parametrize(
    ("content", "texts"),
    [
        ("Use &lt;b&gt; &amp; &copy;, &#124;.\n", ["Use &lt;b&gt; &amp; &copy;, &#124;."]),
        (
            "| a \\| b | c   |\n| ------ | --- |\n| `\\|`   | d   |\n",
            [r"a \| b", "c", r"`\|`", "d"],
        ),
        ("- > [!NOTE]\n  > One.\n", ["One."]),
        ('Text:\n\n!!! note "T"\n    One.\n    Two.\n\nEnd\n', ["Text:", "End"]),
        ("\ufeff+++\ntitle = 'One'\n\n+++\n\n[One](x)\n", ["One"]),
        ("\ufeff---\ntitle: One\n---\n\nOne\n", ["One"]),
        (
            "a | b\n---------\n\nUse `c | d`\n---\n\n- e | f\n---\n",
            ["a | b", "Use `c | d`", "e | f"],
        ),
        ("- | a   | b   |\n  | --- | --- |\n  | c   | d   |\n---\n", ["a", "b", "c", "d"]),
        ("> 1. | a   |\n>    | --- |\n\nOne\n\n    a | b\n    --|--\n", ["a", "One"]),
        ("# a | b\n---|---\n", ["a | b", "---|---"]),
        ("> One\n> ===\n> two\n\n- > Three\n  > ===\n", ["One", "two", "Three", "==="]),
        (
            "## One {#one .big}\n\nTwo\n{: .x}\n\n- Three\n{ #y }\nFour\n",
            ["One {#one .big}", "Two", "{: .x}", "Three", "Four"],
        ),
        (
            "One[^1] ~~two~~ <!-- *three* -->.\n\n[^1]: A note.\n[^n]: One\n\n[^x]: Two\n",
            ["One[^1] two <!-- *three* -->.", "A note.", "One", "Two"],
        ),
        ("- [ ] One\n- [x] Two\n  1. [X] **Three**\n", ["One", "Two", "Three"]),
        (
            "See [Manual], [`the` *guide*][], [x] [one][manual].\n\n[manual]: m.md\n"
            "[`The` *guide*]: g.md\n",
            ["See Manual, `the` guide, [x] one."],
        ),
        ("```\n!!! a\n    > [!A]\n> &lt; \\|\n```\n", []),
        ("+++\nt = 1\n+++\n\n    code\n", []),
        ("Text\n$$\na_b = c\n- d\n$$\nmore\n\n$$x = y$$ {#e}\n", ["Text", "more"]),
        ("- > $$\n  > a\n  > ---\n  > $$\n  > One\n- $$\n  b\n  $$\n", ["One"]),
        ("- $$\n- $$\n\n$$\n> $$\n", ["$$"]),
        ("$$\n- ```\n  $$\n  : a\n  ```\n", ["$$"]),
        ("One $$a_b_c$$ *two*.\n", ["One $$a_b_c$$ two."]),
        ("~~~\n$$\na\n$$\n~~~\n\n- ```sh\n  a\n  : b\n  ::: c\n  ```\n", []),
        ("::: warning Title\nOne\n:::\nTwo\n", ["One", "Two"]),
        (
            "One\n:::: {.note}\n\nTwo\n\n::: x\n    :::\n\n\n> ::: y\n> Three\n> :::\n",
            ["One", "Two", "Three"],
        ),
        ('!!! note "T"\n    ::: x\n', []),
        ("- ::: note\n  One\n  :::\n", ["One"]),
        ("<div>\n: a\n::: b\nc\n</div>\n\nOne\n: Two\n", ["One", "Two"]),
        ("<table>\n<tr><td>a\n  : b c\n</td></tr>\n</table>\n", []),
        (
            "One\n:   Two\n: Three\n\n- Four\n\n  :\tFive\n\n      code\n",
            ["One", "Two", "Three", "Four", "Five"],
        ),
    ],
)
def test_escapes_and_notes_of_markdown_stay(content, texts, tmp_path):
    seen = []
    assert translated(tmp_path, ".md", content, lambda x: seen.extend(x) or x) == (content, [])
    windows = content.replace("\n", "\r\n")
    assert translated(tmp_path, ".md", windows, list) == (windows, [])
    assert [re.sub("</?[A-Z][^<>]*>", "", text) for text in seen] == texts
    kept = re.compile(KEPT.partition("re:")[2])
    text = "\\|, `b`, ![c](d_(e).png){w=5}, [^1], <!-- - -->, $$f$$, {#o .big}, { .x }, {:y}, "
    text += '<b translate="no">a b</b>'
    assert kept.findall(f"a {text}, {{n}}") == text.split(", ")
    assert kept.findall("<i class='a notranslate'>b</i> <i data-translate=no>c</i>") == [
        "<i class='a notranslate'>b</i>"
    ]
    Protection(KEPT)  # Its expressions are those of RE2, without blanks.


def test_what_is_hidden_from_the_parser_of_markdown_comes_back():
    choose = random.Random(0)
    parts = [
        "\n",
        "\n\n",
        " ",
        "    ",
        "\t",
        "> ",
        "- ",
        "1. ",
        ":::",
        ":",
        ": a",
        "$$",
        "$",
        "a",
        "`",
    ]
    parts += [
        "```",
        "~~~",
        "[^1]:",
        '!!! note "x"',
        "> [!NOTE]",
        "<div>",
        "|",
        "\n--|--\n",
        "===",
        "\\|",
        "&lt;",
        "{#a}",
    ]
    for _ in range(5000):
        text = "".join(choose.choices(parts, k=choose.randrange(16)))
        assert show(hide(text, notes=True)) == text


def test_brackets_that_are_no_links_of_markdown_get_no_name(tmp_path):
    content = (
        "\\[guide] [![B][b]][guide] [[guide]] array[i]\n\n[guide]: g.md\n[b]: b.svg\n\n"
        "```\n[i]: code\n```\n"
    )
    change = lambda texts: [re.sub("gui(?![^<>]*>)", "Gui", text) for text in texts]  # noqa: E731
    found, _ = translated(tmp_path, ".md", content, change)
    expected = content.replace("\\[gui", "\\[Gui").replace("[[guide]]", "[[Guide][guide]]")
    assert found == expected
    mixed = "One\r\n\nTwo\n\nThree\n"
    assert translated(tmp_path, ".md", mixed, list)[0] == mixed.replace("\r", "")


def test_a_translation_of_markdown_changes_no_structure(tmp_path):
    names = "\n\n[manual]: m.md\n[The  guide]: g.md\n"
    content = f"See [Manual] and [the guide][]. [Manual][]!{names}"
    found, _ = translated(
        tmp_path, ".md", content, lambda x: [y.replace("anual<", "appe<") for y in x]
    )
    assert found == f"See [Mappe][Manual] and [the guide][]. [Mappe][Manual]!{names}"
    for text, expected in {
        "3. Januar": r"3\. Januar",
        "12) x": r"12\) x",
        "# x": r"\# x",
        "- x": r"\- x",
        "+ x": r"\+ x",
        "* x": r"\* x",
        "> x": r"\> x",
        "---": r"\---",
        "3.5 x": "3.5 x",
        "#x **y**": "#x **y**",
        "-x": "-x",
    }.items():
        found, _ = translated(
            tmp_path, ".md", "Intro.\n\n- One\n", lambda x, text=text: [text for _ in x]
        )
        assert found == f"{expected}\n\n- {expected}\n"


def test_pages_keep_their_values_and_encoding(tmp_path):
    page = '<meta charset="iso-8859-1"><p>Caf\u00e9</p><input type="hidden" value="One">'
    path = tmp_path / "page.html"
    path.write_bytes(page.encode("iso-8859-1"))
    found, _ = read_and_translate(path, lambda texts: [f"{x}\u0448" for x in texts])
    assert found == page.replace("</p>", "&#1096;</p>").encode("iso-8859-1")


@pytest.mark.parametrize(
    ("encoding", "expected"),
    [
        ("ascii", r"\u00e9\u0448\ud83d\ude00"),
        ("latin-1", "\xe9" + r"\u0448\ud83d\ude00"),
        ("utf-8", "\xe9\u0448\U0001f600"),
    ],
)
def test_properties_keep_their_encoding(encoding, expected, tmp_path):
    content = "# A note.\na=Caf\xe9\n" if encoding != "ascii" else "a=Cafe\n"
    path, seen = tmp_path / "file.properties", []
    path.write_bytes(content.encode(encoding))
    assert read_and_translate(path, lambda x: seen.extend(x) or x)[0] == content.encode(encoding)
    assert seen == [content.partition("=")[2].strip()]
    found, _ = read_and_translate(path, lambda texts: ["\xe9\u0448\U0001f600" for _ in texts])
    assert found.decode(encoding) == content.replace(seen[0], expected)


def test_properties_in_utf_16_are_refused(tmp_path):
    path = tmp_path / "file.properties"
    path.write_bytes("a=Hello\n".encode("utf-16"))
    with pytest.raises(ValueError, match="it has a byte of 0, as UTF-16 does; convert it to UTF-8"):
        read_and_translate(path, list)


def read_properties(text):
    """Return the keys and values that `java.util.Properties.load` reads, sign by sign."""
    lines, line, place = [], "", 0
    while place < len(text):  # The lines of its LineReader, without comments and line breaks.
        while place < len(text) and text[place] in " \t\f":
            place += 1
        start = place
        while place < len(text) and text[place] not in "\r\n":
            place += 1
        part = text[start:place]
        place += 2 if text[place : place + 2] == "\r\n" else 1
        if not line and part[:1] in ("", "#", "!"):
            continue
        is_continued = (len(part) - len(part.rstrip("\\"))) % 2 == 1
        # A lone backslash goes on with a line that may be no comment.
        line += (part[:-1] or "\0") if is_continued else part
        if not is_continued or place >= len(text):
            lines.append(line.replace("\0", ""))
            line = ""
    found = []
    for line in lines:
        end = 0
        while end < len(line) and line[end] not in "=: \t\f":
            end += 2 if line[end] == "\\" else 1
        start = end
        while start < len(line) and line[start] in " \t\f":
            start += 1
        start += line[start : start + 1] in ("=", ":")
        while start < len(line) and line[start] in " \t\f":
            start += 1
        found.append((line[:end], unescape_java(line[start:])))
    return found


def unescape_java(text):
    units, place = [], 0
    while place < len(text):
        sign, size = text[place], 1
        if sign == "\\":
            sign, size = text[place + 1 : place + 2], 2
            if sign == "u":
                sign, size = chr(int(text[place + 2 : place + 6], 16)), 6
            else:
                sign = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}.get(sign, sign)
        units.append(sign)
        place += size
    return "".join(units).encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")


def test_values_of_properties_are_those_that_java_reads(tmp_path):
    choose = random.Random(0)
    signs = ["a", "b", "=", ":", " ", "\t", "\\", "\\\\", "\n", "\r\n", "\r", "#", "!", "\f", "\\ "]
    signs += [r"\u00e9", r"\uD83D\uDE00", r"\n", "\u0448", "key=", "\\\n ", "\n\n"]
    for _ in range(3000):
        content = "".join(choose.choices(signs, k=choose.randrange(16)))
        assert translated(tmp_path, ".properties", content, list) == (content, [])
        new = "".join(choose.choices([*signs, "\u00e9", "\U0001f600"], k=5))
        values = read_properties(content)
        add = lambda x, new=new: [f"{new}{y}" for y in x]  # noqa: E731
        found, _ = translated(tmp_path, ".properties", content, add)
        expected = [(key, value and new + value) for key, value in values]
        assert read_properties(found) == expected, content


def test_only_values_of_properties_change(tmp_path):
    content = (
        "\ufeff# A note.\r\n\r\n  key : One\r\nlead=\\ of \\\r\n\tit\r\nicon=\\uD83D\\uDE00\r\n\r\n"
        "empty=\r\nsp\tA\r\n! C:\\users\r\n"
    )
    assert translated(tmp_path, ".properties", content, list) == (content, [])
    found, _ = translated(tmp_path, ".properties", content, lambda x: [y.upper() for y in x])
    expected = content.replace("One", "ONE").replace("of \\\r\n\tit", "OF IT")
    assert found == expected
    path = tmp_path / "file.properties"
    path.write_bytes(rb"a=C:\users")
    with pytest.raises(ValueError, match=r"or is damaged: a \\u must have four digits, as in"):
        read_and_translate(path, list)


@pytest.mark.parametrize("page", ["<p>One<p>Two", "<p>One</p><div>Two", "<p>One</p>\n<p>"])
def test_a_page_whose_end_would_be_lost_is_refused(page, tmp_path):
    with pytest.raises(ValueError, match="each element must have its end"):
        translated(tmp_path, ".html", page, list)
    assert translated(tmp_path, ".html", "<p>One</p>\nTwo", list) == ("<p>One</p>\nTwo", [])


ATTRIBUTES = (
    'value="{&quot;id&quot;: 5}" data-x=\'{"a": "&lt;b> &amp;amp; c"}\' onclick="f(&quot;>&quot;)"',
    "value='&quot;&gt;&lt;script&gt;alert(1)&lt;/script&gt;' href=\"?a=1&amp;b=2&c=3\" hidden",
    'alt="5 &lt; 6 &amp; &quot;x&quot;" title="a &amp;lt; b" DATA-y=a=b lang=en @click="x  \n y"',
)
PAGE = '<meta name="description" content="&lt;b&gt; &amp;quot;">\n' + "".join(
    f"<input {x}/><P {x}>One <IMG {x}> <b  {x}>two</b > x\n</P\n><div {x}>three</div>\n".replace(
        "x\n", "x"
    )
    for x in ATTRIBUTES
)


def test_tags_of_pages_stay_byte_for_byte(tmp_path):
    seen = []
    assert translated(tmp_path, ".html", PAGE, lambda x: seen.extend(x) or x) == (PAGE, [])
    in_words = [re.sub("<[^<>]*>", "", text) for text in seen if "</b>" in text]
    assert in_words == 3 * ["One  two x"]  # Each tag ends at its first >.
    upper = lambda texts: [re.sub("(One|two)", "x", text) for text in texts]  # noqa: E731
    assert translated(tmp_path, ".html", PAGE, upper)[0] == re.sub("One|two", "x", PAGE)
    found, _ = translated(tmp_path, ".html", PAGE, lambda x: [f'{y}"<' for y in x])
    assert _Tags(found).tags == [
        (
            tag,
            [
                (name, f'{value}"<')
                if name in ("alt", "title") or (tag == "meta" and name == "content")
                else (name, value)
                for name, value in attributes
            ],
        )
        for tag, attributes in _Tags(PAGE).tags
    ]


class _Tags(HTMLParser):
    """The tags that a browser finds, with their attributes."""

    def __init__(self, page):
        super().__init__()
        self.tags = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, attrs))


HOSTILE = [
    "<script>alert(1)</script>",
    '<a href="https://evil.example">',
    "<a href=x onclick=y>",
    *("</p>", "<b", "<", ">", '"', "'", "&lt;", "&#60;", "&amp", "& ", "<!--", "-->", "<?", "]]>"),
    *('" onclick="x', "<b>", "</b>", '<i title="a &gt; b">', "</i>", "dog", "&amp;", "\n"),
]


@pytest.mark.parametrize("seed", range(30))
def test_a_translation_adds_no_tags_to_a_page(seed, tmp_path):
    choose = random.Random(seed)
    page = '<p title="t">&lt;u> <b>One</b> &amp; <i title="a > b">two</i></p><p>end</p>'
    before = _Tags(page).tags

    def translate(texts):
        return ["".join(choose.choices(HOSTILE, k=choose.randrange(12))) for _ in texts]

    found = _Tags(translated(tmp_path, ".html", page, translate)[0]).tags
    assert [tag for tag in found if tag[0] == "p"][1:] == [("p", [])]
    assert [name for name, _ in found[0][1]] == ["title"]
    for tag in found[1:]:
        assert found.count(tag) <= before.count(tag)


def test_code_and_entities_of_pages_stay(tmp_path):
    page = (
        '<div>One <script>if (a<b && c) x("</b>")</script> two<style>a > b {}</style></div>'
        "<div><script>var x = 'word'</script></div><p>a <?php if ($a->b) echo '<b>'; ?> c</p>"
        "<p>AT&T &foo; &lt;b&gt; &lt;i&gt; \u00e9</p>"
    )
    seen = []
    written = page.replace("&lt;b&gt; &lt;i&gt; \u00e9", "&#60;b&#x3E; &LT;i&gt &eacute;")
    assert translated(tmp_path, ".html", written, lambda x: seen.extend(x) or x) == (page, [])
    assert seen == ["One", "two", "AT&T &foo; &lt;b&gt; &lt;i&gt; \u00e9"]


def test_code_of_pages_stays(tmp_path):
    page = (
        '<p>Run <code class="a">app</code> now.</p><pre>app <span>two</span>\n  three</pre>'
        '<p>Call <code><b class="pre">get item</b></code> in <span><code>x y</code></span>.</p>'
        '<ul><li><code>npm install</code></li><li> <code id="b">one</code>\n</li></ul>'
        "<table><tr><th><code>x</code></th><td><code>y</code> or</td></tr></table>"
        '<p><a href="x"><b><code>git push</code></b></a></p><summary><code>z</code></summary>'
    )
    seen = []
    assert translated(tmp_path, ".html", page, lambda x: seen.extend(x) or x) == (page, [])
    assert seen == [
        'Run <code class="a">app</code> now.',
        'Call <code><b class="pre">get item</b></code> in <span><code>x y</code></span>.',
        "<code>y</code> or",
    ]
    kept = re.compile(KEPT.partition("re:")[2])
    assert [kept.findall(text) for text in seen] == [
        ['<code class="a">app</code>'],
        ['<code><b class="pre">get item</b></code>', "<code>x y</code>"],
        ["<code>y</code>"],
    ]


@pytest.mark.parametrize(
    ("page", "texts"),
    [
        ('<div translate="NO"><div>a</div> b <p title="x">c</p></div><p>One</p>', ["One"]),
        ('<div>One <div class="a notranslate"><div>a</div>b</div> two</div>', ["One", "two"]),
        ("<p>One <b translate=no>a <B>b</B ><script>c<d</script><br> e</b> two</p>", ["One . two"]),
        ('<p><span class="notranslate">a</span> one</p><p><i translate="no">b</i></p>', [". one"]),
        (
            '<p>One <img translate="no" alt="a"> two</p><p translate="no" title="b">c</p>',
            ["One  two"],
        ),
        ('<ul class="notranslate"><li>a</li></ul><p translate="yes">One</p>', ["One"]),
        ("<p>One <i translate=no>&eacute;&#233; &copy b</i></p><pre>&eacute;</pre>", ["One ."]),
        (
            "<p translate=no>&lt;&nbsp;&#x41;</p>&eacute;<p><code>&eacute;</code></p><p>One</p>",
            ["One"],
        ),
        ("<summary>One</summary><fieldset><legend>one</legend></fieldset>", ["One", "one"]),
        ("<p>One <![CDATA[a<b]]> two<![CDATA[]]></p><![CDATA[b]]>", ["One . two"]),
        ("<!-- a --><p><!-- b -->One <!-- c > d --> two<!x><!-- e --></p>", ["One . two"]),
        ("<p>One <!--[if IE]><b>a</b><![endif]--> two <![if b]>x<![endif]></p>", ["One . two .x"]),
        (
            "<p>10\xa0km\u2003or &#8201;5</p>".replace("&#8201;", "\u2009"),
            ["10\xa0km\u2003or \u20095"],
        ),
    ],
)
def test_what_a_page_does_not_show_or_translate_stays(page, texts, tmp_path):
    seen = []
    assert translated(tmp_path, ".html", page, lambda x: seen.extend(x) or x) == (page, [])
    shown = [re.sub('<X id="[0-9]+"/>', ".", text) for text in seen]
    assert [re.sub("<[^<>]*>", "", text) for text in shown] == texts
    found, _ = translated(tmp_path, ".html", page, lambda x: [y.replace("ne", "NE") for y in x])
    assert found == page.replace("One", "ONE").replace("one", "oNE")


def test_only_what_is_missing_is_filled_in(tmp_path):
    upper = lambda texts: [text.upper() for text in texts]  # noqa: E731
    some = PO.replace('msgstr[0] ""', 'msgstr[0] "Eine"')
    found, _ = translated(tmp_path, ".po", some, upper, only_missing=True)
    assert 'msgstr[0] "Eine"\nmsgstr[1] "%D FILES"\nmsgstr[2] "%D FILES"' in found
    source = '<source>Some <g id="1">bold</g> text.</source>'
    done = XLIFF.replace(source, f'{source}<target><x id="1"/></target>')
    seen = []
    translated(tmp_path, ".xliff", done, lambda x: seen.extend(x) or x, only_missing=True)
    assert seen == ["Plain & simple."]
    inside = source.replace("bold", '&lt;svg xmlns="a"&gt;')
    translated(tmp_path, ".xliff", XLIFF.replace(source, inside), lambda x: seen.extend(x) or x)
    assert seen[-1] == 'Some <g id="1">&lt;svg xmlns="a"&gt;</g> text.'


def test_only_strings_of_json_change(tmp_path):
    content = """{"a":{}, "b":[],\t"c": ["x",{}, "y", [], 3, null], "e": "", "f\\"" : 1e3,
    "x{": "\\u0041 {", "d":"One dog", "d":"One dog"}\r\n"""
    found, failures = translated(tmp_path, ".json", content, lambda x: [f'"{y}"' for y in x])
    expected = content.replace("One dog", r"\"One dog\"").replace(r"\u0041 {", r"\"A {\"")
    assert (found, failures) == (
        expected.replace('"x",', r'"\"x\"",').replace('"y"', r'"\"y\""'),
        [],
    )
    assert translated(tmp_path, ".json", content, list) == (content, [])
    assert translated(tmp_path, ".json", '\ufeff["a", "b"]', lambda x: [*map(str.upper, x)]) == (
        '\ufeff["A", "B"]',
        [],
    )
    assert translated(tmp_path, ".json", '"a"', lambda x: [*map(str.upper, x)]) == ('"A"', [])
    messages = """{"@@x": "a", "one": "a", "@one": {"description": "a", "b": ["a"]},
    "@no": {"type": "a"}, "two": "a"}"""
    upper, _ = translated(tmp_path, ".arb", messages, lambda x: [*map(str.upper, x)])
    assert upper == messages.replace('"one": "a"', '"one": "A"').replace('o": "a"', 'o": "A"')


VTT = """WEBVTT - A title

STYLE
::cue { color: yellow; }

NOTE Some

intro
00:00:01.000 --> 100:00:04.000 position:10%,line-left align:left
<v Anna>Some.</v>

2
00:05.000\t-->\t00:07.000 line:0

00:08.000 --> 00:09.000
Some,
<c.red>some</c>
"""
SRT = """1
00:00:01,000 --> 00:00:04,000  X1:100 X2:200
Some.
42

more
2
00:00:05,000 --> 00:00:07,000
3
100:00:05,000 --> 100:00:06,000 align:start
{\\an8}Some --> 1"""


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize(
    ("suffix", "content", "texts"),
    [
        (".vtt", VTT, ["<v Anna>Some.</v>", "Some,\n<c.red>some</c>"]),
        (".srt", SRT, ["Some.\n42", "more", r"{\an8}Some --> 1"]),
    ],
)
def test_only_the_text_of_cues_changes(suffix, content, texts, end, tmp_path):
    content, seen = "\ufeff" + content.replace("\n", end), []
    assert translated(tmp_path, suffix, content, lambda x: seen.extend(x) or x) == (content, [])
    assert seen == texts
    found, _ = translated(tmp_path, suffix, content, lambda x: [f"{y}\n\n!" for y in x])
    for text in texts:
        text = text.replace("\n", end)
        content = content.replace(text, f"{text}{end}!")
    assert found == content
    kept = re.compile(KEPT.partition("re:")[2])
    tags = "<v Anna> <v.loud Bob B> <c.red> <00:05.000> {\\an8}"
    assert " ".join(kept.findall(f"{tags} <b> </v> {{name}} <c>")) == tags


def test_subtitles_of_any_lines_come_back(tmp_path):
    choose = random.Random(0)
    times = "0:00:01,0 --> 0:00:02,0 x"
    parts = [times, f"\n{times}", "7", "", " ", "A", "NOTE", "-->", "\u2028B", "\x0c", "C "]
    for _ in range(1000):
        head = choose.choice(["WEBVTT\n", f"{times}\n", f"\ufeff{times}\r\n"])
        lines = choose.choices(parts, k=choose.randrange(9))
        content = head + "".join(x + choose.choice(["\n", "\r\n", "\r"]) for x in lines)
        content += choose.choice(["", "A", times])
        assert translated(tmp_path, ".srt", content, list) == (content, [])


@pytest.mark.parametrize(
    ("encoding", "word"),
    [
        ("latin-1", "d\xe9j\xe0"),
        ("cp1250", "k\u016f\u0148 \u00fap\u011bl \u010f\u00e1belsk\u00e9 \u00f3dy"),
        ("cp1250", "\u0151r, h\u0171s \xe9s k\xe9k"),
        ("cp1250", "Dzie\u0144 dobry.\nNie wiem.\nDzi\u0119kuj\u0119 bardzo"),
        ("utf-16", "d\xe9j\xe0"),
        ("utf-8-sig", "\u0448"),
    ],
)
def test_subtitles_keep_their_encoding_where_they_can(encoding, word, tmp_path):
    path = tmp_path / "file.srt"
    content = f"1\n00:00:01,000 --> 00:00:02,000\nA {word}.\n"
    path.write_bytes(content.encode(encoding))
    seen = []
    same = read_and_translate(path, lambda x: seen.extend(x) or x)
    assert (same, seen) == ((content.encode(encoding), []), [f"A {word}."])
    found, _ = read_and_translate(path, lambda texts: ["A dog." for _ in texts])
    assert found == content.replace(word, "dog").encode(encoding)
    found, _ = read_and_translate(path, lambda texts: ["\u0448 \u00fd\u3042" for _ in texts])
    written = encoding if encoding.startswith("utf") else "utf-8"
    assert found.decode(written) == content.replace(f"A {word}.", "\u0448 \u00fd\u3042")


ICU = [
    "You have {n, plural,\n  =0 {no files}\n  one {# file}\n  other {# files in {dir}}\n} now.",
    "{a, select, male {He has {n, plural, one {a dog} other {# dogs}}} other { They }}",
    "{n, plural, offset: 1 one {it's '}' here} other {it''s #}}",
]


def test_the_forms_of_a_message_are_translated_one_by_one(tmp_path):
    def translate(texts):
        assert not any("plural" in text or "#" in text for text in texts)
        return [
            re.sub(r"\{\w+\}|\w+", lambda x: x[0] if "{" in x[0] else x[0].upper(), text)
            for text in texts
        ]

    broken = "{n, plural, one {# file} other"
    content = json.dumps({str(i): text for i, text in enumerate([*ICU, broken, "Open {n}"])})
    found, failures = translated(tmp_path, ".json", content, translate)
    assert list(json.loads(found).values()) == [
        "YOU HAVE {n, plural,\n  =0 {NO FILES}\n  one {# FILE}\n  other {# FILES IN {dir}}\n} NOW.",
        "{a, select, male {HE HAS {n, plural, one {A DOG} other {# DOGS}}} other { THEY }}",
        "{n, plural, offset: 1 one {IT'S '}' HERE} other {IT''S #}}",
        broken,
        "OPEN {n}",
    ]
    named = f"{broken!r}: its syntax is not understood"
    assert failures == [named]
    found, failures = translated(tmp_path, ".json", content, lambda x: [text + "}" for text in x])
    assert list(json.loads(found).values())[:4] == [*ICU, broken]
    rejected = [part for text in ICU for part in read_message(text)[1::2] if part]
    assert sorted(failures) == sorted(
        [named, *(f"{part!r}: its translation changes braces or #" for part in rejected)]
    )


@pytest.mark.parametrize("change", ["{}}}", "{}}}{{", "{{a}} {}", "{} #"])
def test_a_form_whose_syntax_changes_stays_and_is_named(change, tmp_path):
    content = json.dumps({"a": "{n, plural, one {# file} other {# files}}", "b": "Open"})
    found, failures = translated(tmp_path, ".json", content, lambda x: [*map(change.format, x)])
    assert json.loads(found)["a"] == json.loads(content)["a"]
    assert failures == [
        f"{text!r}: its translation changes braces or #" for text in ("# file", "# files")
    ]
    parts = read_message("{n, plural, other {the {name}}}")
    french = write_message(parts, {"the {name}": "l'{name}"})
    assert french == ("{n, plural, other {l''{name}}}", [])


@pytest.mark.parametrize(
    ("source", "translation", "java", "icu"),
    [
        ("Delete {0}", "C'est l'{0}", "C''est l''{0}", "C''est l''{0}"),
        ("It''s {0}", "C'est l''{0}", "C''est l''{0}", "C''est l''{0}"),
        ("Can't open {0}", "C'est l'{0}", "C'est l''{0}", "C'est l''{0}"),
        ("Delete {name}", "C'est l'{name}", "C'est l''{name}", "C'est l''{name}"),
        ("A '{'{name}", "'{'l'{name}", "'{'l'{name}", "'{'l'{name}"),
        ("Delete it", "C'est l'{a}", "C'est l'{a}", "C'est l'{a}"),
        ("Delete {{name}}", "C'est l'{{name}}", "C'est l'{{name}}", "C'est l'{{name}}"),
        ("Delete ${name}", "C'est l'${name}", "C'est l'${name}", "C'est l'${name}"),
    ],
)
def test_apostrophes_quote_no_argument(source, translation, java, icu, tmp_path):
    translate = lambda texts: [translation if text == source else text for text in texts]  # noqa: E731
    found, _ = translated(tmp_path, ".properties", f"a={source}\n", translate)
    assert found == f"a={java}\n"
    forms = "{n, plural, other {#}}"
    for suffix, messages, expected in (
        (".json", [source, forms], icu),
        (".json", [source], translation),  # It may be one of other software.
        (".arb", [source, forms], translation),
    ):
        content = json.dumps(dict(enumerate(messages)))
        found, _ = translated(tmp_path, suffix, content, translate)
        assert [*json.loads(found).values()] == [expected, *messages[1:]]


def test_plurals_of_flutter_get_single_apostrophes(tmp_path):
    french = {"the {b}": "l'{b} d'un", "it''s {b}": "c''est l''{b}"}
    forms = [f"{{n, plural, other {{{each}}}}}" for each in french]
    content = json.dumps(dict(enumerate(forms)))
    found, failures = translated(tmp_path, ".arb", content, lambda x: [french[y] for y in x])
    expected = [form.replace(*pair) for form, pair in zip(forms, french.items(), strict=True)]
    assert ([*json.loads(found).values()], failures) == (expected, [])
    found, _ = translated(tmp_path, ".json", content, lambda x: [french[y] for y in x])
    assert json.loads(found)["0"] == "{n, plural, other {l''{b} d'un}}"


def test_messages_of_any_form_come_back():
    choose = random.Random(0)
    parts = ["{", "}", "{n, plural,", " one {", " other {", "a", " ", "#", "{x}", "\n", "'"]
    for _ in range(3000):
        text = "".join(choose.choices(parts, k=choose.randrange(14)))
        found = read_message(text)
        assert found is None or "".join(found) == text == write_message(found, {})[0]


def test_segments_of_xliff_2_are_filled_in(tmp_path):
    found, failures = translated(tmp_path, ".xlf", XLIFF_2, lambda x: [f"{y} X" for y in x])
    assert failures == []
    targets = minidom.parseString(found).getElementsByTagName("target")
    assert [re.sub(" ?(xmlns|xml:space)=.[^ >]*", "", node.toxml()) for node in targets] == [
        "<target>Plain &amp; simple. X</target>",
        '<target>Some <pc id="1">bold</pc> text. X</target>',
    ]
    assert found.count('state="initial"') == 2
    seen = []
    translated(tmp_path, ".xlf", found, lambda x: seen.extend(x) or x, only_missing=True)
    assert seen == []


def test_every_translation_of_xliff_asks_for_review(tmp_path):
    plural = """<group restype="x-gettext-plurals" id="1" approved="yes">
    <trans-unit id="1[0]"><source>%d file</source></trans-unit>
    <trans-unit id="1[1]"><source>%d files</source><target state="final">Alt</target></trans-unit>
    </group></body>"""
    inline = 'text.</source><target xml:lang="de" state="final">Alt <g id="1">x</g></target>'
    text = 'simple.</source><target resname="a"><g id="1">Alt</g> x</target>'
    content = XLIFF.replace("plaintext", "po").replace("</body>", plural)
    content = content.replace("text.</source>", inline).replace("simple.</source>", text)
    found, _ = translated(tmp_path, ".xlf", content, lambda x: [f"{y}!" for y in x])
    assert 'approved="yes"' not in found
    targets = minidom.parseString(found).getElementsByTagName("target")
    assert [node.getAttribute("state") for node in targets] == ["needs-review-translation"] * 4
    assert [re.sub(' (xmlns|state)="[^"]*"', "", node.toxml()) for node in targets] == [
        '<target resname="a">Plain &amp; simple.!</target>',
        '<target xml:lang="de">Some <g id="1">bold</g> text.!</target>',
        "<target>%d file!</target>",
        "<target>%d files!</target>",
    ]


@pytest.mark.parametrize(
    ("content", "unit", "end"),
    [(XLIFF, '<trans-unit id="1"', "</trans-unit>"), (XLIFF_2, '<unit id="1"', "</unit>")],
)
def test_what_xliff_says_is_not_to_be_translated_stays(content, unit, end, tmp_path):
    def seen(content):
        texts = []
        translated(tmp_path, ".xlf", content, lambda x: texts.extend(x) or x)
        return len(texts)

    inside = content.replace(unit, f'<group translate="no" id="g"><group id="h">{unit}', 1)
    inside = inside.replace(end, f"{end}</group></group>", 1)
    assert seen(content) == 2 and seen(inside) == (content == XLIFF)
    assert seen(inside.replace(unit, f'{unit} translate="yes"')) == 2
    assert seen(content.replace(unit, f'{unit} translate="no"')) == (content == XLIFF)


@pytest.mark.parametrize(
    ("content", "inside", "text"),
    [
        (
            XLIFF,
            'See <bpt id="1">&lt;b&gt;</bpt>bold<ept id="1">&lt;/b&gt;</ept> <x id="2"/> in '
            '<g id="3"><mrk mtype="protected">Save <g id="4">it</g></mrk>, <ph id="5">two</ph></g> '
            '<it id="6" pos="open">x</it> <mrk mtype="term">three</mrk>.',
            'See <X id="0"/>bold<X id="1"/> <x id="2"/> in <g id="3"><X id="2"/>, <X id="3"/></g> '
            '<X id="4"/> <mrk mtype="term">three</mrk>.',
        ),
        (
            XLIFF_2,
            'Some <mrk id="1" translate="no">Save <pc id="2">it</pc></mrk> <ph id="3"/> text.',
            'Some <X id="0"/> <ph id="3"/> text.',
        ),
    ],
)
def test_code_and_protected_parts_of_xliff_stay(content, inside, text, tmp_path):
    content = re.sub("(?s)Some .*?text\\.", inside, content)
    seen = []
    same, failures = translated(tmp_path, ".xlf", content, lambda x: seen.extend(x) or x)
    assert (seen[-1], failures) == (text, [])
    targets = re.findall("(?s)<target[^>]*>(.*?)</target>", same)
    assert targets == ["Plain &amp; simple.", inside]
    swap = lambda x: [re.sub(r'(.*)(<X id="0"/>)(.*)', r"\2\3 Und \1", y) for y in x]  # noqa: E731
    found, _ = translated(tmp_path, ".xlf", content, swap)
    before, first, after = re.split("(<bpt.*?</bpt>|<mrk.*?</mrk>)", inside, maxsplit=1)
    assert f">{first}{after} Und {before}</target>" in found
    add = lambda x: [f'{y}<X id="9"/>' for y in x]  # noqa: E731
    assert f'{inside}<X id="9"/></target>' in translated(tmp_path, ".xlf", content, add)[0]


SEGMENTS = """<seg-source><mrk mtype="seg" mid="1">One <ph id="1">a="<sub>tip</sub>"</ph>.</mrk> \
<g id="2"><mrk mtype="seg" mid="2">Two &amp; <mrk mtype="protected">x</mrk></mrk></g>\
</seg-source>"""
DONE = """<mrk mtype="seg" mid="1">One <ph id="1">a="<sub>tip!</sub>"</ph>.!</mrk> \
<g id="2"><mrk mtype="seg" mid="2">Two &amp; <mrk mtype="protected">x</mrk>!</mrk></g>"""


@pytest.mark.parametrize(
    ("inside", "expected"),
    [
        (f"One. </source>{SEGMENTS}", DONE),
        (f"One. </source><target/>{SEGMENTS}", DONE),
        (
            f'One. </source>{SEGMENTS}<target><mrk mtype="seg" mid="1"/> <mrk mtype="seg" mid="2">'
            "Zwei</mrk></target>",
            DONE.replace('Two &amp; <mrk mtype="protected">x</mrk>!', "Zwei"),
        ),
        (  # A segment that the target lacks.
            f'One. </source>{SEGMENTS}<target><mrk mtype="seg" mid="2">Zwei</mrk></target>',
            DONE.replace('Two &amp; <mrk mtype="protected">x</mrk>!', "Zwei"),
        ),
        (  # Without ids, which are optional.
            'One. </source><seg-source><mrk mtype="seg">One.</mrk> <mrk mtype="seg">Two.</mrk>'
            '</seg-source><target><mrk mtype="seg">Eins.</mrk> <mrk mtype="seg"/></target>',
            '<mrk mtype="seg">Eins.</mrk> <mrk mtype="seg">Two.!</mrk>',
        ),
        (
            'One. </source><seg-source><mrk mtype="seg" mid="1" translate="no">One.</mrk> '
            '<mrk mtype="seg" mid="2">Two.</mrk></seg-source>',
            '<mrk mtype="seg" mid="1" translate="no">One.</mrk> '
            '<mrk mtype="seg" mid="2">Two.!</mrk>',
        ),
        (
            'A <g xmlns:q="urn:q" q:r="5">b</g></source>',
            'A <g xmlns:q="urn:q" q:r="5">b</g>!',
        ),
        (
            'A <ph id="1">="<sub>b <it id="2">x<sub>c</sub></it></sub>"</ph></source>',
            'A <ph id="1">="<sub>b <it id="2">x<sub>c!</sub></it>!</sub>"</ph>!',
        ),
    ],
)
def test_segments_and_texts_in_code_of_xliff_are_translated(inside, expected, tmp_path):
    content = XLIFF.replace('Some <g id="1">bold</g> text.</source>', inside)
    add = lambda texts: [f"{text}!" if text.strip() else text for text in texts]  # noqa: E731
    found, failures = translated(tmp_path, ".xlf", content, add, only_missing=True)
    assert failures == []
    if SEGMENTS in inside:
        assert SEGMENTS in found
        assert found.index("</seg-source>") < found.index("<target", found.index("<source>One"))
    target = re.findall("<target[^>]*>(.*?)</target>", found)[-1]
    assert target == expected
    minidom.parseString(found)


def test_paragraphs_of_word_keep_their_formatting(tmp_path):
    docx = pytest.importorskip("docx")
    document = docx.Document()
    document.add_heading("A title")
    paragraph = document.add_paragraph("A ", style="List Bullet")
    paragraph.add_run("bold").bold = True
    for text in (" dog ru", "ns.", "\tYes\nno "):
        paragraph.add_run(text)
    paragraph.add_run().add_picture(
        io.BytesIO(tf.io.encode_png(tf.zeros([1, 1, 3], tf.uint8)).numpy())
    )
    paragraph.add_run("end")
    cell = document.add_table(1, 1).cell(0, 0)
    cell.text = "Cell"
    document.sections[0].header.paragraphs[0].text = "Header"
    document.add_paragraph("42")
    path = tmp_path / "file.docx"
    document.save(path)
    seen = []

    def translate(texts):
        seen.extend(texts)
        swapped = [re.sub("(A )(<G.*G>)", r"\2 \1", text) for text in texts]
        return [
            re.sub(r"<[^<>]*>|\w+", lambda x: x[0] if "<" in x[0] else x[0].upper(), text)
            for text in swapped
        ]

    content, failures = read_and_translate(path, translate)
    marked = 'A <G id="1">bold</G> dog runs.\tYes\nno <X id="3"/>end'
    assert (seen, failures) == (["A title", marked, "Cell", "Header"], [])
    found = docx.Document(io.BytesIO(content))
    bullet = found.paragraphs[1]
    assert [(run.text, run.bold) for run in bullet.runs] == [
        ("BOLD", True),
        (" A  DOG RUNS.\tYES\nNO ", None),
        ("", None),
        ("END", None),
    ]
    assert (bullet.style.name, len(found.inline_shapes)) == ("List Bullet", 1)
    assert found.tables[0].cell(0, 0).text == "CELL"
    assert found.sections[0].header.paragraphs[0].text == "HEADER"
    # What loses the tags loses no object.
    content, _ = read_and_translate(
        path, lambda texts: [re.sub("<.*?>", "", x) + "!" for x in texts]
    )
    assert len(docx.Document(io.BytesIO(content)).inline_shapes) == 1
    same, _ = read_and_translate(path, list)
    body = [docx.Document(x).element.xml for x in (path, io.BytesIO(same))]
    assert body[0] == body[1]
    path.write_bytes(b"PK")
    with pytest.raises(ValueError, match="not a .docx file, or is damaged"):
        read_and_translate(path, list)


def run(text, style=""):
    return f'<w:r><w:rPr>{style}</w:rPr><w:t xml:space="preserve">{text}</w:t></w:r>'


BREAK = '<w:br w:type="page"/>'
BOX = """<w:r><mc:AlternateContent xmlns:wps="x" xmlns:mc=
"http://schemas.openxmlformats.org/markup-compatibility/2006"><wps:txbx><w:txbxContent><w:p><w:r>
<w:t>In a box</w:t></w:r></w:p></w:txbxContent></wps:txbx></mc:AlternateContent></w:r>"""
FIELD = (
    '<w:r><w:fldChar w:fldCharType="begin"/></w:r><w:r><w:instrText>PAGE</w:instrText></w:r>'
    f'<w:r><w:fldChar w:fldCharType="separate"/></w:r>{run("7")}'
    '<w:r><w:fldChar w:fldCharType="end"/></w:r>'
)


@pytest.mark.parametrize(
    ("inside", "text", "kept"),
    [
        ("<w:r><w:lastRenderedPageBreak/><w:t>Hello</w:t></w:r>", "Hello", ()),
        ("<w:r><w:t>co</w:t><w:softHyphen/><w:t>op</w:t></w:r>", "coop", ()),
        (f"<w:r>{BREAK}</w:r>{run('Head')}", "Head", (BREAK,)),
        (f"<w:r><w:t>One</w:t>{BREAK}<w:t>two</w:t></w:r>", 'One<X id="1"/>two', (BREAK,)),
        (
            f'{run("See ")}<w:hyperlink w:anchor="a"><w:proofErr w:type="spellStart"/>'
            f'{run("it")}<w:bookmarkStart w:id="1" w:name="m"/>{run(" now", "<w:b/>")}'
            '</w:hyperlink><w:bookmarkEnd w:id="1"/>',
            'See <G id="1">it</G><G id="2"> now</G>',
            ('w:anchor="a"', "<w:b/>", "<w:bookmarkStart", "<w:bookmarkEnd"),
        ),
        (
            f'<w:hyperlink w:anchor="a"><w:r><w:sym w:char="1"/></w:r>{run("it")}</w:hyperlink>',
            '<X id="0"/>it',
            ('w:anchor="a"', '<w:sym w:char="1"/>'),
        ),
        (
            f'{run("They ")}<w:del w:id="1"><w:r><w:delText>r</w:delText></w:r></w:del>'
            f'<w:ins w:id="2"><w:smartTag w:element="e">{run("ran")}</w:smartTag></w:ins>',
            'They <X id="1"/><G id="2">ran</G>',
            ("<w:delText>r</w:delText>", '<w:ins w:id="2"><w:smartTag w:element="e"><w:r>'),
        ),
        (
            f'{run("In ")}<w:sdt><w:sdtPr><w:alias w:val="x"/></w:sdtPr><w:sdtContent>{run("a")}'
            "</w:sdtContent></w:sdt>",
            'In <G id="1">a</G>',
            ('<w:alias w:val="x"/></w:sdtPr><w:sdtContent><w:r>',),
        ),
        (f"{run('See ')}{FIELD}{run(' too')}", 'See <X id="1"/> too', ("PAGE",)),
        (f"{run('See ')}{BOX}{run('!')}", 'See <X id="1"/>!', ("<w:t>IN A BOX!</w:t>",)),
    ],
)
def test_what_a_paragraph_of_word_holds_stays(inside, text, kept, tmp_path):
    docx = pytest.importorskip("docx")
    from docx.oxml.ns import nsdecls

    document = docx.Document()
    paragraph = document.add_paragraph()
    for each in docx.oxml.parse_xml(f"<w:p {nsdecls('w')}>{inside}</w:p>"):
        paragraph._p.append(each)
    if hasattr(document, "add_comment"):  # Since python-docx 1.2.
        document.add_comment(document.add_paragraph().add_run("Noted"), "A comment")
    path = tmp_path / "file.docx"
    document.save(path)
    seen = []

    def translate(texts):
        seen.extend(texts)
        words = [re.split("(<.*?>)", text) for text in texts]
        return ["".join(x if "<" in x else x.upper() for x in each) + "!\x01" for each in words]

    content, failures = read_and_translate(path, translate)
    boxes, notes = ["In a box"] * ("box" in inside), ["Noted"] * hasattr(document, "add_comment")
    assert (seen, failures) == ([text, *boxes, *notes], [])
    found = docx.Document(io.BytesIO(content))
    xml = re.sub(r"<w:rPr/>|\s?xmlns:\w+=\"[^\"]*\"", "", found.element.xml)
    xml = re.sub(r">\s+<", "><", xml)
    for each in kept:
        assert xml.count(each) == 1, each
    assert xml.count("<w:hyperlink") == inside.count("<w:hyperlink")
    words = "".join(re.findall("<w:t(?: [^<>]*)?>(.*?)</w:t>", xml))
    expected = re.sub("<.*?>", "", text.replace('<X id="1"/>', "7" * ("PAGE" in kept)).upper())
    assert words.replace("IN A BOX!", "") == f"{expected}!{'NOTED!' if notes else ''}"
    if notes:
        assert next(iter(found.comments)).text == "A comment"


def start(name="bookmark"):
    return f'<w:{name}Start w:id="1" w:name="m"/>'


def end(name="bookmark"):
    return f'<w:{name}End w:id="1"/>'


SIGN = '<w:r><w:sym w:char="1"/></w:r>'
RANGE = "commentRange"
SEE = run("See ")


@pytest.mark.parametrize(
    ("inside", "text", "shown"),
    [
        (
            SEE + start() + run("a table") + end() + run(" now"),
            'See <G id="1">a table</G> now',
            "SEE [A TABLE] NOW",
        ),
        (
            SEE + start(RANGE) + run("it") + end(RANGE) + SIGN + run(" now"),
            'See <G id="1">it</G><X id="2"/> now',
            "SEE [IT]* NOW",
        ),
        (start() + run("All ") + run("it", "<w:b/>") + end(), None, "[ALL IT]"),
        (SIGN + start(RANGE) + run("All") + end(RANGE) + SIGN, "All", "*[ALL]*"),
        (start() + SIGN + run("All") + end(), "All", "[*ALL]"),
        (
            start() + SIGN + run("Al") + end() + run(" of it"),
            '<X id="0"/><G id="1">Al</G> of it',
            "[*AL] OF IT",
        ),
        (SEE + start() + run("it"), 'See <G id="1">it</G>', "SEE [IT"),
        (run("It") + end() + run(" is"), '<G id="0">It</G> is', "IT] IS"),
        (SEE + start() + end() + run("it"), "See it", "SEE IT[]"),
        (
            SEE + FIELD.replace(run("7"), start() + run("7") + end()) + run(" now"),
            'See <X id="1"/> now',
            "SEE {[7]} NOW",
        ),
        (
            start() + run("Fig. ") + FIELD + end() + run(": a dog"),
            '<G id="0">Fig. </G><X id="1"/>: a dog',
            "[FIG. {7}]: A DOG",
        ),
        (
            f'<w:hyperlink w:anchor="a">{start()}{run("it")}</w:hyperlink>{end()}',
            "it",
            "[IT]",
        ),
    ],
)
def test_bookmarks_and_comments_of_word_stay_around_their_text(inside, text, shown, tmp_path):
    docx = pytest.importorskip("docx")
    from docx.oxml.ns import nsdecls

    document = docx.Document()
    paragraph = document.add_paragraph()
    for each in docx.oxml.parse_xml(f"<w:p {nsdecls('w')}>{inside}</w:p>"):
        paragraph._p.append(each)
    path = tmp_path / "file.docx"
    document.save(path)
    seen = []

    def upper(texts):
        seen.extend(texts)
        return [re.sub("<.*?>|[a-z]+", lambda x: x[0] if "<" in x[0] else x[0].upper(), texts[0])]

    def read(translate):
        document = docx.Document(io.BytesIO(read_and_translate(path, translate)[0]))
        return "".join(map(show_sign, document.paragraphs[0]._p.iter()))

    def show_sign(element):
        space, _, name = element.tag.rpartition("}")
        name = element.get(f"{space}}}fldCharType", name)
        found = [sign for kind, sign in signs.items() if name.endswith(kind)]
        return found[0] if found else element.text if name == "t" else ""

    signs = {"Start": "[", "End": "]", "sym": "*", "begin": "{", "end": "}"}
    assert read(upper) == shown
    assert text is None or seen == [text]
    assert read(list) != shown
    whole = read(lambda texts: ["Alles" for _ in texts])
    assert all(whole.count(sign) == shown.count(sign) for sign in "[]*{}")
    if shown == "SEE [A TABLE] NOW":
        assert whole == "[Alles]"
    assert read(lambda texts: ["" for _ in texts]).count("[") == shown.count("[")


def test_a_paragraph_of_word_has_a_limit_of_bookmarks_around_their_text(tmp_path, monkeypatch):
    docx = pytest.importorskip("docx")
    from docx.oxml.ns import nsdecls

    monkeypatch.setattr(word, "_MOST_RANGES", 2)
    document = docx.Document()
    inside = "".join(f"{start()}{run('a ')}{end()}".replace('"1"', f'"{i}"') for i in range(3))
    document.add_paragraph()._p.extend(docx.oxml.parse_xml(f"<w:p {nsdecls('w')}>{inside}</w:p>"))
    path = tmp_path / "file.docx"
    document.save(path)
    changed, _ = read_and_translate(path, lambda texts: [x.replace("a ", "b ") for x in texts])
    paragraph = docx.Document(io.BytesIO(changed)).paragraphs[0]
    assert paragraph.text == 3 * "b "
    names = [each.tag.rpartition("}")[2] for each in paragraph._p]
    marks = ["bookmarkStart", "r", "bookmarkEnd"]
    assert names == [*marks, *marks, "r", "bookmarkStart", "bookmarkEnd"]


def test_a_large_document_of_word_is_refused(tmp_path):
    path = tmp_path / "file.docx"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("word/document.xml", b" " * (70 << 20))
    with pytest.raises(ValueError, match=r"have [0-9]+ bytes once .* received 73400320. Divide"):
        read_and_translate(path, list)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("word/document.xml", b" " * (5 << 20))
    refused = r"Invalid request: .* have 4194304 bytes once .* received 5242880. Divide it."
    with pytest.raises(ServingError, match=refused):
        asyncio.run(Files().translate(File("a.docx", path.read_bytes()), None))


def test_an_error_of_all_texts_is_raised_early(tmp_path):
    calls = []

    def fail(texts):
        calls.append(texts)
        raise ValueError("no memory")

    content = json.dumps({str(i): f"Text {i}" for i in range(50)})
    with pytest.raises(ValueError, match="no memory"):
        translated(tmp_path, ".json", content, fail)
    # The first ten texts, and what holds them.
    assert [texts for texts in calls if len(texts) == 1] == [[f"Text {i}"] for i in range(10)]
    assert len(calls) < 25


LINES = [
    "One. Two e.g.",
    "\t Dr. ",
    "3. A <b",
    "c. D> e.",
    "F.",
    "z.",
    "B. The \fend.\f G",
    "\r H.\vI. J",
    "\x85K. L",
    "",
    " ",
    "M. " * 40,
    "N\u2028O. P",
    "1. Q",
]


@pytest.mark.parametrize("size", [1, 30, 200])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\n\n"])
@pytest.mark.parametrize("mark, last", [("", ""), ("\ufeff", "\n")])
def test_a_text_in_parts_is_translated_as_a_whole(size, end, mark, last, tmp_path, monkeypatch):
    def translate(texts):
        rows = split_sentences(tf.constant(texts)).to_list()
        for row in rows:
            row[::2] = [b"(%s)" % text if text else b"" for text in row[::2]]
        return [b"".join(row).decode() for row in rows]

    lines = 3 * LINES
    random.Random(size).shuffle(lines)
    content = mark + end.join(lines) + last
    whole, _ = translated(tmp_path, ".txt", content, translate)
    monkeypatch.setattr("keras_transformer.documents.groups._AT_A_TIME", size)
    sizes, texts = [], []
    options = {"begin": sizes.append}
    parts, failures = translated(
        tmp_path, ".txt", content, lambda x: texts.extend(x) or translate(x), **options
    )
    assert (parts, failures) == (whole, [])
    assert mark + "".join(texts) == content and sizes == [len(content)]
    assert max(map(len, texts)) <= max(size, 120 + len(end))


def test_a_line_of_a_long_text_that_fails_is_named_and_stays(tmp_path, monkeypatch):
    def translate(texts):
        if any("%" in text for text in texts):
            raise ValueError("no signs")
        return [text.upper() for text in texts]

    monkeypatch.setattr("keras_transformer.documents.groups._AT_A_TIME", 20)
    content = "".join(f"line {'%' * (i in (9, 21))}{i}\n" for i in range(30))
    found, failures = translated(tmp_path, ".txt", content, translate)
    assert found == re.sub("LINE (?=%)", "line ", content.upper())
    assert failures == ["'line %9': no signs", "'line %21': no signs"]
    assert translated(tmp_path, ".txt", f"%\n{content}", translate)[1] == [
        "'%': no signs",
        *failures,
    ]


@pytest.mark.parametrize("done", [0, 1, 5])
def test_a_model_that_fails_for_good_is_not_asked_for_every_text(done, tmp_path, monkeypatch):
    calls = []

    def translate(texts):
        calls.append(len(texts))
        if len(calls) > done:
            raise ValueError("no memory")
        return [text.upper() for text in texts]

    monkeypatch.setattr("keras_transformer.documents.groups._AT_A_TIME", 100)
    texts = [f"number {i:02}\n" for i in range(90)]  # Ten at a time.
    if not done:
        with pytest.raises(ValueError, match="no memory"):
            translated(tmp_path, ".txt", "".join(texts), translate)
    else:
        found, failures = translated(tmp_path, ".txt", "".join(texts), translate)
        upper = "".join(texts[: 10 * done]).upper()
        assert found == upper + "".join(texts[10 * done :])
        assert failures[:-1] == [f"{text.strip()!r}: no memory" for text in texts[10 * done :][:10]]
        assert failures[-1] == f"{90 - 10 * done - 10} more texts: no memory"
    assert len(calls) == done + 19  # All of ten texts, and every part down to each.


def test_all_of_few_texts_that_fail_are_an_error(tmp_path):
    def translate(texts):
        raise ValueError("no memory")

    with pytest.raises(ValueError, match="no memory"):
        translated(tmp_path, ".txt", "one\ntwo\n", translate)


def test_messages_are_translated_some_at_a_time(tmp_path, monkeypatch):
    calls, sizes = [], []

    def translate(texts):
        calls.append(len(texts))
        if "text 57" in texts:
            raise ValueError("no such number")
        return [text.upper() for text in texts]

    monkeypatch.setattr("keras_transformer.documents.groups._AT_A_TIME", 70)
    content = json.dumps({str(i): f"text {i % 90}" for i in range(10, 110)})
    found, failures = translated(tmp_path, ".json", content, translate, begin=sizes.append)
    assert failures == ["'text 57': no such number"]
    assert [*json.loads(found).values()].count("text 57") == 1
    assert found.count("TEXT") == 99
    assert calls.count(10) == 9 and len(calls) <= 9 + 8 and sizes == [620]  # Halves of one group.


def test_messages_are_filled_in_and_marked(tmp_path):
    upper = lambda texts: [text.upper() for text in texts]  # noqa: E731
    found, failures = translated(tmp_path, ".po", PO, upper)
    assert failures == []
    for expected in (
        '#, c-format, fuzzy\nmsgid "Copied %s files. Done."\nmsgstr "COPIED %S FILES. DONE."',
        'msgstr[0] "%D FILE"\nmsgstr[1] "%D FILES"\nmsgstr[2] "%D FILES"',
        '#, fuzzy\nmsgctxt "menu"\nmsgid "Open"\nmsgstr "OPEN"',
        '#~ msgid "Obsolete"\n#~ msgstr "Alt"',
        r'"Plural-Forms: nplurals=3; plural=(n > 2);\n"',
    ):
        assert expected in found
    found, _ = translated(tmp_path, ".po", PO, upper, only_missing=True)
    assert '\nmsgctxt "menu"\nmsgid "Open"\nmsgstr "Auf"' in found
    assert '"COPIED %S FILES. DONE."' in found
    one = PO.replace("nplurals=3; plural=(n > 2)", "nplurals=1; plural=0")
    one = one.replace('msgstr[1] ""\nmsgstr[2] ""\n', "")
    assert 'msgstr[0] "%D FILES"\n\n' in translated(tmp_path, ".po", one, upper)[0]
    many = PO.replace("nplurals=3;", "nplurals=2000000000;")
    assert translated(tmp_path, ".po", many, upper)[0].count('"%D FILES"') == 5


def test_comments_name_the_checks_that_a_new_translation_fails(tmp_path):
    options = {"only_missing": True, "checks": True}
    drop = lambda texts: [text.replace("%s ", "") for text in texts]  # noqa: E731
    found, _ = translated(tmp_path, ".po", PO, drop, **options)
    note = "# (pofilter) printf: Missing printf variable: %s\n"
    assert f"# A note.\n{note}#. extracted\n" in found
    assert found.count(note) == 1 and '\n\nmsgctxt "menu"\nmsgid "Open"\nmsgstr "Auf"' in found
    again, _ = translated(tmp_path, ".po", found.replace("files. D", "files, d"), drop, **options)
    assert again.count(note) == 1 and "pofilter" not in translated(tmp_path, ".po", PO, drop)[0]
    good = {"Copied %s files. Done.": "Kopierte %s dateien. Fertig."}
    good |= {"%d file": "%d datei", "%d files": "%d dateien", "Open": "Auf"}
    mend = lambda texts: [good[text] for text in texts]  # noqa: E731
    bad = lambda texts: [text.replace("%", "") for text in texts]  # noqa: E731
    found, _ = translated(tmp_path, ".po", PO, bad, checks=True)
    assert found.count("(pofilter) printf: Missing printf variable: %d\n") == 1
    assert translated(tmp_path, ".po", found, mend, checks=True) == (
        translated(tmp_path, ".po", PO, mend)
    )
    for language, count in {"el": 0, "de": 1}.items():  # A question mark of Greek is a semicolon.
        header = PO.replace('"Plural', f'"Language: {language}\\n"\n"Plural')
        greek = lambda texts: [text.replace("?", ";") for text in texts]  # noqa: E731
        marked = translated(tmp_path, ".po", header.replace("Done.", "Done?"), greek, **options)[0]
        assert marked.count("(pofilter) endpunc") == count
    with pytest.raises(ValueError, match=r"checks needs one of \.po \.pot, received .*\.json"):
        translated(tmp_path, ".json", "{}", drop, checks=True)


def test_a_check_with_an_error_leaves_the_translation(tmp_path, monkeypatch):
    def fail(*_):
        raise TypeError("no such thing")

    monkeypatch.setattr("translate.filters.checks.StandardChecker.printf", fail)
    upper = lambda texts: [text.upper() for text in texts]  # noqa: E731
    found, failures = translated(tmp_path, ".po", PO, upper, checks=True)
    assert '"%D FILES"' in found and '"OPEN"' in found
    assert failures[0] == "'Copied %s files. Done.': its checks failed: no such thing"


def test_a_text_that_fails_is_named_and_stays(tmp_path):
    def translate(texts):
        if "Open" in texts:
            raise ValueError("no menus")
        return [text.upper() for text in texts]

    found, failures = translated(tmp_path, ".po", PO, translate)
    assert failures == ["'Open': no menus"]
    assert 'msgid "Open"\nmsgstr "Auf"' in found
    assert "COPIED" in found
    with pytest.raises(ValueError, match="no menus"):  # The only text.
        translated(tmp_path, ".txt", "Open", translate)
    broken, failures = translated(tmp_path, ".xliff", XLIFF, lambda x: [f"{y}<" for y in x])
    assert broken.count("<target") == 1
    assert failures[0].startswith("""'Some <g id="1">bold</g> text.': StartTag: invalid""")
    controls, failures = translated(tmp_path, ".xliff", XLIFF, lambda x: [f"\x01{y}" for y in x])
    assert (controls.count("<target"), failures, "\x01" in controls) == (2, [], False)
    with pytest.raises(ValueError, match=r"only_missing needs one of \.po .* received .*\.txt"):
        translated(tmp_path, ".txt", "Open", translate, only_missing=True)


@pytest.mark.parametrize(
    ("suffix", "content"),
    [(".po", b"msgid x"), (".xliff", b"<a>"), (".json", b"{"), (".txt", b"\xff"), (".srt", b"x")],
)
def test_a_damaged_file_is_refused(suffix, content, tmp_path):
    path = tmp_path / f"file{suffix}"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=f"file{suffix} is not a {suffix} file, or is"):
        read_and_translate(path, list)
    named = PO.replace("UTF-8", "ISO-8859-1").replace("Alt", "\xe4lt").replace("Auf", "\xe4uf")
    (tmp_path / "file.po").write_bytes(named.encode("latin-1"))
    with pytest.raises(
        ValueError, match=r"file\.po .* Convert it with `msgconv -t utf-8`, or rest"
    ):
        read_and_translate(tmp_path / "file.po", list)
    with pytest.raises(ValueError, match=r"one of \.txt \.po .* received .*file\.pdf"):
        check_suffix(tmp_path / "file.pdf")


READABLE = """
import contextlib, pathlib, sys
from keras_transformer.documents.files import SUFFIXES, check_suffix, readable_suffixes

sys.modules[sys.argv[1]] = None
found = readable_suffixes()
assert not {"docx", "lxml", "mistletoe", "translate"} & {*sys.modules} - {sys.argv[1]}
able = []
for suffix in SUFFIXES:
    with contextlib.suppress(ImportError):
        check_suffix(pathlib.Path(f"file{suffix}"))
        able.append(suffix)
print(found == able, len(found) < len(SUFFIXES))
"""


@pytest.mark.parametrize("missing", ["docx", "mistletoe", "translate"])
def test_the_kinds_of_files_are_known_without_an_import(missing):
    assert run_python("-c", READABLE, missing).stdout.split() == ["True", "True"]


FOLDERS = """
import pathlib, sys
from keras_transformer.documents.files import readable_suffixes

for name in ("docx", "mistletoe", "translate"):
    pathlib.Path(sys.argv[1], name).mkdir()
sys.path[:] = sys.argv[1:]
print(*readable_suffixes())
"""


def test_a_folder_with_the_name_of_a_package_reads_no_file(tmp_path):
    suffixes = run_python("-c", FOLDERS, str(tmp_path)).stdout.split()
    assert {".txt", ".json", ".srt"} <= {*suffixes}
    assert not {".docx", ".html", ".md", ".po"} & {*suffixes}
