"""Subtitles: which lines are translated, and the encodings of files."""

import random

import pytest

from keras_transformer.documents.subtitles import change_subtitles
from tests.helpers.documents import each, find_kept, kept_texts, translated

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
    content = "\ufeff" + content.replace("\n", end)
    assert kept_texts(tmp_path, suffix, content) == texts
    found, _ = translated(tmp_path, suffix, content, each(lambda text: f"{text}\n\n!"))
    for text in texts:
        text = text.replace("\n", end)
        content = content.replace(text, f"{text}{end}!")
    assert found == content


def test_tags_of_cues_are_protected():
    kept = ["<v Anna>", "<v.loud Bob B>", "<c.red>", "<00:05.000>", "{\\an8}"]
    assert find_kept(f"{' '.join(kept)} <b> </v> {{name}} <c>") == kept


def test_subtitles_of_any_lines_come_back():
    choose = random.Random(0)
    times = "0:00:01,0 --> 0:00:02,0 x"
    parts = [times, f"\n{times}", "7", "", " ", "A", "NOTE", "-->", "\u2028B", "\x0c", "C "]
    for _ in range(1000):
        head = choose.choice(["WEBVTT\n", f"{times}\n", f"\ufeff{times}\r\n"])
        lines = choose.choices(parts, k=choose.randrange(9))
        content = head + "".join(x + choose.choice(["\n", "\r\n", "\r"]) for x in lines)
        content += choose.choice(["", "A", times])
        assert change_subtitles(content.encode(), str) == content.encode()


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
    content = f"1\n00:00:01,000 --> 00:00:02,000\nA {word}.\n"
    before = content.encode(encoding)
    assert kept_texts(tmp_path, ".srt", before) == [f"A {word}."]
    found, _ = translated(tmp_path, ".srt", before, each(lambda _: "A dog."))
    assert found == content.replace(word, "dog").encode(encoding)
    found, _ = translated(tmp_path, ".srt", before, each(lambda _: "\u0448 \u00fd\u3042"))
    written = encoding if encoding.startswith("utf") else "utf-8"
    assert found.decode(written) == content.replace(f"A {word}.", "\u0448 \u00fd\u3042")
