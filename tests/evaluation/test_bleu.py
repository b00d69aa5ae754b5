import json
import math
from pathlib import Path

import pytest
import sacrebleu

from keras_transformer.evaluation import Scores, length_problem, score

REFERENCES = ["Ein Hund rennt sehr schnell.", "Zwei Kinder lesen ein Buch.", "Es regnet heute."]
HYPOTHESES = ["Ein Hund rennt schnell.", "Zwei Kinder lesen das Buch.", "Heute regnet es."]


def test_scores_are_those_of_sacrebleu_with_its_settings_and_version():
    scores = score(HYPOTHESES, REFERENCES)
    assert scores.bleu == sacrebleu.corpus_bleu(HYPOTHESES, [REFERENCES]).score
    assert scores.chrf == sacrebleu.corpus_chrf(HYPOTHESES, [REFERENCES]).score
    assert scores.sentences == 3
    version = sacrebleu.__version__
    assert scores.signature == f"nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:{version}"
    assert scores.chrf_signature == (
        f"nrefs:1|case:mixed|eff:yes|nc:6|nw:0|space:no|version:{version}"
    )
    perfect = score(REFERENCES, REFERENCES)
    assert (perfect.bleu, perfect.chrf) == pytest.approx((100, 100))


@pytest.mark.parametrize(
    ("text", "tokenizer"),
    [
        (["今天天气很好。", "我用 Linux 和 Firefox 浏览器。"], "zh"),
        (["犬が走っている。", "日本語のテスト文字列です。"], "char"),
        (["สุนัขกำลังวิ่งอยู่บนชายหาด", "แมวนอนหลับ"], "char"),
        (["개가 해변을 달린다 .", "고양이가 집에서 잔다 ."], "13a"),
        (["Собака бежит по пляжу.", "Кот спит на солнце."], "13a"),
        (["A film called 東京物語 was shown here.", "Many people liked it."], "13a"),
        (["犬が砂浜を走っている。", "Ein Hund rennt am Strand."], "13a"),
        (["犬が砂浜を走っている。", "猫が寝ている。", "Ein Hund rennt am Strand."], "char"),
    ],
)
def test_text_without_spaces_has_a_tokenizer_that_divides_it(text, tokenizer):
    scores = score(text, text)
    assert f"|tok:{tokenizer}|" in scores.signature
    assert scores.bleu == pytest.approx(100)
    changed = [text[0][:-3] + text[0][-1], *text[1:]]
    expected = sacrebleu.corpus_bleu(changed, [text], tokenize=tokenizer).score
    assert score(changed, text).bleu == pytest.approx(expected)
    assert 30 < expected < 99


def test_the_length_of_text_without_spaces_is_that_of_its_characters():
    assert length_problem(["今天"], ["今天天气很好"]).startswith(
        "the translations have 33% of the characters of the references"
    )
    assert length_problem(["今天天气好"], ["今天天气很好"]) is None


def test_bleu_is_the_geometric_mean_of_precisions():
    # Of the n-grams 5/6, 4/5, 3/4 and 2/3 are right; their geometric mean is (1/3)^(1/4).
    assert score(["a b c d e f"], ["a b c d e g"]).bleu == pytest.approx(100 * (1 / 3) ** 0.25)


def test_the_corpus_is_scored_as_a_whole():
    # All of 5 words are right, then all but their order: n-grams of both count together.
    scores = score(["a b c d e", "v w x y z"], ["a b c d e", "v w x z y"])
    expected = 100 * (10 / 10 * 6 / 8 * 4 / 6 * 2 / 4) ** 0.25
    assert scores.bleu == pytest.approx(expected)


def test_case_counts_and_punctuation_is_split_off():
    assert score(["ein hund rennt weg ."], ["ein hund rennt weg."]).bleu == pytest.approx(100)
    assert score(["Ein Hund rennt weg."], ["ein Hund rennt weg."]).bleu < 90


def test_hypotheses_and_references_are_not_interchangeable():
    # A word too many lowers precision; a word too few lowers the brevity penalty.
    long, short = ["a b c d e"], ["a b c d"]
    assert score(long, short).bleu == pytest.approx(100 * (4 / 5 * 3 / 4 * 2 / 3 * 1 / 2) ** 0.25)
    assert score(short, long).bleu == pytest.approx(100 * math.exp(1 - 5 / 4))


def test_sentences_are_compared_in_order():
    assert score(["e f g h", "a b c d"], ["a b c d", "e f g h"]).bleu == 0


def test_the_printed_line_has_both_scores_with_their_signatures():
    scores = Scores(41.2345, 62.345, "nrefs:1|version:9", "nc:6|version:9", 1014)
    line = "BLEU 41.23 (nrefs:1|version:9), chrF 62.34 (nc:6|version:9), sentences: 1,014"
    assert str(scores) == line


def test_scores_survive_the_json_round_trip(tmp_path):
    scores = score(HYPOTHESES, REFERENCES)
    path = tmp_path / "scores.json"
    path.write_text("an older file")
    scores.to_json(path)
    values = json.loads(path.read_text(encoding="utf-8"))
    assert list(values) == [
        *("bleu", "chrf", "signature", "chrf_signature", "sentences", "published")
    ]
    assert Scores(**values) == scores
    assert [file.name for file in tmp_path.iterdir()] == ["scores.json"]


def test_an_interrupted_write_keeps_the_older_file(tmp_path, monkeypatch):
    path = tmp_path / "scores.json"
    path.write_text("an older file")

    def write_half(self, text, encoding):
        self.write_bytes(text.encode(encoding)[:9])
        raise OSError("disk full")

    monkeypatch.setattr(Path, "write_text", write_half)
    with pytest.raises(OSError, match="disk full"):
        score(HYPOTHESES, REFERENCES).to_json(path)
    assert path.read_text() == "an older file"


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        ((HYPOTHESES[:2], REFERENCES), "2 hypotheses and 3 references"),
        (([], []), "at least one sentence, received an empty list"),
    ],
)
def test_each_hypothesis_needs_a_reference(texts, message):
    with pytest.raises(ValueError, match=message):
        score(*texts)
