"""One run on text of several target languages."""

import dataclasses
import re
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf
import yaml

from keras_transformer import Transformer
from keras_transformer.config import DataConfig, DecodingConfig
from keras_transformer.data import encode_pairs
from keras_transformer.export import load_saved_model
from keras_transformer.training import train
from keras_transformer.training.corpora import read_validation, text_facts, training_text
from keras_transformer.training.csv_tables import read_history
from keras_transformer.training.prepare import encode_text, token_batches
from keras_transformer.training.run import prepare
from keras_transformer.training.validation import greedy_validation
from keras_transformer.training.vocabularies import run_languages, run_tokenizers
from keras_transformer.translation import Translator
from tests.helpers.experiment import encoded_text
from tests.helpers.tiny import (
    ROOT,
    export_quickly,
    languages_tokenizer,
    tiny_model,
    tiny_tokenizer,
    toy_experiment,
    toy_pairs,
)

PAGE = (ROOT / "docs" / "training.md").read_text(encoding="utf-8")
SECTION = PAGE.partition("## Several languages")[2].partition("\n## ")[0]
EXAMPLE = yaml.safe_load(re.search("```yaml\n(.*?)```", SECTION, re.DOTALL)[1])["data"]
TAGS = [">>de<<", ">>fr<<"]  # Of ids 4 and 5.
SIZES = {"train": {"de": 270, "fr": 30}, "valid": {"de": 12, "fr": 8}}


@pytest.fixture
def data(tmp_path, monkeypatch):
    """The text of the example in the documentation. French is German in capitals."""
    monkeypatch.chdir(tmp_path)
    for split, sizes in SIZES.items():
        for language, size in sizes.items():
            pairs = toy_pairs(size, seed=size)
            targets = [target if language == "de" else target.upper() for _, target in pairs]
            for side, lines in (("en", [source for source, _ in pairs]), (language, targets)):
                Path(f"{split}_{language}.{side}").write_text("".join(f"{n}\n" for n in lines))
    return EXAMPLE


def test_tags_are_first_tokens_of_the_training_and_validation_text(data):
    config = toy_experiment(data)
    tokenizers, pairs, reports = encoded_text(config, Path("run"))
    assert tokenizers[0].language_tags == TAGS
    assert [report["kept"] for report in reports] == [270, 30]
    assert [report["name"] for report in reports] == [
        "train_de.en and train_de.de (de)",
        "train_fr.en and train_fr.fr (fr)",
    ]
    assert pairs.source_ids[pairs.source_offsets[:-1]].tolist() == [4] * 270 + [5] * 30
    assert np.isin(pairs.source_ids, [4, 5]).sum() == 300  # And nowhere else.
    assert not np.isin(pairs.target_ids, [4, 5]).any()
    sources = [source for source, _ in read_validation(config.data)]
    assert [source[:7] for source in sources] == [">>de<< "] * 12 + [">>fr<< "] * 8
    # Square roots of the sizes, 9 : 1, are 3 : 1, of 300 pairs.
    assert token_batches(config, tokenizers, pairs, reports).weights == [
        (270, pytest.approx(225 / 270)),
        (30, pytest.approx(75 / 30)),
    ]


def test_a_tag_of_a_corpus_joins_its_language(data):
    paths = {"source": "train_de.en", "target": "train_de.de"}
    corpora = [paths | {"language": "de"}, paths | {"language": "de", "tag": "bt"}]
    validation = {"validation_source": "valid_de.en", "validation_target": "valid_de.de"}
    config = toy_experiment({"corpora": corpora, **validation, "validation_languages": ["de"]})
    tokenizers, pairs, reports = encoded_text(config, Path("run"))
    assert tokenizers[0].language_tags == [">>de<<", ">>de_bt<<"]
    assert pairs.source_ids[pairs.source_offsets[:-1]].tolist() == [4] * 270 + [5] * 270
    assert reports[1]["name"] == "train_de.en and train_de.de (de_bt)"
    plain = {"corpora": [paths, paths | {"tag": "bt"}], **validation}
    tokenizers, pairs, _ = encoded_text(toy_experiment(plain), Path("plain"))
    assert tokenizers[0].language_tags == [">>bt<<"]
    assert (pairs.source_ids == 4).sum() == 270
    assert text_facts(DataConfig(**plain)) != text_facts(config.data)


def test_bpe_dropout_keeps_the_tags(data):
    config = toy_experiment({**data, "subword_dropout": 0.5, "temperature": 1})
    batches = token_batches(config, *encoded_text(config, Path("run")))
    first = [inputs["source"][labels[:, 0] > 0, 0] for inputs, labels in batches]
    assert set(np.concatenate(first)) == {4, 5}


def test_an_empty_source_is_dropped_although_it_would_get_a_tag(data):
    text = Path("train_fr.en").read_text()
    Path("train_fr.en").write_text(text.replace(text.splitlines()[3], " ", 1))
    report = prepare(toy_experiment(data), "run")
    assert "(fr): kept 29 of 30 sentence pairs\n  dropped 1 with an empty side" in report


def test_encoded_text_depends_on_the_languages(data):
    config = DataConfig(**data)
    one, other = config.corpora
    swapped = [
        dataclasses.replace(one, language="fr"),
        dataclasses.replace(other, language="de"),
    ]
    turned = dataclasses.replace(config, corpora=swapped)
    plain = dataclasses.replace(
        config,
        corpora=[dataclasses.replace(each, language=None) for each in config.corpora],
        validation_languages=[],
        validation_source="valid_de.en",
        validation_target="valid_de.de",
    )
    facts = [text_facts(each) for each in (config, turned, plain)]
    assert facts[0] != facts[1] != facts[2] != facts[0]
    assert facts[2].keys() == {"files"}  # As before there were tags.
    lists = {
        "train_source": ["train_de.en", "train_fr.en"],
        "train_target": ["train_de.de", "train_fr.fr"],
        "train_languages": ["de", "fr"],
    }
    assert text_facts(dataclasses.replace(config, corpora=[], **lists)) == facts[0]


def test_a_direction_without_text_is_named(data):
    Path("valid_fr.fr").write_text("\n" * 8)
    with pytest.raises(ValueError, match="received 8 pairs without one in valid_fr.en"):
        read_validation(DataConfig(**data))


def test_a_model_to_start_from_must_have_the_tags(data):
    tiny_tokenizer().save("vocabulary.model")
    config = toy_experiment(data)
    start = SimpleNamespace(vocabularies=["vocabulary.model"], path="other")
    message = "must have the tags of data.train_languages; it lacks >>de<< and >>fr<<, and has n"
    with pytest.raises(ValueError, match=message):
        run_tokenizers(config, Path("run"), training_text(config, Path("run")), start)


def test_of_two_vocabularies_the_source_has_the_tags(data):
    sizes = {"vocab_size": 330, "target_vocab_size": 335, "share_embeddings": "none"}
    config = toy_experiment(data, sizes)
    source, target = run_tokenizers(config, Path("run"), training_text(config, Path("run")))
    assert (source.language_tags, target.language_tags) == (TAGS, [])
    assert (source.vocab_size, target.vocab_size) == (330, 335)


@pytest.mark.slow
def test_a_run_and_its_export_translate_into_the_language_of_each_row(data, caplog):
    caplog.set_level("INFO")
    recipe = {"epochs": 20, "batch_tokens": 120, "warmup_steps": 40, "learning_rate_scale": 1.0}
    translate = train(toy_experiment(data, **recipe), "run")
    mixture = "0.83 of train_de.en and train_de.de (de), 2.50 of train_fr.en and train_fr.fr (fr)"
    assert f"times that a pass has each pair: {mixture}" in caplog.messages
    history = read_history("run")
    means = np.mean([history["val_bleu_de"], history["val_bleu_fr"]], axis=0)
    assert history["val_bleu"] == pytest.approx(means)
    best = sorted(path.name for path in Path("run/checkpoints").glob("best-*"))
    assert f"bleu-{means.max():.4f}" in " ".join(best)
    sources = ["one red dog", "big sun runs"]
    german = " ".join(translate([f">>de<< {source}" for source in sources]))
    french = " ".join(translate([f">>fr<< {source}" for source in sources]))
    assert french.isupper() and not any(word.isupper() for word in german.split())
    export_quickly(translate, "exported")
    rows = [f">>{language}<< {source}" for source in sources for language in ("de", "fr", "de")]
    answers = load_saved_model("exported")(tf.constant(rows)).numpy().tolist()
    assert answers == [text.encode() for text in translate(rows)]
    assert [answer.isupper() for answer in answers] == [False, True, False] * 2


LANGUAGES = {"source_language": "eng_Latn", "target_language": "deu_Latn"}
BACK = {"source_language": "deu", "target_language": "eng_Latn"}
DIRECTIONS = {
    "corpora": [{"source": "a.tsv", **LANGUAGES}, {"source": "b.tsv", "weight": 2, **BACK}],
    "validation_source": ["c.tsv", "d.tsv"],
    "validation_languages": ["deu-eng_Latn", "eng_Latn-deu_Latn"],
}


def between_languages(data, model=None, languages=LANGUAGES, **training):
    """An experiment that starts from a model of many languages in "start"."""
    config = toy_experiment(data, model, init_from="start", **training)
    return dataclasses.replace(config, decoding=DecodingConfig(beam_size=1, **languages))


def test_the_text_of_a_model_of_many_languages_begins_with_them():
    tokenizer = languages_tokenizer()
    start, end = tokenizer.languages["eng_Latn"], tokenizer.languages["deu_Latn"]
    texts = [("one red dog", "Hund rot eins"), (" ", "leer"), ("two", "zwei")]
    pairs = encode_pairs(texts, tokenizer, languages=list(LANGUAGES.values()))
    inputs, labels = pairs.padded_batch([0, 1])
    translator = Translator(
        tiny_model(tokenizer.vocab_size), tokenizer, decoding=DecodingConfig(**LANGUAGES)
    )
    source, _ = translator.encode_text(tf.constant(["one red dog", "two"]))
    np.testing.assert_array_equal(inputs["source"], source)
    assert inputs["source"][:, 0].tolist() == [start, start]
    [words] = tokenizer.tokenize(["Hund rot eins"]).to_list()
    assert labels[0].tolist() == [end, *words, 3]
    assert inputs["target"][0].tolist() == [2, end, *words]


@pytest.mark.parametrize(
    ("changes", "tokenizer", "message"),
    [
        ({"languages": {}}, {}, "decoding.source_language must be .* such as eng_Latn; decoding.t"),
        ({"languages": {**LANGUAGES, "target_language": "xx"}}, {}, "must be a .* received 'xx'"),
        ({}, {"comes_last": True}, "begin with their language, received an NLLB with legacy"),
        ({"augment_upper": 0.1}, {}, "data.augment_upper must be 0, received 0.1"),
        ({"languages": {**LANGUAGES, "protect": "all"}, **DIRECTIONS}, {}, "decoding.protect must"),
    ],
)
def test_a_run_has_one_pair_of_the_languages(changes, tokenizer, message):
    data = {"validation_source": "b.tsv", **changes}
    if "corpora" not in data:
        data["train_source"] = "a.tsv"
    languages = {"languages": data.pop("languages", LANGUAGES)}
    with pytest.raises(ValueError, match=message):
        run_languages(between_languages(data, **languages), languages_tokenizer(**tokenizer))


def test_each_corpus_and_each_validation_file_has_its_languages(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    tokenizer = languages_tokenizer()
    english, german = (tokenizer.languages[code] for code in LANGUAGES.values())
    for name, back, count in (("a", 0, 40), ("b", 1, 30), ("c", 1, 3), ("d", 0, 5)):
        rows = [pair[::-1] if back else pair for pair in toy_pairs(count)]
        Path(f"{name}.tsv").write_text("".join("\t".join(row) + "\n" for row in rows))
    config = between_languages(DIRECTIONS, languages={})
    tokenizers = tokenizer, tokenizer
    pairs, reports = encode_text(config, training_text(config, tmp_path / "run"), tokenizers)
    assert [report["name"] for report in reports] == [
        "a.tsv (eng_Latn-deu_Latn)",
        "b.tsv (deu-eng_Latn)",
    ]
    kinds = {(english, german): 0, (german, english): 0}
    words = {language: set() for language in (english, german)}
    for inputs, labels in token_batches(config, tokenizers, pairs, reports):
        for source, target, label in zip(inputs["source"], inputs["target"], labels, strict=True):
            if source[0]:
                kinds[source[0], label[0]] += 1
                assert (target[0], target[1]) == (2, label[0])
                words[source[0]].add(tokenizer.detokenize([source[1:][source[1:] > 3]]).numpy()[0])
                words[label[0]].add(tokenizer.detokenize([label[1:][label[1:] > 3]]).numpy()[0])
    assert list(kinds.values()) == [40, 60]
    assert words[english].isdisjoint(words[german])

    held_out = read_validation(config.data)
    model = tiny_model(tokenizer.vocab_size)
    config = dataclasses.replace(config, model=model.config)
    validation = greedy_validation(config, model, tokenizers, held_out, 100)
    [(inputs, labels)] = validation.dataset
    assert sorted(zip(inputs["source"][:, 0].numpy(), labels[:, 0].numpy(), strict=True)) == sorted(
        3 * [(german, english)] + 5 * [(english, german)]
    )
    scores = validation.measure()
    assert [name for name in scores if name.startswith("val_bleu_")] == [
        "val_bleu_deu-eng_Latn",
        "val_bleu_eng_Latn-deu_Latn",
    ]
    for place, named in ((0, BACK), (7, LANGUAGES)):
        source = held_out[place][0].partition("<< ")[2]
        translator = Translator(model, tokenizer, decoding=DecodingConfig(beam_size=1))
        assert validation.translations[place] == translator(source, **named)


def test_the_languages_of_corpora_need_a_model_of_many():
    with pytest.raises(ValueError, match="need a training.init_from .* eng_Latn-deu_Latn, deu-eng"):
        run_languages(between_languages(DIRECTIONS, languages={}), tiny_tokenizer())


@pytest.mark.slow
def test_a_model_of_many_languages_learns_a_pair_of_them(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    tokenizer = languages_tokenizer()
    sizes = {"norm": "pre", "position": "tensor2tensor", "position_offset": 2}
    sizes |= {"vocab_size": tokenizer.vocab_size, "d_model": 64}
    recipe = {"epochs": 14, "batch_tokens": 250, "warmup_steps": 40, "learning_rate_scale": 0.3}
    pairs = toy_pairs(10)
    for name, lines in zip(("en", "de"), zip(*pairs, strict=True), strict=True):
        Path(name).write_text("".join(f"{line}\n" for line in 50 * lines))
        Path(f"valid.{name}").write_text("".join(f"{line}\n" for line in lines))
    data = {"train_source": "en", "train_target": "de"}
    data |= {"validation_source": "valid.en", "validation_target": "valid.de"}
    config = between_languages(data, sizes, **recipe)
    Translator(Transformer(config.model), tokenizer).save("start")
    translate = train(config, "run")
    answers = translate([source for source, _ in pairs])
    assert answers == [target for _, target in pairs]
    loaded = load_saved_model(export_quickly(Translator.load("run"), "exported"))
    assert loaded(pairs[0][0]) == answers[0]
