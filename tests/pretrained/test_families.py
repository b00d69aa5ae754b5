"""Models of many languages: the same ids, logits and translations as Hugging Face's."""

import json
from dataclasses import replace

import numpy as np
import pytest
import tensorflow as tf

from keras_transformer import Transformer
from keras_transformer.config import DecodingConfig
from keras_transformer.data import TokenBatches, encode_pairs
from keras_transformer.export import export_ctranslate2, export_saved_model, load_saved_model
from keras_transformer.losses import LabelSmoothedCrossEntropy
from keras_transformer.optimizers import FusedAdam
from keras_transformer.pretrained import import_model, save_hugging_face
from keras_transformer.pretrained.hugging_face import read_hugging_face
from keras_transformer.text import SentencePieceTokenizer, train_sentencepiece
from keras_transformer.training import train
from keras_transformer.translation.languages import find_language
from keras_transformer.translation.restriction import restrict_vocabulary
from keras_transformer.translation.translator import Translator
from pipelines import client, export
from pipelines.cli.text import one_line
from tests.helpers.model_server import ModelServer
from tests.helpers.tiny import export_quickly, toy_experiment

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
transformers = pytest.importorskip("transformers", reason="transformers is not installed")
models = pytest.importorskip("tests.helpers.multilingual_models")

pytestmark = [pytest.mark.parity, pytest.mark.slow]

CASES = {
    "m2m100": {"family": "m2m100", "search": {"early_stopping": True, "num_beams": 5}},
    "m2m100_untied": {
        "family": "m2m100",
        "tie_word_embeddings": False,
        "scale_embedding": False,
        "encoder_layers": 3,
        "decoder_layers": 1,
        "max_shard_size": "50KB",
    },
    "nllb": {"family": "nllb", "search": {"forced_eos_token_id": None, "max_length": 30}},
    "nllb_legacy": {"family": "nllb", "legacy": True, "activation_function": "gelu"},
    "mbart50": {"family": "mbart50", "search": {"early_stopping": True}},
    "mbart50_untied": {
        "family": "mbart50",
        "tie_word_embeddings": False,
        "activation_function": "swish",
        "decoder_attention_heads": 2,
        "decoder_ffn_dim": 24,
        "search": {"length_penalty": 0.5},
    },
}


def their_ids(folder):
    """Return their id of each of ours; -1 if it has none."""
    order = read_hugging_face(folder).source.order
    return np.array([-1 if i is None else i for i in order])


class Pair:
    """A model of Hugging Face and ours."""

    def __init__(self, folder, name):
        case = dict(CASES[name])
        self.family = case.pop("family")
        self.codes = models.CODES[self.family]
        seed = list(CASES).index(name)
        self.theirs, self.tokenizer = models.write_model(folder, self.family, seed=seed, **case)
        self.folder, self.ours = folder, import_model(folder)
        self.order = their_ids(folder)
        self.tokenizer.src_lang = self.codes[0]

    def ids(self, texts):
        ids, _ = self.ours.encode_text(tf.constant(texts), self.language(0, len(texts)))
        return ids.numpy()

    def language(self, number, count):
        return tf.fill([count], self.ours.tokenizer.languages[self.codes[number]])

    def generate(self, texts, number, **options):
        """Return their ids for texts, after the token that the decoder starts from."""
        is_m2m100 = self.family == "m2m100"
        find = self.tokenizer.get_lang_id if is_m2m100 else self.tokenizer.convert_tokens_to_ids
        encoded = self.tokenizer(texts, return_tensors="pt", padding=True)
        found = self.theirs.generate(
            **encoded, forced_bos_token_id=find(self.codes[number]), **options
        )
        return [ids[ids != 1].tolist() for ids in found[:, 1:].numpy()]


@pytest.fixture(scope="module", params=CASES)
def pair(request, tmp_path_factory):
    return Pair(tmp_path_factory.mktemp(request.param), request.param)


def test_the_ids_are_the_same(pair):
    texts = models.sentences(400)
    found = [pair.order[row[row != 0]].tolist() for row in pair.ids(texts)]
    for text, ids, expected in zip(texts, found, pair.tokenizer(texts).input_ids, strict=True):
        assert ids == expected, text


@pytest.mark.parametrize("pair", ["m2m100", "nllb", "mbart50"], indirect=True)
def test_the_text_of_a_training_run_has_their_ids(pair):
    texts = texts_of(100)
    directions = pair.codes[:2], pair.codes[1::-1]
    columns = [[directions[i % 2][side] for i in range(len(texts))] for side in (0, 1)]
    encoded = encode_pairs(
        zip(texts, texts[::-1], strict=True), pair.ours.tokenizer, languages=columns
    )
    inputs, labels = encoded.padded_batch(range(len(texts)))
    for i, codes in enumerate(directions):
        pair.tokenizer.src_lang, pair.tokenizer.tgt_lang = codes
        theirs = pair.tokenizer(texts[i::2], text_target=texts[::-1][i::2])
        for rows, expected in ((inputs["source"], theirs.input_ids), (labels, theirs.labels)):
            assert [pair.order[row[row != 0]].tolist() for row in rows[i::2]] == expected
    pair.tokenizer.src_lang = pair.codes[0]


def test_lora_learns_two_directions_and_is_merged_in_an_export(tmp_path):
    models.write_model(tmp_path / "theirs", "nllb", search={"max_length": 60}, dropout=0.0)
    translator = import_model(tmp_path / "theirs")
    english, german, _ = models.CODES["nllb"]
    texts = models.TEXTS[:2]
    columns = [english, german], [german, english]
    model = translator.model
    before = {weight.path: weight.numpy() for weight in model.weights}
    model.enable_lora(rank=8, targets=("attention", "feed_forward", "embedding"))
    pairs = 20 * list(zip(texts, texts[::-1], strict=True))
    encoded = encode_pairs(pairs, translator.tokenizer, languages=[20 * c for c in columns])
    model.compile(FusedAdam(0.01), LabelSmoothedCrossEntropy(0.0), jit_compile=False)
    model.fit(TokenBatches(encoded, batch_tokens=1000).dataset(), epochs=40, verbose=0)
    named = dict(zip(("source_language", "target_language"), columns, strict=True))
    assert translator(texts, **named) == texts[::-1]

    translator.save(tmp_path / "saved")
    saved = Translator.load(tmp_path / "saved", source_language=german, target_language=english)
    assert not saved.model.has_lora
    changed = [w.path for w in saved.model.weights if (w.numpy() != before[w.path]).any()]
    assert changed and all(path.endswith(("_kernel", "/embeddings")) for path in changed)
    assert load_saved_model(export_quickly(saved, tmp_path / "model"))(texts[1]) == texts[0]


def test_the_logits_are_the_same(pair):
    texts = models.sentences(20)
    source, vocab_size = pair.ids(texts), len(pair.order)
    target = np.random.default_rng(7).integers(4, vocab_size, [20, 12], "int32")
    target[:, 0], target[:, 1] = 2, pair.language(1, 20)
    theirs = torch.tensor(pair.order[source])
    with torch.no_grad():
        expected = pair.theirs(
            input_ids=theirs,
            attention_mask=theirs != 1,
            decoder_input_ids=torch.tensor(np.where(target == 2, 2, pair.order[target])),
        ).logits.numpy()
    received = np.array(pair.ours.model({"source": source, "target": target}, training=False))
    ours = [i for i in range(vocab_size) if i != 2]  # They start from another of their tokens.
    np.testing.assert_allclose(received[:, :, ours], expected[:, :, pair.order[ours]], atol=1e-4)
    assert np.abs(expected).max() > 5


def loaded_by_transformers(folder):
    model = transformers.AutoModelForSeq2SeqLM.from_pretrained(folder).eval()
    return model, transformers.AutoTokenizer.from_pretrained(folder)


def texts_of(count):
    return [text for text in models.sentences(count) if text]


def assert_back(ours, folder, texts):
    """Check that a model translates alike in Hugging Face's format, and return it."""
    model, tokenizer = loaded_by_transformers(save_hugging_face(ours, folder))
    ids = model.generate(**tokenizer(texts, return_tensors="pt", padding=True))
    assert tokenizer.batch_decode(ids, skip_special_tokens=True) == ours(texts)
    return model


def test_a_model_goes_back_to_hugging_face(pair, tmp_path):
    folder = save_hugging_face(pair.ours, tmp_path / "back")
    model, tokenizer = loaded_by_transformers(folder)
    assert type(model) is type(pair.theirs)
    expected, found = pair.theirs.state_dict(), model.state_dict()
    assert found.keys() == expected.keys()
    never_used = ["embed_positions.weight"]  # Two rows of it.
    if not pair.theirs.config.tie_word_embeddings:
        never_used.append("shared.weight")
    for name, value in expected.items():
        if not name.endswith(tuple(never_used)):
            np.testing.assert_array_equal(found[name].numpy(), value.numpy(), err_msg=name)
    tokenizer.src_lang = pair.codes[0]
    texts = models.sentences(100)
    assert tokenizer(texts).input_ids == pair.tokenizer(texts).input_ids
    batch = pair.tokenizer(texts[:20], return_tensors="pt", padding=True)
    batch["decoder_input_ids"] = batch["input_ids"]
    with torch.no_grad():
        logits = [each(**batch).logits.numpy() for each in (model, pair.theirs)]
    np.testing.assert_allclose(*logits, atol=1e-4)
    again = import_model(folder)
    assert (again.model.config, again.languages) == (pair.ours.model.config, pair.ours.languages)
    assert again.decoding == pair.ours.decoding
    named = {"source_language": pair.codes[0], "target_language": pair.codes[1]}
    assert again(texts[:5], **named) == pair.ours(texts[:5], **named)


def test_a_run_in_two_directions_goes_back_to_hugging_face(tmp_path):
    models.write_model(tmp_path / "theirs", "nllb")
    import_model(tmp_path / "theirs").save(tmp_path / "start")
    codes = models.CODES["nllb"][:2]
    rows = [
        f"{source}\t{target}\n"
        for source, target in zip(models.TEXTS, models.TEXTS[::-1], strict=True)
    ]
    for name, lines in (("0", rows), ("1", rows), ("valid", rows[:4])):
        (tmp_path / name).write_text("".join(lines), encoding="utf-8")
    names = "source_language", "target_language"
    corpora = [
        {"source": str(tmp_path / f"{i}"), **dict(zip(names, codes[:: 1 - 2 * i], strict=True))}
        for i in (0, 1)
    ]
    data = {"corpora": corpora, "validation_source": str(tmp_path / "valid")}
    data["validation_languages"] = ["deu_Latn-eng_Latn"]
    recipe = {"init_from": str(tmp_path / "start"), "epochs": 2, "average": "ema"}
    start = Translator.load(tmp_path / "start")
    config = toy_experiment(data, None, batch_tokens=300, **recipe)
    config = replace(config, model=start.model.config, decoding=start.decoding)
    before = start.model.source_embedding.embeddings.numpy()
    train(config, tmp_path / "run")
    named = dict(zip(names, codes, strict=True))
    ours = Translator.load(tmp_path / "run", **named)
    assert (ours.model.source_embedding.embeddings.numpy() != before).any()
    model = assert_back(ours, tmp_path / "back", texts_of(10))
    assert model.config.decoder_start_token_id == 0


def changed(ours, family, **search):
    """Return a translator with another search, from the first language into the second."""
    source, target = models.CODES[family][:2]
    named = {"source_language": source, "target_language": target}
    decoding = replace(ours.decoding, **named, **search)
    return Translator(ours.model, ours.tokenizer, None, decoding)


@pytest.mark.parametrize(
    ("family", "beam_size", "rule"),
    [
        ("nllb", 1, {"repetition_penalty": 1.5}),
        ("m2m100", 3, {"repetition_penalty": 1.5}),
        ("nllb", 3, {"no_repeat_ngram_size": 1}),
        ("mbart50", 1, {"no_repeat_ngram_size": 1}),
    ],
)
def test_no_rule_holds_the_end_back(family, beam_size, rule, tmp_path):
    model, _ = models.write_model(tmp_path / "theirs", family)
    table = model.model.shared.weight.data
    table[0] = table[4:].mean(axis=0)  # As in a trained model, no translation has <s>.
    model.save_pretrained(tmp_path / "theirs")
    before = import_model(tmp_path / "theirs")
    ours = changed(before, family, beam_size=beam_size, **rule)
    texts = texts_of(40)
    assert_back(ours, tmp_path / "back", texts)
    assert ours(texts) != changed(before, family, beam_size=beam_size)(texts)
    assert import_model(tmp_path / "back")(texts) == ours(texts)


@pytest.mark.parametrize("style", ["paper", "marian", "transformers_early"])
def test_a_search_of_any_style_comes_back_from_hugging_face(style, tmp_path):
    models.write_model(tmp_path / "theirs", "m2m100")
    ours = changed(import_model(tmp_path / "theirs"), "m2m100", style=style, beam_size=3)
    again = import_model(save_hugging_face(ours, tmp_path / "back"))
    assert again.decoding == ours.decoding and again.decoding.source_language == "en"
    path = tmp_path / "back" / "generation_config.json"
    search = json.loads(path.read_text()) | {"num_beams": 2, "early_stopping": True}
    path.write_text(json.dumps(search))  # It now has another search than ours.
    again = import_model(tmp_path / "back").decoding
    assert (again.beam_size, again.source_language, again.target_language) == (2, None, "de")


@pytest.mark.parametrize("family", ["nllb", "mbart50"])
def test_a_start_token_that_was_trained_takes_the_place_of_another(family, tmp_path):
    models.write_model(tmp_path / "theirs", family)
    source, target = models.CODES[family][:2]
    ours = import_model(tmp_path / "theirs")
    table = ours.model.source_embedding.embeddings
    table.assign(table.numpy() + np.random.default_rng(1).normal(size=table.shape))
    ours = changed(ours, family)
    texts = texts_of(20)
    model = assert_back(ours, tmp_path / "back", texts)
    assert model.config.decoder_start_token_id == 0
    again = import_model(tmp_path / "back")
    assert again(texts, source_language=source, target_language=target) == ours(texts)

    bias = ours.model.output_bias
    bias.assign(bias.numpy() + 0.5)
    if family == "nllb":
        with pytest.raises(ValueError, match="M2M100.* output_bias must be zero, .* to 0.5"):
            save_hugging_face(ours, tmp_path / "no")
    small = restrict_vocabulary(ours, texts)
    with pytest.raises(ValueError, match="must share a vocabulary, received one that is restrict"):
        save_hugging_face(small, tmp_path / "no")


def test_a_restriction_for_hugging_face_is_refused_before_its_text_is_read(tmp_path, capsys):
    models.write_model(tmp_path / "theirs", "nllb")
    import_model(tmp_path / "theirs").save(tmp_path / "ours")
    options = ["--checkpoint", str(tmp_path / "ours"), "--output", str(tmp_path / "no")]
    options += ["--format", "hugging_face", "--restrict-vocabulary", str(tmp_path / "absent.txt")]
    with pytest.raises(SystemExit):
        export.main(options)
    assert "--restrict-vocabulary needs another --format" in capsys.readouterr().err


@pytest.mark.parametrize("beam_size", [1, None])
def test_translations_are_the_same_in_two_languages(pair, beam_size):
    texts = texts_of(60)
    beams = {"num_beams": beam_size} if beam_size else {}
    search = {"beam_size": beam_size} if beam_size else {}
    pair.ours.save(pair.folder / "saved")
    translator = Translator.load(pair.folder / "saved", **search)
    source, lengths = translator.encode_text(tf.constant(texts), pair.language(0, len(texts)))
    expected = [pair.generate(texts, number, **beams) for number in (1, 2)]
    rows = np.arange(len(texts)) % 2
    targets = tf.where(rows == 0, pair.language(1, len(texts)), pair.language(2, len(texts)))
    found = translator.search(source, lengths, first_tokens=targets).ids[:, 0].numpy()
    longest = translator.decoding.longest(2)
    for row, ids in enumerate(found):
        theirs = expected[rows[row]][row]
        ids = pair.order[ids[ids != 0]].tolist()
        if len(theirs) == longest and theirs[-1] != 2:  # Without forced_eos_token_id.
            ids, theirs = ids[:-1], theirs[:-1]
        assert ids == theirs, texts[row]


@pytest.mark.slow
@pytest.mark.parametrize("pair", ["nllb_legacy", "mbart50"], indirect=True)
def test_an_export_translates_each_row_into_its_language(pair, tmp_path, capsys):
    texts = models.sentences(12)
    names = [pair.codes[1 + row % 2] for row in range(12)]
    expected = pair.ours(texts, source_language=pair.codes[0], target_language=names)
    pair.ours.save(pair.folder / "saved")
    fixed = {"source_language": pair.codes[0], "target_language": pair.codes[1]}
    translator = Translator.load(pair.folder / "saved", **fixed)
    loaded = load_saved_model(export_saved_model(translator, tmp_path / "model"))
    assert loaded(texts[::2]) == expected[::2]
    columns = {"source_language": 12 * [pair.codes[0]], "target_language": names}
    inputs = {key: tf.constant(value) for key, value in {"text": texts, **columns}.items()}
    found = loaded.signatures["translate"](**inputs)["translation"].numpy()
    assert [text.decode() for text in found] == expected
    with pytest.raises(tf.errors.InvalidArgumentError, match="target_language must be one of"):
        loaded.signatures["translate"](**{**inputs, "target_language": tf.constant(12 * ["xx"])})

    lines = [f"{pair.codes[0]}\t{name}\t{text}\n" for name, text in zip(names, texts, strict=True)]
    (tmp_path / "lines").write_text("".join(lines), encoding="utf-8")
    options = ["--model", "model", "--columns", "--input", str(tmp_path / "lines")]
    with ModelServer(tmp_path / "model", "model") as server:
        for api, port in (("--url", server.rest_port), ("--grpc", server.port)):
            client.main([*options, api, f"localhost:{port}"])
            assert capsys.readouterr().out.split("\n")[:-1] == [one_line(text) for text in expected]


@pytest.mark.parametrize("pair", ["m2m100", "nllb", "nllb_legacy", "mbart50"], indirect=True)
def test_int8_and_ctranslate2_translate_between_the_languages(pair, tmp_path):
    ctranslate2 = pytest.importorskip("ctranslate2", reason="CTranslate2 is not installed")
    pair.ours.save(tmp_path / "saved")
    fixed = {"source_language": pair.codes[0], "target_language": pair.codes[1]}
    translator = Translator.load(tmp_path / "saved", beam_size=1, **fixed)
    texts = texts_of(30)
    source, lengths = translator.encode_text(tf.constant(texts))
    ours = translator.search(source, lengths).ids[:, 0].numpy()

    pieces = [translator.tokenizer.id_to_piece(row[row != 0]) for row in source.numpy()]
    if not translator.tokenizer.language_comes_last:
        pieces = [row[:-1] for row in pieces]  # CTranslate2 adds eos.
    path = export_ctranslate2(translator, tmp_path / "ctranslate2")
    engine = ctranslate2.Translator(str(path), compute_type="float32", intra_threads=1)
    [language] = translator.tokenizer.id_to_piece([ours[0, 0]])
    theirs = engine.translate_batch(
        pieces,
        target_prefix=len(texts) * [[language]],
        beam_size=1,
        max_decoding_length=ours.shape[1] - 1,
        suppress_sequences=[["<pad>"], [translator.tokenizer.id_to_piece([2])[0]]],
    )
    for ids, result in zip(ours, theirs, strict=True):
        ids = ids[(ids != 0) & (ids != 3)][: ours.shape[1] - 1]
        assert result.hypotheses[0][: len(ids)] == translator.tokenizer.id_to_piece(ids)

    before = np.array(translator.model({"source": source, "target": ours}, training=False))
    translator.model.quantize("int8")
    after = np.array(translator.model({"source": source, "target": ours}, training=False))
    assert 0 < np.abs(after - before).max() < 0.1 * np.abs(before[:, :, 4:]).max()
    loaded = load_saved_model(export_quickly(translator, tmp_path / "int8"))
    assert loaded(texts) == translator(texts)


def test_folders_of_older_releases_are_read(tmp_path):
    options = {"files": "spm", "search": {"max_length": 9}}
    for family, codes in models.CODES.items():
        folder = tmp_path / family
        model, tokenizer = models.write_model(folder, family, **options)
        weights = {name: value.clone() for name, value in model.state_dict().items()}
        if family != "mbart50":
            weights["model.encoder.embed_positions.weights"] = torch.zeros(130, 24)
        (folder / "model.safetensors").unlink()
        torch.save(weights, folder / "pytorch_model.bin")
        translator = import_model(folder)
        tokenizer.src_lang = codes[0]
        text, language = models.TEXTS[0], tf.constant([translator.tokenizer.languages[codes[0]]])
        ids = translator.encode_text(tf.constant([text]), language)[0].numpy()[0]
        expected = tokenizer(text).input_ids
        # Transformers 5 puts <mask> before languages that it is given; NLLB's releases, after them.
        expected[0] -= family == "nllb"
        assert their_ids(folder)[ids].tolist() == expected


@pytest.fixture(scope="module")
def nllb(tmp_path_factory):
    folder = tmp_path_factory.mktemp("nllb")
    models.write_model(folder, "nllb")
    return import_model(folder)


@pytest.mark.parametrize(
    ("name", "code"),
    [
        *(("deu_Latn", "deu_Latn"), ("deu", "deu_Latn"), ("DEU-latn", "deu_Latn")),
        *(("de", "deu_Latn"), ("de-AT", "deu_Latn"), ("German", "deu_Latn"), ("pt_BR", "por_Latn")),
        *(("zh-Hant", "zho_Hant"), ("zh_TW", "zho_Hant"), ("Simplified Chinese", "zho_Hans")),
    ],
)
def test_a_language_is_found_by_what_it_is_called(nllb, name, code):
    pytest.importorskip("babel", reason="Babel is not installed")
    assert find_language(name, nllb.tokenizer) == code


@pytest.mark.parametrize(
    ("languages", "message"),
    [
        (("eng_Latn", "deu_Latin"), "target_language must be .*'deu_Latin'. Near ones .*deu_Latn"),
        (("eng_Latn", "zho"), "'zho', which may be zho_Hans, zho_Hant"),
        (("eng_Latn", None), "Give target_language, too"),
        (("eng_Latn", ["deu_Latn"]), "one for each of the 2 sentences; received 1"),
    ],
)
def test_a_language_that_the_model_lacks_is_an_error(nllb, languages, message):
    with pytest.raises(ValueError, match=message):
        nllb(models.TEXTS[:2], None, False, *languages)


def test_a_model_without_languages_takes_none(nllb):
    with pytest.raises(ValueError, match="needs source_language, received none.* --from to a"):
        nllb(models.TEXTS[:2])
    with pytest.raises(ValueError, match="source_language needs a model of many languages"):
        tokenizer = SentencePieceTokenizer(train_sentencepiece(["a b c"], 266))
        model = Transformer.from_size("tiny", tokenizer.vocab_size, num_layers=1)
        Translator(model, tokenizer, decoding=DecodingConfig(source_language="en"))


@pytest.mark.parametrize(
    ("file", "change", "message"),
    [
        ("config.json", {"vocab_size": 700}, "vocab_size of 700, and the tokenizer 8"),
        ("config.json", {"decoder_start_token_id": 9999}, "must be an id below"),
        ("config.json", {"max_position_embeddings": 4, "d_model": 48}, "48"),
        ("tokenizer_config.json", {"tokenizer_class": "MBartTokenizer"}, "mBART-25"),
        ("tokenizer.json", {"model": {"type": "WordPiece", "vocab": {}}}, "tokenizer.json"),
    ],
)
def test_a_damaged_folder_is_an_error(file, change, message, tmp_path):
    models.write_model(tmp_path, "nllb")
    content = json.loads((tmp_path / file).read_text())
    (tmp_path / file).write_text(json.dumps({**content, **change}))
    with pytest.raises(ValueError, match=message):
        import_model(tmp_path)


@pytest.mark.parametrize("shape", [(), (40,), (2, 3, 24)])
def test_a_table_of_positions_of_another_rank_is_named(shape, tmp_path):
    from safetensors.numpy import load_file, save_file

    models.write_model(tmp_path, "mbart50")
    weights, name = (
        load_file(tmp_path / "model.safetensors"),
        "model.encoder.embed_positions.weight",
    )
    save_file({**weights, name: np.zeros(shape, "float32")}, tmp_path / "model.safetensors")
    with pytest.raises(ValueError, match=f"{name} in .*{tmp_path.name} must have shape"):
        import_model(tmp_path)
