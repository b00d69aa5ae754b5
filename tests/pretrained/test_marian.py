"""A model that Marian trained: its translations and scores, from KERAS_TRANSFORMER_MARIAN.

The folder has a release's files, and test200.greedy.nbest and test200.beam6.nbest.gz, which Marian
wrote for the first lines of the file KERAS_TRANSFORMER_MARIAN_SOURCE. The folders in
KERAS_TRANSFORMER_MARIAN_VARIANTS have a release and its nbest, which Marian wrote for input.en.
"""

import collections
import dataclasses
import gzip
import os
import shutil
import time
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from matplotlib.text import Text

from keras_transformer.config import EOS_ID
from keras_transformer.pretrained import import_marian
from keras_transformer.pretrained.foreign_model import ForeignSide, Rows
from keras_transformer.pretrained.importing import read_origin
from keras_transformer.pretrained.marian import read_marian
from keras_transformer.training.run_directory import run_facts
from keras_transformer.translation.translator import Translator
from pipelines import import_marian as import_command
from pipelines.figures import attention_figures, position_figures
from tests.helpers.marian_release import D, write_release
from tests.helpers.tiny import WORDS

FOLDER = os.environ.get("KERAS_TRANSFORMER_MARIAN")
SOURCE = os.environ.get("KERAS_TRANSFORMER_MARIAN_SOURCE")
VARIANTS = os.environ.get("KERAS_TRANSFORMER_MARIAN_VARIANTS")
needs_model = pytest.mark.skipif(not (FOLDER and SOURCE), reason="needs a model of Marian's")


def read_nbest(path):
    """Return, for each sentence, its translations: pieces, log-probability and score."""
    opener = gzip.open if path.suffix == ".gz" else open
    found = collections.defaultdict(list)
    with opener(path, "rt", encoding="utf-8") as file:
        for line in file:
            number, pieces, log_prob, score = line.rstrip("\n").split(" ||| ")
            log_prob = float(log_prob.removeprefix("F0=").strip())
            found[int(number)].append((pieces.split(), log_prob, float(score)))
    return [found[number] for number in range(len(found))]


def read_source(count):
    with gzip.open(SOURCE, "rt", encoding="utf-8") as file:
        return [line.rstrip("\n") for line, _ in zip(file, range(count), strict=False)]


@needs_model
@pytest.mark.parametrize(
    ("beam_size", "file"), [(1, "test200.greedy.nbest"), (6, "test200.beam6.nbest.gz")]
)
def test_translations_and_scores_are_those_of_marian(beam_size, file):
    nbest = read_nbest(Path(FOLDER) / file)
    imported = import_marian(FOLDER)
    search = dataclasses.replace(imported.decoding, beam_size=beam_size)
    ours = Translator(imported.model, imported.tokenizer, imported.target_tokenizer, search)
    found = ours.translate_with_scores(tf.constant(read_source(len(nbest))))
    best = [max(hypotheses, key=lambda each: each[2]) for hypotheses in nbest]
    texts = ["".join(pieces).replace("▁", " ").strip() for pieces, _, _ in best]
    assert [text.decode() for text in found["translation"].numpy()] == texts
    np.testing.assert_allclose(found["score"], [score for *_, score in best], atol=1e-4)


@needs_model
def test_log_probabilities_of_given_translations_are_those_of_marian():
    nbest = read_nbest(Path(FOLDER) / "test200.beam6.nbest.gz")
    side = read_marian(Path(FOLDER) / "decoder.yml").target
    place = {piece: i for i, piece in enumerate(side.our_pieces)}
    imported = import_marian(FOLDER)
    search = dataclasses.replace(imported.decoding, length_penalty=0.0)
    ours = Translator(imported.model, imported.tokenizer, imported.target_tokenizer, search)
    rows = [(line, *each[:2]) for line, hyps in zip(read_source(200), nbest) for each in hyps]  # noqa: B905
    ids = tf.ragged.constant([[*(place[piece] for piece in row[1]), EOS_ID] for row in rows])
    source, _ = ours.encode_text(tf.constant([row[0] for row in rows]))
    scores = ours.score_ids(source, tf.cast(ids.to_tensor(), tf.int32))
    np.testing.assert_allclose(scores, [row[2] for row in rows], atol=1.1e-4)


@pytest.mark.skipif(not VARIANTS, reason="needs models of Marian's")
@pytest.mark.parametrize("name", ["gelu", "spm_vocabulary"])
def test_n_best_lists_of_seldom_options_are_those_of_marian(name):
    folder = Path(VARIANTS) / name
    nbest = read_nbest(folder / "nbest")
    translator = import_marian(folder)
    lines = (folder.parent / "input.en").read_text(encoding="utf-8").splitlines()
    found = translator.n_best(tf.constant(lines))
    for hypotheses, texts, scores in zip(nbest, *map(np.array, found.values()), strict=True):
        count = len(hypotheses)
        expected = ["".join(pieces).replace("▁", " ").strip() for pieces, *_ in hypotheses]
        if name == "spm_vocabulary":  # Marian writes text instead of pieces.
            expected = [" ".join(pieces) for pieces, *_ in hypotheses]
        assert [text.decode() for text in texts[:count]] == expected
        np.testing.assert_allclose(scores[:count], [each[2] for each in hypotheses], atol=1e-4)
        assert (scores[count:] < -1e8).all()


def test_a_release_becomes_a_translator(tmp_path):
    weights = write_release(tmp_path)
    translator = import_marian(tmp_path)
    assert translator.decoding.beam_size == 3
    assert translator.decoding.longest(7) == 21  # Three times the source.
    layer = translator.model.encoder.layers[1]
    np.testing.assert_array_equal(layer.self_attention.key_kernel, weights["encoder_l2_self_Wk"])
    embeddings = np.array(translator.model.source_embedding.embeddings)
    assert not embeddings[[0, 2]].any()  # Padding, and bos: Marian starts from zeros.
    np.testing.assert_array_equal(embeddings[[3, 1]], weights["Wemb"][[0, 1]])


@pytest.mark.slow
def test_a_release_translates(tmp_path):
    write_release(tmp_path)
    assert len(import_marian(tmp_path)([*WORDS])) == len(WORDS)


@pytest.mark.parametrize("is_transposed", [False, True])
def test_an_output_matrix_of_its_own(is_transposed, tmp_path):
    count = len(write_release(tmp_path)["Wemb"])
    matrix = np.random.default_rng(2).normal(size=(count, D)).astype("float32")
    name, stored = ("Wt", matrix) if is_transposed else ("W", matrix.T)
    write_release(
        tmp_path,
        {f"decoder_ff_logit_out_{name}": stored},
        **{"tied-embeddings-all": False, "tied-embeddings-src": True},
    )
    model = import_marian(tmp_path).model
    assert model.config.share_embeddings == "inputs"
    np.testing.assert_array_equal(np.array(model.output_embedding.embeddings)[3], matrix[0])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"type": "s2s"}, "type must be 'transformer', received 's2s'"),
        ({"transformer-decoder-autoreg": "average-attention"}, "transformer-decoder-autoreg must"),
        ({"transformer-train-position-embeddings": True}, "train-position-embeddings must be Fals"),
        ({"transformer-ffn-activation": "tanh"}, "transformer-ffn-activation must be 'relu'"),
        ({"transformer-preprocess": "n", "right-left": True}, "right-left must be False"),
        ({"dim-vocabs": [999, 5]}, "must have the 999 source tokens of the model"),
        (
            {"weights": {"Wpos": np.zeros([4, D], "float32")}},
            "has the weights Wpos, which belong to another kind",
        ),
        (
            {"weights": {"decoder_l1_context_Wq": None}},
            "lacks the weights decoder_l1_context_Wq",
        ),
        ({"decoder": {"word-penalty": 0.5}}, "word-penalty must be 0, received 0.5.* --ignore wor"),
        ({"decoder": {"shortlist": ["lex.bin", False]}}, r"shortlist must be \[\], received"),
        ({"decoder": {"normalize": [1]}}, "decoder.yml cannot be imported: .*length_penalty"),
        ({"transformer-ffn-activation": "gelu"}, "version must be Marian's, .* received None"),
        ({"enc-depth": "two"}, "enc-depth must be an integer, received 'two'"),
        ({"dim-vocabs": 5}, "dim-vocabs must be two integers, received 5"),
        ({"transformer-dim-ffn": 2 * 10**8}, r"ffn_W1 in .* must have shape \(8, 200000000\), rec"),
        ({"enc-depth": 10**6}, "lacks the weights encoder_l3_self_Wq"),
        (
            {"decoder": {"models": ["model.npz", "model.npz"]}},
            "must name one model and two vocabularies",
        ),
    ],
)
def test_another_kind_of_model_is_refused_by_name(changes, message, tmp_path):
    write_release(tmp_path, **changes)
    with pytest.raises(ValueError, match=message):
        import_marian(tmp_path)


@pytest.mark.parametrize("changes", [{"transformer-dim-ffn": 2 * 10**8}, {"enc-depth": 10**6}])
def test_weights_of_other_sizes_are_refused_before_a_model_is_built(changes, tmp_path, monkeypatch):
    def build(*arguments, **options):
        raise AssertionError("It would take all memory, or minutes.")

    monkeypatch.setattr("keras_transformer.pretrained.foreign_model.Transformer", build)
    write_release(tmp_path)
    with pytest.raises(AssertionError):
        import_marian(tmp_path)
    write_release(tmp_path, **changes)
    start = time.process_time()
    with pytest.raises(ValueError, match="encoder_l"):
        import_marian(tmp_path)
    assert time.process_time() - start < 5


@pytest.mark.parametrize(
    ("version", "function"),
    [("v1.9.0 ba94c5b9", "sigmoid_gelu"), ("v1.12.0", "sigmoid_gelu"), ("v1.12.42 b7be0", "gelu")],
)
def test_the_gelu_is_that_of_the_version_of_marian(version, function, tmp_path):
    write_release(tmp_path, **{"transformer-ffn-activation": "gelu", "version": version})
    assert import_marian(tmp_path).model.config.activation == function


@pytest.mark.parametrize("name", ["model.npz.decoder.yml", "config.intgemm8bitalpha.yml"])
def test_other_names_of_the_search_file_are_found(name, tmp_path):
    write_release(tmp_path, decoder={"shortlist": ["lex.bin", False], "max-length-crop": True})
    (tmp_path / "decoder.yml").rename(tmp_path / name)
    decoding = import_marian(tmp_path, ignore=["shortlist"]).decoding
    assert (decoding.beam_size, decoding.max_source_length) == (3, 1000)
    second = shutil.copy(tmp_path / name, tmp_path / f"config.{name}")
    second = Path(second).rename(
        tmp_path / f"{name.partition('.')[0]}.best.{name.partition('.')[2]}"
    )
    with pytest.raises(ValueError, match=f"must have one .*{second.name}.* Give one of these"):
        import_marian(tmp_path, ignore=["shortlist"])
    assert import_marian(second, ignore=["shortlist"]).decoding == decoding


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is a binary model of Marian, .* Use the model.npz"),
        (b"transformer-decoder-autoreg: rnn", "has a recurrent decoder .SSRU., .* the teacher"),
    ],
)
def test_models_of_bergamot_are_refused_by_name(content, message, tmp_path):
    write_release(tmp_path, decoder={"models": ["model.intgemm.alphas.bin"]})
    (tmp_path / "decoder.yml").rename(tmp_path / "config.intgemm8bitalpha.yml")
    (tmp_path / "model.intgemm.alphas.bin").write_bytes(content)
    with pytest.raises(ValueError, match=message):
        import_marian(tmp_path)


def test_what_is_no_model_is_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match="config.json .* or decoder.yml .* neither"):
        import_marian(tmp_path)
    (tmp_path / "model.bin").touch()
    for has_config in (False, True):  # CTranslate2 writes one, which is none of Hugging Face.
        if has_config:
            (tmp_path / "config.json").write_text('{"add_source_bos": false}')
        with pytest.raises(ValueError, match="a model of CTranslate2 .* it was converted from"):
            import_marian(tmp_path)
    with pytest.raises(FileNotFoundError, match="model.bin is a file; unpack it"):
        import_marian(tmp_path / "model.bin")


def test_the_origin_of_a_model_of_a_hub(tmp_path):
    path = tmp_path / "config.json"
    path.write_text('{"license": "apache-2.0", "_name_or_path": "models/opus-mt-en-de"}')
    expected = {"license": "apache-2.0", "languages": ["en", "de"]}
    assert read_origin(tmp_path, {"languages": ["en", "de"]}) == expected
    readme = "---\nlicense: apache-2.0\nlanguage: [en, de]\n---\n"
    (tmp_path / "README.md").write_text(readme)
    assert read_origin(tmp_path, {"languages": [None, None]}) == expected
    (tmp_path / "README.md").unlink()
    path.write_text("{}")
    assert read_origin(tmp_path, {"languages": ["en", None]}) == {}


MATTER = "---\nlicense: cc-by-4.0\nattribution: |\n  OPUS-MT,\n  Helsinki\n---\n# Model\n"


@pytest.mark.parametrize(
    ("files", "options", "license", "attribution"),
    [
        ({}, "", None, None),
        ({"README.md": "# Model"}, "--license MIT", "MIT", None),
        ({"README.md": MATTER, "LICENSE": "MIT"}, "", "cc-by-4.0", "OPUS-MT, Helsinki"),
        ({"README.md": MATTER}, "--license MIT --attribution We", "MIT", "We"),
        (
            {"README.md": "---\n&a [*a\n---\n", "LICENSE": "\nMIT License\n"},
            "",
            "MIT License",
            None,
        ),
        ({"LICENSE": "Copyright (c) 2020 Joerg"}, "", "see LICENSE", None),
        ({"README.md": "---\nlicense: other\nlicense_name: mine\n---\n"}, "", "mine", None),
        ({"README.md": "---\nlicense: [mit, gpl]\n---\nAttribution: A\n"}, "", "mit, gpl", "A"),
    ],
)
def test_license_and_attribution_are_saved(files, options, license, attribution, tmp_path, caplog):
    release = tmp_path / "release"
    release.mkdir()
    write_release(release, decoder={"word-penalty": 1})
    for name, text in files.items():
        (release / name).write_text(text)
    saved = str(tmp_path / "saved")
    options = ["--model", str(release), "--output", saved, *options.split()]
    import_command.main([*options, "--ignore", "word-penalty"])
    found = {"license": license, "attribution": attribution}
    expected = {name: value for name, value in found.items() if value}
    assert ("names no license" in caplog.text) == (license is None)
    assert Translator.load(saved).origin == run_facts(saved) == expected


def test_figures_show_the_last_layer_of_stacks_of_different_depths(tmp_path):
    write_release(tmp_path)
    translator = import_marian(tmp_path)
    figures = dict(attention_figures(translator, "one two"))
    captions = {
        name: " ".join(text.get_text() for text in figure.findobj(Text))
        for name, figure in figures.items()
    }
    assert "Layer 2." in captions["encoder_lines"]
    assert "Layer 1." in captions["decoder_lines"]
    assert "Layer 1." in captions["cross_lines"]
    assert list(dict(position_figures(translator))) == ["positions"]  # Not learned ones.


def test_a_start_token_of_its_own_becomes_bos():
    side = ForeignSide(b"", ["</s>", "<unk>", "▁a", "<go>", "<pad>"], unk=1, eos=0, pad=4, start=3)
    assert side.order == [4, 1, 3, 0, 2]
    matrix = np.arange(10.0).reshape(5, 2)
    assert side.rows(matrix, 2)[:][:, 0].tolist() == [8, 2, 6, 0, 4]
    assert side.bias(np.arange(5.0)).tolist() == [4, 1, 3, 0, 2]


@pytest.mark.parametrize("shape", [(D, 1), (1, D), (D,), (1, 1), (D - 1, D)])
def test_a_weight_of_another_shape_is_refused_and_not_broadcast(shape, tmp_path):
    write_release(tmp_path)
    model = read_marian(tmp_path / "decoder.yml")
    model.weights["encoder/layer_0/self_attention/key_kernel"] = np.ones(shape, "float32")
    with pytest.raises(
        ValueError, match=r"0/self_attention/key_kernel must have shape \("
    ) as error:
        model.to_translator()
    assert f"received {shape}" in str(error.value)


def test_rows_of_another_number_are_refused(tmp_path):
    write_release(tmp_path)
    model = read_marian(tmp_path / "decoder.yml")
    rows = next(value for value in model.weights.values() if isinstance(value, Rows))
    model.weights["source_embedding/embeddings"] = dataclasses.replace(rows, order=rows.order[1:])
    with pytest.raises(ValueError, match="source_embedding/embeddings must have shape"):
        model.to_translator()
