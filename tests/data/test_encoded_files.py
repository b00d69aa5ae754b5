import json
import os
import subprocess
import sys
import time

import numpy as np
import pytest

from keras_transformer.data import EncodedPairs, encode_pairs, encoded_files
from keras_transformer.data.cleaning import CleaningRules
from keras_transformer.data.encoded_files import Corpus, encode_to_files
from keras_transformer.text import SentencePieceTokenizer, train_sentencepiece
from tests.helpers.pairs import assert_same_pairs
from tests.helpers.tiny import ROOT, languages_tokenizer, tiny_tokenizer, toy_pairs

PAIRS = [("", "leer"), *toy_pairs(70), ("one", " "), ("one " * 9, "eins"), *toy_pairs(12)]
RULES = CleaningRules(max_length=8)


@pytest.fixture(autouse=True)
def small_steps(monkeypatch):
    monkeypatch.setattr(encoded_files, "_CHUNKS_PER_STEP", 2)
    monkeypatch.setattr("keras_transformer.data.encoding._LINES_AT_ONCE", 10)


def tokenizers():
    return tiny_tokenizer(), tiny_tokenizer()


def encode(directory, pairs=PAIRS, rules=RULES, names="a"):
    parts = [Corpus(name, lambda i=i: iter(pairs[i :: len(names)])) for i, name in enumerate(names)]
    return encode_to_files(parts, tokenizers(), rules, directory)


def copied(pairs):
    """Return pairs that are in memory, for when their files change."""
    return EncodedPairs(*(array.copy() for side in pairs.sides for array in side))


def test_files_have_what_encode_pairs_returns(tmp_path, caplog):
    caplog.set_level("INFO", logger="keras_transformer")
    encoded, [report] = encode(tmp_path / "text")
    expected = encode_pairs(PAIRS, *tokenizers(), max_length=8)
    assert_same_pairs(encoded, expected)
    assert report == {
        "name": "a",
        "read": 85,
        "kept": 82,
        "dropped": {"empty": 2, "too_long": 1, "length_ratio": 0, "duplicate": 0},
    }
    inputs, labels = encoded.padded_batch([4, -1, 30])
    wanted, wanted_labels = expected.padded_batch([4, -1, 30])
    assert inputs["source"].dtype == labels.dtype == np.int32
    assert inputs["source"].tolist() == wanted["source"].tolist()
    assert labels.tolist() == wanted_labels.tolist()
    lines = [message for message in caplog.messages if message.startswith("kept")]
    assert len(set(lines)) == 1
    sizes = {path.suffix: path.stat().st_size for path in (tmp_path / "text").glob("source.*")}
    assert sizes == {".ids": 2 * len(expected.source_ids), ".offsets": 8 * 83}


def test_a_large_vocabulary_takes_four_bytes_a_token(tmp_path, monkeypatch):
    monkeypatch.setattr(type(tiny_tokenizer()), "encode", lambda self, texts: large(len(texts)))
    tokenizer = tiny_tokenizer()
    monkeypatch.setattr(tokenizer, "vocab_size", 2**16 + 1)
    encoded, _ = encode(tmp_path)
    assert encoded.source_ids.dtype == np.int32
    assert set(encoded.source_ids.tolist()) == {2**16}


def large(number):
    return np.full(2 * number, 2**16, np.int32), np.full(number, 2)


def test_files_are_made_once(tmp_path):
    first, reports = encode(tmp_path)
    before = {path: path.stat().st_mtime_ns for path in tmp_path.iterdir()}

    def pairs():
        raise AssertionError("The text is read again.")

    again, same_reports = encode_to_files([Corpus("a", pairs)], tokenizers(), RULES, tmp_path)
    assert_same_pairs(first, again)
    assert same_reports == reports
    after = {path: path.stat().st_mtime_ns for path in tmp_path.glob("*.ids")}
    assert after.items() <= before.items()


@pytest.mark.parametrize("end", [0, 7, 25, 44, 84])
def test_an_encoding_goes_on_after_its_last_record(tmp_path, end, monkeypatch):
    expected, reports = encode(tmp_path / "whole", names="ab")

    def ends():
        yield from PAIRS[: end // 2]
        raise KeyboardInterrupt

    def parts(broken):
        yield Corpus("a", lambda: iter(PAIRS[::2]))
        yield Corpus("b", ends if broken else lambda: iter(PAIRS[1::2]))

    with pytest.raises(KeyboardInterrupt):
        encode_to_files([*parts(True)], tokenizers(), RULES, tmp_path / "text")
    for path in (tmp_path / "text").glob("*.ids"):  # What the record does not say is lost.
        path.write_bytes(path.read_bytes() + b"torn")
    (tmp_path / "text" / "writing-0-record.json").touch()
    tokenized = []
    encode_method = SentencePieceTokenizer.encode

    def count(self, texts):
        tokenized.append(len(texts))
        return encode_method(self, texts)

    monkeypatch.setattr(SentencePieceTokenizer, "encode", count)
    # The text before the end was another's, as far as it was kept.
    encoded, received = encode(tmp_path / "text", names="ab")
    if end == 0:
        assert_same_pairs(encoded, expected)
        assert received == reports
    assert sum(tokenized) <= 2 * (len(PAIRS) - 43)
    assert not list((tmp_path / "text").glob("writing-*"))


@pytest.mark.parametrize("damage", ["record", "shorter", "missing"])
def test_damaged_files_are_made_anew(tmp_path, damage, caplog):
    expected = copied(encode(tmp_path)[0])
    if damage == "record":
        (tmp_path / "record.json").write_text("{")
    elif damage == "shorter":
        os.truncate(tmp_path / "target.ids", 9)
    else:
        (tmp_path / "source.offsets").unlink()
    encoded, _ = encode(tmp_path)
    assert_same_pairs(encoded, expected)
    assert f"the encoded text in {tmp_path} is damaged and made again" in caplog.messages


@pytest.mark.parametrize("name", ["source.ids", "target.offsets", "record.json"])
def test_a_flipped_bit_is_found(tmp_path, name, monkeypatch):
    encode(tmp_path)
    (tmp_path / "SHA256SUMS").unlink()  # Of an earlier version, or of a process that was killed.
    with monkeypatch.context() as context:
        context.setattr(encoded_files, "record_files", unwritable)
        encode(tmp_path)
    expected = copied(encode(tmp_path)[0])
    content = (tmp_path / name).read_bytes()
    place = content.index(b'"a"') + 1 if name == "record.json" else len(content) // 2
    (tmp_path / name).write_bytes(content[:place] + b"x" + content[place + 1 :])
    with pytest.raises(ValueError, match=f"{name} is damaged: .*. Delete it, and the text is enco"):
        encode(tmp_path)
    (tmp_path / name).unlink()
    assert_same_pairs(encode(tmp_path)[0], expected)


def unwritable(*arguments):
    raise OSError("Read-only file system")


def test_rules_drop_pairs_for_the_first_reason(tmp_path):
    pairs = [
        ("one two", "eins zwei"),
        ("one two three red", "eins"),
        (" one two", "eins zwei "),
        ("one", ""),
        ("one", ""),
        ("one two", "eins"),
    ]
    rules = CleaningRules(max_length=30, max_length_ratio=2, drop_duplicates=True)
    encoded, reports = encode(tmp_path, pairs, rules, names="ab")
    assert [report["dropped"] for report in reports] == [
        {"empty": 1, "too_long": 0, "length_ratio": 0, "duplicate": 1},
        {"empty": 1, "too_long": 0, "length_ratio": 1, "duplicate": 0},
    ]
    encoded, [report] = encode(tmp_path / "one", pairs, rules)
    assert report["dropped"] == {"empty": 2, "too_long": 0, "length_ratio": 1, "duplicate": 1}
    assert len(encoded) == report["kept"] == 2


@pytest.mark.parametrize("has_tags", [True, False])
def test_pairs_for_other_languages_are_no_duplicates(tmp_path, has_tags):
    pairs, rules = toy_pairs(4), CleaningRules(drop_duplicates=True)
    if has_tags:
        tokenizer, tags, languages = tiny_tokenizer(), ["de", "fr", "de"], ()
    else:
        codes = "deu_Latn", "zho_Hans", "deu_Latn"
        tokenizer, tags = languages_tokenizer(), ["", "", ""]
        languages = [("eng_Latn", code) for code in codes]
    corpora = [Corpus("a", lambda: iter(pairs), tag) for tag in tags]
    _, reports = encode_to_files(
        corpora, (tokenizer, tokenizer), rules, tmp_path, languages=languages
    )
    assert [report["kept"] for report in reports] == [4, 4, 0]


def test_wrong_rules_are_refused():
    with pytest.raises(ValueError, match="max_length_ratio must be at least 1, received 0.5"):
        CleaningRules(max_length_ratio=0.5)


def test_text_without_a_usable_pair_is_refused_each_time(tmp_path):
    for _ in range(2):
        with pytest.raises(ValueError, match="received 2 pairs: 2 with an empty side"):
            encode(tmp_path, [("", "a"), ("a", "")])


KILLED = """
import sys, time
from pathlib import Path
from keras_transformer.data import encoded_files, encoding
from keras_transformer.data.cleaning import CleaningRules
from keras_transformer.data.sources import stream_pairs
from keras_transformer.text import SentencePieceTokenizer

encoding._LINES_AT_ONCE, encoded_files._CHUNKS_PER_STEP = 100, 2
text, vocabulary, directory = sys.argv[1:]
tokenizer = SentencePieceTokenizer.from_file(vocabulary)

def pairs():
    for pair in stream_pairs(text):
        time.sleep(0.0005)
        yield pair

encoded_files.encode_to_files(
    [encoded_files.Corpus("a", pairs)], (tokenizer, tokenizer), CleaningRules(), Path(directory)
)
"""


def pairs_read(record):
    return json.loads(record.read_text())["corpora"][0]["read"]


@pytest.mark.slow
def test_an_encoding_that_is_killed_goes_on(tmp_path):
    pairs = toy_pairs(3000)
    (tmp_path / "text.tsv").write_text("".join(f"{s}\t{t}\n" for s, t in pairs), encoding="utf-8")
    tokenizer = SentencePieceTokenizer(train_sentencepiece([s + t for s, t in pairs], 300))
    tokenizer.save(tmp_path / "v.model")
    arguments = [tmp_path / "text.tsv", tmp_path / "v.model", tmp_path / "encoded"]
    command = [sys.executable, "-c", KILLED, *map(str, arguments)]
    record, read = tmp_path / "encoded" / "record.json", [0]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    for _ in range(2):
        with subprocess.Popen(command, env=environment) as process:
            while not record.exists() or pairs_read(record) <= read[-1]:
                assert process.poll() is None
            time.sleep(0.15)
            process.kill()
        read.append(pairs_read(record))
    assert 0 < read[1] < read[2] < len(pairs)
    subprocess.run(command, env=environment, check=True)
    encoded, [report] = encode_to_files(
        [Corpus("a", lambda: iter(()))],
        (tokenizer, tokenizer),
        CleaningRules(),
        tmp_path / "encoded",
    )
    assert report["read"] == 3000
    assert_same_pairs(encoded, encode_pairs(pairs, tokenizer))
