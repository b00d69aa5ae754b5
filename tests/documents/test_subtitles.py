"""Subtitles: which lines are translated, and the encodings of files."""

import random

import pytest

from keras_transformer.documents.subtitles import change_subtitles
from tests.helpers.documents import each, find_kept, kept_texts, texts_of, translated

VTT = """WEBVTT - A title

STYLE
::cue { color: yellow; }

NOTE Some

intro
00:00:01.000 --> 100:00:04.000 position:10%,line-left align:left
<v Anna>Some.</v>

2
00:05.000\t-->\t00:07.000 line:0

NOTE Some

00:08.000 --> 00:09.000
Some,
<c.red>some</c>
"""


SRT = """No cue.

1
00:00:01,000 --> 00:00:04,000  X1:100 X2:200
Some.
42

more
2
00:00:05,000 --> 00:00:07,000
3
100:00:05,000 --> 100:00:06,000 align:start
{\\an8}Some --> 1
100:00:07,000 --> 100:00:08,000
Last"""


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize(
    ("suffix", "content", "texts"),
    [
        (".vtt", VTT, ["<v Anna>Some.</v>", "Some,\n<c.red>some</c>"]),
        (".srt", SRT, ["Some.\n42", "more", "Some --> 1", "Last"]),
    ],
)
def test_only_the_text_of_cues_changes(suffix, content, texts, end, tmp_path):
    content = "\ufeff" + content.replace("\n", end)
    assert kept_texts(tmp_path, suffix, content) == texts
    found, _ = translated(tmp_path, suffix, content, each("\n{}\n \n!\n".format))
    for text in texts:
        text = text.replace("\n", end)
        content = content.replace(text, f"{text}{end}!")
    assert found == content


def test_tags_of_cues_are_protected():
    kept = ["<v Anna>", "<v.loud Bob B>", "<c.red>", "<00:05.000>", "{\\an8}", "♪"]
    assert find_kept(f"{' '.join(kept)} <b> </v> {{name}} <c>") == kept


def test_signs_around_the_text_of_a_cue_stay_there():
    cue = "1\n0:00:01,0 --> 0:00:02,0\n{}\n".format
    lines = "{\\an8}♪ <i>A dog.</i>\nTwo ♪\n♪"
    found = change_subtitles(cue(lines).encode(), lambda text: f" {text[::-1]}").decode()
    assert found == cue("{\\an8}♪  owT\n>i/<.god A>i< ♪\n♪")
    assert change_subtitles(cue("♪ ♪").encode(), lambda text: "x").decode() == cue("♪ ♪")


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
        ("cp1250", "N\xe9zd, m\xe1r k\xe9sz.\n\xc9bren v\xe1rj\xe1k \u0151t. M\xe9g k\xe9t \xf3ra"),
        ("cp1250", "M\xe1r k\xe9sz. Keser\u0171"),
        (
            "cp1252",
            "C\u2019est l\u2019\xe9t\xe9.\nO\xf9 \xe7a m\xe8ne.\n\xc0 bient\xf4t, mon c\u0153ur",
        ),
        ("cp1252", "N\xe3o \xe9.\nAs a\xe7\xf5es s\xe3o m\xe1s.\nVoc\xea est\xe1 \xe0 espera"),
        ("cp1251", "Привет, как дела?\nЯ не знаю, что сказать.\nПомоги мне"),
        ("utf-16", "d\xe9j\xe0"),
        ("utf-16-be", "d\xe9j\xe0"),
        ("utf-8-sig", "\u0448"),
    ],
)
def test_subtitles_keep_their_encoding_where_they_can(encoding, word, tmp_path):
    mark = "\ufeff" if encoding == "utf-16-be" else ""
    content = f"{mark}1\n00:00:01,000 --> 00:00:02,000\nA {word}.\n"
    before = content.encode(encoding)
    assert kept_texts(tmp_path, ".srt", before) == [f"A {word}."]
    found, _ = translated(tmp_path, ".srt", before, each(lambda _: "A dog."))
    assert found == content.replace(word, "dog").encode(encoding)
    found, _ = translated(tmp_path, ".srt", before, each(lambda _: "\u0448 \u00fd\u3042"))
    written = encoding if encoding.startswith("utf") else "utf-8"
    assert found.decode(written) == content.replace(f"A {word}.", "\u0448 \u00fd\u3042")


@pytest.mark.parametrize(
    ("encoding", "same"), [("cp932", b"\x87\x90"), ("euc_jp", b"\x8f\xa2\xb7")]
)
def test_codes_that_no_translation_writes_stay(encoding, same):
    text = "これは日本語の字幕です。\n今日はとても良い天気ですね。\n明日また会いましょう。"
    cue = f"1\n00:00:01,000 --> 00:00:02,000\n{text}\n\n" * 9
    content = cue.encode(encoding) + b"1\n00:00:01,000 --> 00:00:02,000\n" + same + b"\n"
    assert content.decode(encoding).encode(encoding) != content
    assert change_subtitles(content, lambda text: text) == content


@pytest.mark.parametrize("content", [b"", b"x", b"WEBVT\n\n00:01.000 -->\nOne\n"])
def test_a_file_without_cues_is_refused(content, tmp_path):
    with pytest.raises(ValueError, match="it has no line of times, such as 00:00:01,000"):
        texts_of(tmp_path, ".srt", content)


def test_bytes_of_no_encoding_are_refused(tmp_path):
    with pytest.raises(ValueError, match="its encoding is not known; convert it to UTF-8"):
        texts_of(tmp_path, ".srt", bytes(range(128, 256)))
