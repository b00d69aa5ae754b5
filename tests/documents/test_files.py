"""Files of each kind: what a translation changes in them, and what it does not."""

import json
import re
from pathlib import Path
from xml.dom import minidom

import pytest

from keras_transformer.documents.files import check_suffix
from tests.helpers.documents import PO, XLIFF, each, kept_texts, texts_of, translated
from tests.helpers.tiny import run_python

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


@pytest.mark.parametrize("suffix", FILES)
def test_what_is_not_text_stays(suffix, tmp_path):
    content, word = FILES[suffix]
    _, same = texts_of(tmp_path, suffix, content)
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
    change = each(lambda text: text.replace(word, "Ünd"))
    changed, _ = translated(tmp_path, suffix, content, change)
    new = r"\u00dcnd" if suffix == ".properties" else "Ünd"  # Its source is ASCII.
    assert new in changed
    if suffix != ".po" and suffix != ".xliff":
        assert changed == content.replace(word, new)


def test_only_strings_of_json_change(tmp_path):
    content = """{"a":{}, "b":[],\t"c": ["x",{}, "y", [], 3, null], "e": "", "f\\"" : 1e3,
    "x{": "\\u0041 {", "d":"One dog", "d":"One dog"}\r\n"""
    expected = content.replace("One dog", r"\"One dog\"").replace(r"\u0041 {", r"\"A {\"")
    expected = expected.replace('"x",', r'"\"x\"",').replace('"y"', r'"\"y\""')
    assert translated(tmp_path, ".json", content, each('"{}"'.format)) == (expected, [])
    kept_texts(tmp_path, ".json", content)
    for array in ('\ufeff["a", "b"]', '"a"'):
        assert translated(tmp_path, ".json", array, each(str.upper)) == (array.upper(), [])
    messages = """{"@@x": "a", "one": "a", "@one": {"description": "a", "b": ["a"]},
    "@no": {"type": "a"}, "two": "a"}"""
    upper, _ = translated(tmp_path, ".arb", messages, each(str.upper))
    assert upper == messages.replace('"one": "a"', '"one": "A"').replace('o": "a"', 'o": "A"')


@pytest.mark.parametrize(
    ("suffix", "content"),
    [
        *((".po", b"msgid x"), (".xliff", b"<a>"), (".json", b"{"), (".txt", b"\xff")),
        *((".srt", b"x"), (".docx", b"PK")),
    ],
)
def test_a_damaged_file_is_refused(suffix, content, tmp_path):
    if suffix == ".docx":
        pytest.importorskip("docx")
    with pytest.raises(ValueError, match=f"file{suffix} is not a {suffix} file, or is damaged"):
        texts_of(tmp_path, suffix, content)


def test_messages_in_another_encoding_than_they_name_are_refused(tmp_path):
    named = PO.replace("UTF-8", "ISO-8859-1").replace("Alt", "\xe4lt").replace("Auf", "\xe4uf")
    advice = r"file\.po .* Convert it with `msgconv -t utf-8`, or rest"
    with pytest.raises(ValueError, match=advice):
        texts_of(tmp_path, ".po", named.encode("latin-1"))


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("a.pdf", {}, r"one of \.txt \.po .* received a\.pdf"),
        ("a.txt", {"only_missing": True}, r"only_missing needs one of \.po .* received a\.txt"),
        ("a.json", {"checks": True}, r"checks needs one of \.po \.pot, received a\.json"),
        ("a.xlf", {"checks": True}, r"checks needs one of \.po \.pot, received a\.xlf"),
    ],
)
def test_a_file_that_cannot_be_translated_is_refused_before_a_model_is_loaded(
    name, options, message
):
    with pytest.raises(ValueError, match=message):
        check_suffix(Path(name), **options)


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
