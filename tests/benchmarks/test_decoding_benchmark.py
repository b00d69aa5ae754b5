import os
import sys
from pathlib import Path

import pytest

from benchmarks import decoding, training
from benchmarks.text import made_up_pairs
from benchmarks.turns import Measurement, measure
from keras_transformer.config import DecodingConfig
from keras_transformer.export import signatures
from keras_transformer.text import SentencePieceTokenizer, train_sentencepiece
from keras_transformer.translation import compiled_search
from keras_transformer.translation.translator import Translator
from tests.helpers.tiny import tiny_model, tiny_tokenizer, toy_sentences

pytest.importorskip("ctranslate2", reason="CTranslate2 is not installed")

SENTENCES = ["two dogs", "", *toy_sentences(4)]  # Of different lengths.


@pytest.mark.slow
@pytest.mark.parametrize(("beam_size", "ours"), [(1, ["ours, portable"]), (3, list(decoding.OURS))])
def test_all_engines_generate_the_same_number_of_tokens(beam_size, ours, tmp_path, monkeypatch):
    monkeypatch.setattr(compiled_search, "BATCH_SIZES", (4,))  # Compiles a single shape.
    monkeypatch.setattr(signatures, "METHODS", {"attend": "attention"})  # What the engines use.
    lengths = {"min_length": 4, "max_length": 5, "max_source_length": 16}
    search = DecodingConfig(beam_size=beam_size, length_penalty=0.0, **lengths)
    translator = Translator(tiny_model(), tiny_tokenizer(), decoding=search)
    exports = decoding.export(translator, tmp_path, ours)
    assert exports.keys() == {*ours, "CTranslate2"}
    if "ours, bfloat16" in ours:
        half, whole = (
            sum(path.stat().st_size for path in (exports[f"ours, {kind}"] / "variables").iterdir())
            for kind in ("bfloat16", "portable")
        )
        assert half < 0.7 * whole
    found = decoding.compare(
        translator, exports, SENTENCES, batch_size=4, repeats=2, threads=2, peers={}
    )
    assert found.keys() == exports.keys()
    for name, measurement in found.items():
        assert [len(tokens) for tokens in measurement.tokens] == [5, 0, 5, 5, 5, 5]
        if beam_size == 1:
            assert measurement.share_same(found["CTranslate2"]) == 1
        assert len(measurement.seconds) == len(measurement.other_cores) == 2
        assert measurement.threads == 2 or name == "CTranslate2" and measurement.threads == 1
        assert 1e7 < measurement.peak_memory < 1e10
        assert measurement.tokens_per_second > 0
    for name in set(ours) - {"ours, bfloat16"}:
        assert found[name].texts == translator(SENTENCES)
    assert found["ours, portable"].version.startswith("TensorFlow ")
    assert found["CTranslate2"].version.startswith("CTranslate2 ")


@pytest.mark.slow
@pytest.mark.parametrize("module", [decoding, training])
def test_the_generated_text_is_enough_for_the_vocabulary(module):
    lines = (line for pair in made_up_pairs(20_000) for line in pair)
    tokenizer = SentencePieceTokenizer(train_sentencepiece(lines, module.VOCAB_SIZE))
    assert tokenizer.vocab_size == module.VOCAB_SIZE


def measured(tokens, seconds=(1.0,), threads=2):
    texts = [" ".join(row) for row in tokens]
    others = [0.3] * len(seconds)
    return Measurement(threads, list(seconds), others, 3_000_000, "engine 1", tokens, texts)


def test_a_row_has_threads_speed_spread_ratio_and_agreement():
    ours = measured([["a", "b"], ["c"], ["d"], ["e"]], seconds=[1.0, 0.5, 2.5])
    theirs = measured([["a", "b"], ["c"], ["x"], ["e"]], seconds=[0.5])
    row = decoding.table_row("tiny", "greedy", 64, "ours, portable", ours, theirs)
    assert row == "| tiny | greedy | 64 | ours, portable | 2 | 5 | 200% | 0.50 | 75.0% | 3 | 0.3 |"
    theirs.texts[0] = "A b"  # Equal tokens with another text do not agree.
    assert ours.share_same(theirs) == 0.5
    ours.texts = []  # As those of a peer with other weights.
    row = decoding.table_row("base", "beam 4", 1, "KerasHub", ours, theirs)
    assert row == "| base | beam 4 | 1 | KerasHub | 2 | 5 | 200% | 0.50 |  | 3 | 0.3 |"


@pytest.mark.slow
@pytest.mark.parametrize("beam_size", [1, 3])
def test_a_peer_generates_the_given_number_of_tokens(beam_size):
    pytest.importorskip("keras_hub", reason="KerasHub is not installed")
    sizes = {"vocab_size": 30, "num_layers": 2, "d_model": 16, "d_ff": 24, "num_heads": 2}
    task = {
        "engine": "KerasHub",
        "threads": 1,
        "options": sizes | {"beam_size": beam_size, "length": 5},
        "batches": [[[5, 6, 7, 3], [8, 3]], [[9, 10, 3]]],
    }
    found = measure({"KerasHub": task}, repeats=2)["KerasHub"]
    assert [len(row) for row in found.tokens] == [5, 5, 5] and found.texts == []
    assert {int(token) for row in found.tokens for token in row} <= {*range(30)}
    assert found.version.startswith("KerasHub ")


def test_opennmt_is_measured_if_its_python_is_given():
    assert "OpenNMT-tf" not in decoding.installed_peers(None)
    peers = decoding.installed_peers(os.path.relpath(sys.executable))
    assert peers["OpenNMT-tf"] == os.path.abspath(sys.executable)


@pytest.fixture
def compare(monkeypatch):
    """Compare without engines that translate; return the tasks and what was found."""

    def compare(search, seconds=(1.0, 1.0), **settings):
        asked, times = {}, iter(seconds)

        def measure(tasks, repeats):
            asked.update(tasks)
            return {
                name: measured([["▁red"]] * len(SENTENCES), [next(times, 1.0)], task["threads"])
                for name, task in tasks.items()
            }

        monkeypatch.setattr(decoding, "measure", measure)
        translator = Translator(tiny_model(), tiny_tokenizer(), decoding=search)
        exports, settings = (
            {"CTranslate2": Path("model")},
            {"batch_size": 4, "repeats": 1} | settings,
        )
        return asked, decoding.compare(translator, exports, SENTENCES, **settings)

    return compare


def test_peers_get_the_sizes_of_the_model_and_ids_with_eos(compare):
    lengths = {"min_length": 4, "max_length": 5, "max_source_length": 16}
    search = DecodingConfig(beam_size=3, length_penalty=0.0, **lengths)
    asked, found = compare(search, threads=2, peers={"OpenNMT-tf": "/python3.10"})
    assert found.keys() == {"CTranslate2", "OpenNMT-tf"}
    task, theirs = asked["OpenNMT-tf"], asked["CTranslate2, threads: 2"]
    assert theirs["threads"] == 2 and asked["CTranslate2, threads: 1"]["threads"] == 1
    assert (task["python"], task["threads"]) == ("/python3.10", 2)
    sizes = {"vocab_size": 380, "num_layers": 2, "d_model": 12, "d_ff": 20, "num_heads": 3}
    assert task["options"] == sizes | {"beam_size": 3, "length": 5}
    for rows, tokens in zip(task["batches"], theirs["batches"], strict=True):
        assert [len(row) - 1 for row in rows] == [len(row) for row in tokens]
        assert {row[-1] for row in rows} == {3}


@pytest.mark.parametrize("times, best", [((1.0, 2.0), 1), ((2.0, 1.0), 4)])
def test_ctranslate2_is_compared_at_its_best_number_of_threads(times, best, compare):
    _, found = compare(DecodingConfig(beam_size=1), times, threads=4, peers={})
    assert found["CTranslate2"].threads == best


@pytest.mark.slow
def test_the_error_of_a_failed_engine_includes_its_log(tmp_path):
    task = {"engine": "SavedModel", "threads": 1, "options": {"path": str(tmp_path)}}
    with pytest.raises(RuntimeError, match="engine failed:\n(.|\n)*SavedModel file does not exist"):
        measure({"ours": task | {"batches": []}}, repeats=1)


@pytest.mark.parametrize("flags", [[], ["--bfloat16"]], ids=["float32", "bfloat16"])
def test_the_report_has_a_row_for_each_engine_and_cell(flags, capsys, tmp_path, monkeypatch):
    translator = Translator(tiny_model(), tiny_tokenizer(), decoding=DecodingConfig(beam_size=1))
    monkeypatch.setattr(decoding, "translators", lambda *_: [("trained", translator)])
    exported, asked = [], []
    monkeypatch.setattr(decoding, "export", lambda *given: exported.append(given[-1]))

    def compare(translator, exports, sentences, *, batch_size, **options):
        asked.append((sentences, batch_size, options))
        tokens = [[word, "</s>"] for word in sentences]
        return {"ours": measured(tokens), "CTranslate2": measured(tokens)}

    monkeypatch.setattr(decoding, "compare", compare)
    monkeypatch.setattr(decoding, "SENTENCES", {"trained": {64: 1000, 1: 2}})
    for name, words in (("source", "one two three four"), ("reference", "eins zwei drei vier")):
        (tmp_path / name).write_text(words.replace(" ", "\n") + "\n")
    decoding.main(
        ["--source", str(tmp_path / "source"), "--reference", str(tmp_path / "reference")]
        + ["--repeats", "1", "--threads", "3", "--output", str(tmp_path / "report"), *flags]
    )
    assert exported == [["ours, portable", "ours, compiled", *["ours, bfloat16"] * len(flags)]]
    options = {"repeats": 1, "threads": 3, "peers": {}}
    assert asked == [("one two three four".split(), 64, options), (["one", "three"], 1, options)]
    printed = capsys.readouterr().out
    assert printed == (tmp_path / "report").read_text()
    lines = printed.splitlines()
    rows = [line.split(" | ")[2:4] for line in lines if line.startswith("| trained")]
    assert rows == [[size, name] for size in ("64", "1") for name in ("ours", "CTranslate2")]
    assert sum("BLEU" in line for line in lines) == 4
    assert "engine 1." in printed and "ran with 1 and 3;" in printed
