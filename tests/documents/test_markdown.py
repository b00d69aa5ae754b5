"""Pages of Markdown: which of their text is translated, and that all else stays."""

import random
import re

import pytest

from keras_transformer.documents.files import KEPT
from keras_transformer.documents.markdown import from_tags, hide, show, to_tags
from keras_transformer.text.patterns import find_symbols
from keras_transformer.text.protection import Protection
from tests.helpers.documents import each, find_kept, kept_texts, texts_of, translated

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
    assert len(find_symbols(to_tags(text), "html")) == len(re.findall("</?[A-Za-z]", to_tags(text)))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('a <B is=""></B>b', "a b"),
        ("a</B> b", "a</B> b"),
        ('<B is="">a <I is="">b</B>', '**a <I is="">b**'),
    ],
)
def test_tags_that_lost_their_text_or_each_other(text, expected):
    assert from_tags(text) == expected


def test_a_very_long_paragraph_gets_no_tags():
    assert to_tags(2000 * "**a** ") == 2000 * "**a** "


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
        (
            "| a   | b   |\n| --- | --- |\n| c   |     |\n\nd | e\n---\n",
            ["a", "b", "c", "d | e"],
        ),
        ("| a |\n---\n", ["| a |"]),
        ("| # a |\n| --- |\n| - b |\n", ["# a", "- b"]),
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
    seen = kept_texts(tmp_path, ".md", content)
    assert [re.sub("</?[A-Z][^<>]*>", "", text) for text in seen] == texts
    kept_texts(tmp_path, ".md", content.replace("\n", "\r\n"))


@pytest.mark.parametrize(
    ("content", "texts"),
    [
        ("a | b\nc | d\n---\n", ["a | b c | d"]),
        ("a | b | c\n---|---\n", ["a | b | c ---|---"]),
        ("| a |\n:--\n", ["a"]),
    ],
)
def test_lines_with_pipes_are_a_table_if_the_line_below_has_as_many_cells(content, texts, tmp_path):
    assert texts_of(tmp_path, ".md", content)[0] == texts


def test_letters_of_markdown_are_read_whatever_they_are_written_as(tmp_path):
    content = "Caf&eacute; d&#39;or &amp; more.\n"
    assert texts_of(tmp_path, ".md", content) == (
        ["Café d'or &amp; more."],
        "Café d'or &amp; more.\n",
    )


def test_what_markdown_keeps_inside_of_texts_is_protected():
    kept = ["\\|", "`b`", "![c](d_(e).png){w=5}", "[^1]", "<!-- - -->", "$$f$$", "{#o .big}"]
    kept += ["{ .x }", "{:y}"]
    assert find_kept(f"a {', '.join(kept)}, {{n}}") == kept
    Protection(KEPT)  # Its expressions are those of RE2, without blanks.


PARTS = ["\n", "\n\n", " ", "    ", "\t", "> ", "- ", "1. ", ":::", ":", ": a", "$$", "$", "a", "`"]
PARTS += ["```", "~~~", "[^1]:", '!!! note "x"', "> [!NOTE]", "<div>", "|", "\n--|--\n", "==="]
PARTS += ["\\|", "&lt;", "{#a}"]


def test_what_is_hidden_from_the_parser_of_markdown_comes_back():
    choose = random.Random(0)
    for _ in range(5000):
        text = "".join(choose.choices(PARTS, k=choose.randrange(16)))
        assert show(hide(text, notes=True)) == text


def test_brackets_that_are_no_links_of_markdown_get_no_name(tmp_path):
    content = (
        "\\[guide] [![B][b]][guide] [[guide]] array[i] [a [b [c] d] e][guide] [no][]\n\n"
        "[guide]: g.md\n[b]: b.svg\n\n```\n[i]: code\n```\n"
    )
    change = each(lambda text: re.sub("gui(?![^<>]*>)", "Gui", text))
    found, _ = translated(tmp_path, ".md", content, change)
    expected = content.replace("\\[gui", "\\[Gui").replace("[[guide]]", "[[Guide][guide]]")
    assert found == expected.replace(" e][gui", " e][Gui")


def test_the_most_frequent_line_ends_of_markdown_are_written(tmp_path):
    mixed = "One\r\n\nTwo\n\nThree\n"
    assert texts_of(tmp_path, ".md", mixed)[1] == mixed.replace("\r", "")


def test_a_link_of_markdown_whose_text_changes_keeps_its_name(tmp_path):
    names = "\n\n[manual]: m.md\n[The  guide]: g.md\n"
    content = f"See [Manual] and [the guide][]. [Manual][]!{names}"
    change = each(lambda text: text.replace("anual<", "appe<"))
    found, _ = translated(tmp_path, ".md", content, change)
    assert found == f"See [Mappe][Manual] and [the guide][]. [Mappe][Manual]!{names}"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("3. Januar", r"3\. Januar"),
        ("12) x", r"12\) x"),
        *((f"{sign} x", rf"\{sign} x") for sign in "#-+*>"),
        ("---", r"\---"),
        *((text, text) for text in ("3.5 x", "#x **y**", "-x")),
    ],
)
def test_a_translation_of_markdown_starts_no_block(text, expected, tmp_path):
    found, _ = translated(tmp_path, ".md", "Intro.\n\n- One\n", each(lambda _: text))
    assert found == f"{expected}\n\n- {expected}\n"
