import dataclasses
import itertools
import re

import pytest
import yaml
from pydantic import ValidationError

from keras_transformer.config import (
    DataConfig,
    DecodingConfig,
    ExperimentConfig,
    TrainingConfig,
    TransformerConfig,
)
from keras_transformer.config.experiment import read_yaml

DATA = {"train_source": "train.tsv", "validation_source": "valid.tsv"}
TWO = {
    "train_source": ["a.en", "b.en"],
    "train_target": ["a.de", "b.fr"],
    "train_languages": ["de", "fr"],
    "validation_source": ["c.en", "d.en"],
    "validation_target": ["c.de", "d.fr"],
    "validation_languages": ["de", "fr"],
}
BOTH = {"source_language": "en", "target_language": "de"}
TFDS = {"tfds": "wmt14_translate/de-en", **BOTH}


def test_all_mistakes_of_a_section_are_reported_together():
    with pytest.raises(ValueError) as error:
        TransformerConfig(
            vocab_size=4, num_layers=0, d_ff="wide", d_model=2.5, dropout=1.0, norm="middle", size=1
        )
    assert str(error.value) == (
        "TransformerConfig: vocab_size must be greater than 4, received 4; "
        "num_layers must be greater than 0, received 0; "
        "d_model must be a valid integer, got a number with a fractional part, received 2.5; "
        "d_ff must be a valid integer, unable to parse string as an integer, received 'wide'; "
        "dropout must be less than 1, received 1.0; norm must be 'post' or 'pre', "
        "received 'middle'; size is not an option."
    )


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: TransformerConfig(), "vocab_size is missing"),
        (
            lambda: TransformerConfig(1e19),
            "vocab_size must be at most 2,147,483,647, received 1e+19",
        ),
        (lambda: DecodingConfig(beam_size=True), "beam_size must not be a boolean, received True"),
        (
            lambda: DecodingConfig(length_factor=0, extra_length=0),
            "length_factor and extra_length must not both be 0, which allows nothing; raise one",
        ),
        (
            lambda: DecodingConfig(extra_length=2**31 - 1),
            "extra_length must be less than or equal to 1000000, received 2147483647",
        ),
        (
            lambda: DecodingConfig(prefix="a", protect="html"),
            "prefix must be empty where spans are kept (protect, documents), because a text may be "
            "translated in pieces; received 'a'; leave one out",
        ),
        (
            lambda: TransformerConfig(100, norm=False),
            "norm must not be a boolean, received False; in YAML, quote yes, no, on and off",
        ),
        (
            lambda: DataConfig(**DATA, max_length=1, cash="x"),
            "max_length must be greater than 1, received 1; cash is not an option",
        ),
        (
            lambda: TrainingConfig(teachers="x" * 99),
            f"teachers must be a valid list, received '{'x' * 79}",
        ),
    ],
)
def test_a_mistake_is_a_plain_line(build, message):
    with pytest.raises(ValueError, match=rf"^\w+Config: {re.escape(message)}\.$"):
        build()


def test_all_sizes_that_do_not_fit_together_are_reported_together():
    with pytest.raises(ValueError) as error:
        TransformerConfig(100, target_vocab_size=50, d_model=31, num_heads=4)
    assert str(error.value) == (
        "TransformerConfig: d_model must be divisible by num_heads unless key_dim is given, "
        "received d_model=31 and num_heads=4; "
        "sinusoidal positions need an even d_model, received 31; "
        "choose an even one or position='learned'; "
        "share_embeddings='all' needs one vocabulary for both languages, "
        "received target_vocab_size=50; leave it out or choose share_embeddings='target' or 'none'."
    )


def test_mistakes_of_all_sections_are_reported_together():
    values = {
        "model": {"vocab_size": 100, "num_heads": 3},
        "data": {"subwords": "words", "max_lenght": 3},
        "training": {"epochs": 0},
        "decodin": {},
    }
    with pytest.raises(ValidationError) as error:
        ExperimentConfig.from_dict(values)
    received = {".".join(map(str, e["loc"])): e["msg"] for e in error.value.errors()}
    assert "received d_model=512 and num_heads=3" in received.pop("model")
    assert received == {
        "data.subwords": "Input should be 'bpe', 'unigram', 'wordpiece' or 'word'",
        "data.max_lenght": "Unexpected keyword argument",
        "training.epochs": "Input should be greater than 0",
        "decodin": "Unexpected keyword argument",
    }


@pytest.mark.parametrize(
    "arguments",
    [
        {"d_model": 10, "num_heads": 4, "key_dim": 3},
        {"d_model": 9, "num_heads": 3, "position": "learned"},
        {"target_vocab_size": 50, "share_embeddings": "target"},
        {"target_vocab_size": 50, "share_embeddings": "none"},
    ],
)
def test_what_the_messages_advise_is_accepted(arguments):
    TransformerConfig(100, **arguments)


def test_replace_validates_again():
    config = TransformerConfig(100)
    assert dataclasses.replace(config, num_heads=16).num_heads == 16
    with pytest.raises(ValueError, match="received d_model=512 and num_heads=3"):
        dataclasses.replace(config, num_heads=3)


def test_a_configuration_is_frozen():
    with pytest.raises(dataclasses.FrozenInstanceError, match="d_model"):
        TransformerConfig(100).d_model = 64


def test_defaults_are_the_papers():
    config = ExperimentConfig.from_dict({"model": {"vocab_size": 37_000}, "data": DATA})
    model, training, decoding = config.model, config.training, config.decoding
    assert (model.num_layers, model.d_model, model.d_ff, model.num_heads) == (6, 512, 2048, 8)
    assert (model.dropout, training.label_smoothing) == (0.1, 0.1)
    assert (training.warmup_steps, training.batch_tokens) == (4000, 25_000)
    assert (training.beta_1, training.beta_2, training.epsilon) == (0.9, 0.98, 1e-9)
    assert (decoding.beam_size, decoding.length_penalty, decoding.extra_length) == (4, 0.6, 50)


def test_a_file_keeps_everything(tmp_path):
    config = ExperimentConfig.from_dict(
        {
            "model": {"vocab_size": 100, "target_vocab_size": 90, "share_embeddings": "none"},
            "data": DATA | {"train_target": "übung.de"},
            "training": {"epsilon": 1e-9, "patience": 3},
            "decoding": {"beam_size": 5},
        }
    )
    path = tmp_path / "config.yaml"
    path.write_text("what was here before")
    config.to_file(path)
    assert ExperimentConfig.from_file(path) == config
    assert "übung.de" in path.read_text(encoding="utf-8")
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_may_leave_out_what_has_a_default(tmp_path):
    path = tmp_path / "config.yaml"
    path.write_text(
        "model: {vocab_size: 100}\n"
        "data: {train_source: train.tsv, validation_source: valid.tsv}\n"
        "training: {epsilon: 1e-9}\n"  # YAML 1.1 takes this for a string.
    )
    assert ExperimentConfig.from_file(path) == ExperimentConfig.from_dict(
        {"model": {"vocab_size": 100}, "data": DATA}
    )


def test_what_yaml_makes_of_mistakes_is_refused_together(tmp_path):
    path = tmp_path / "config.yaml"
    path.write_text(
        "model: {vocab_size: 99999999999999999999, num_layers: true, num_layers: 2, dropout: .nan}"
        "\n"
        "data: {train_source: a, validation_source: b, train_languages: [no]}\n"
        "training: {epochs: 3}\n"
        "training: {clip_norm: .inf, warmup_steps: false, seed: 4294967295}\n"
    )
    with pytest.raises(ValueError, match="config.yaml has invalid values: ") as error:
        ExperimentConfig.from_file(path)
    for mistake in (
        "model.vocab_size must be at most 2,147,483,647, received 99999999999999999",
        "model.dropout must be a finite number",
        "data.train_languages must not be a boolean, received [False]; in YAML, quote",
        "training.clip_norm must be a finite number",
        "training.warmup_steps must not be a boolean, received False; ",
        "model.num_layers is given twice, in line 1; remove one",
        "training is given twice, in lines 3 and 4; remove one. Correct or restore it.",
    ):
        assert mistake in str(error.value)
    assert "seed" not in str(error.value)
    with pytest.raises(ValueError, match="config.yaml: model.num_layers is given twice"):
        read_yaml(path)


def test_learned_positions_must_reach_as_far_as_the_text():
    values = {
        "model": {"vocab_size": 100, "position": "learned", "max_length": 64},
        "data": {"train_source": "a.tsv", "validation_source": "b.tsv", "max_length": 65},
    }
    with pytest.raises(ValueError, match="at least data.max_length, received 64 and 65; raise"):
        ExperimentConfig.from_dict(values)
    values["data"]["max_length"] = 64
    assert ExperimentConfig.from_dict(values).data.max_length == 64


@pytest.mark.parametrize("r_drop", [0, 0.0])
def test_a_file_of_version_0_1_is_read(tmp_path, r_drop):
    path = tmp_path / "config.yaml"
    values = {"model": {"vocab_size": 100}, "data": DATA, "training": {"epochs": 3}}
    expected = ExperimentConfig.from_dict(values)
    values["training"]["r_drop"] = r_drop
    path.write_text(yaml.safe_dump(values))
    assert ExperimentConfig.from_file(path) == ExperimentConfig.from_dict(values) == expected
    assert read_yaml(path)["training"] == {"epochs": 3}
    assert values["training"]["r_drop"] == r_drop  # The caller's dictionaries stay as they are.


def test_r_drop_of_version_0_1_is_refused_with_what_to_do(tmp_path):
    path = tmp_path / "config.yaml"
    path.write_text("model: {vocab_size: 100}\ntraining: {r_drop: 5}\n")
    message = r"config\.yaml: training.r_drop must be 0 .* received 5\. Remove it to use"
    for read in ExperimentConfig.from_file, read_yaml:
        with pytest.raises(ValueError, match=message):
            read(path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("model: {", "config.yaml is not YAML: while parsing a flow node .*line 1, .*Correct"),
        (b"model: \xff", "config.yaml is not YAML: 'utf-8' codec can't decode byte 0xff"),
        *[  # What Python cannot hold.
            (text, "config.yaml is not YAML: .* Correct or restore it")
            for text in (
                *(f"model: {9:9>5000}", "[" * 5000, "model: {x: 2001-99-99}", "? [a]\n: 1"),
            )
        ],
        ("- model", r"config\.yaml must hold a YAML mapping .* list\."),
        ("", r"config\.yaml must hold a YAML mapping .* NoneType\."),
        (
            "model: {vocab_size: 1}\ndata: {train_sauce: a}\n",
            "config.yaml has invalid values: model.vocab_size must be greater than 4, received 1; "
            "data.train_sauce is not an option",
        ),
    ],
)
def test_an_error_in_a_file_names_the_file_in_one_line(tmp_path, text, message):
    path = tmp_path / "config.yaml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(ValueError, match=message) as error:
        ExperimentConfig.from_file(path)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    "kind", [DataConfig, DecodingConfig, ExperimentConfig, TrainingConfig, TransformerConfig]
)
def test_help_describes_every_field(kind):
    for field in dataclasses.fields(kind):
        assert re.search(rf"^    {field.name}: \w.*\.$", kind.__doc__, re.MULTILINE), field.name


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (
            {},
            "text in files needs train_source, validation_source, received no train_source and no "
            "validation_source; give text in files, or tfds for a TFDS dataset",
        ),
        (
            {"train_source": "train.tsv"},
            "text in files needs train_source, validation_source, received no validation_source; "
            "give what is missing",
        ),
        (
            {"train_split": "test", "target_language": "de"},
            "a TFDS dataset needs tfds, source_language, target_language, received no tfds and no "
            "source_language; give what is missing",
        ),
        (
            DATA | TFDS,
            "text is either in files or in a TFDS dataset, received train_source, "
            "validation_source and tfds, source_language, target_language; give only one kind",
        ),
        (
            DATA | {"train_split": "test"},
            "text is either in files or in a TFDS dataset, received train_source, "
            "validation_source and train_split; give only one kind",
        ),
        (
            {"source_language": "de", "target_language": "de"},
            "a TFDS dataset needs tfds, source_language, target_language, received no tfds; give "
            "what is missing; source_language and target_language must be two languages, received "
            "de for both",
        ),
    ],
)
def test_text_is_in_files_or_in_a_tfds_set(data, message):
    with pytest.raises(ValueError, match=f"^DataConfig: {re.escape(message)}.$"):
        DataConfig(**data)


@pytest.mark.parametrize("data", [DATA, TFDS, TFDS | {"train_split": "train[:10%]"}])
def test_either_kind_of_text_is_enough(data, tmp_path):
    config = ExperimentConfig.from_dict({"model": {"vocab_size": 100}, "data": data})
    assert config.data.train_split == data.get("train_split", "train")
    config.to_file(tmp_path / "config.yaml")
    assert ExperimentConfig.from_file(tmp_path / "config.yaml") == config


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (
            {"subwords": "unigram", "subword_dropout": 0.1},
            "received subword_dropout=0.1 and subwords='unigram'",
        ),
        ({"normalization": "nfd"}, "normalization must be 'nfkc', 'nfc' or 'identity'"),
        ({"user_symbols": ["prinft"]}, "kinds printf, .* received 'prinft'; write re:prinft for"),
        ({"user_symbols": ["re:(", "a b"]}, r"after re:, received 're:\(' .*received 'a b'; leave"),
        ({"user_symbols": ["re:(?i)man"]}, r"received 're:\(\?i\)man' \(flags of the whole expr"),
        (
            {"user_symbols": [r"re:(a|b)\1"]},
            r"can be joined after re:, .* \(a back reference;",
        ),
        ({"user_symbols": ["</s>"]}, "such as <s>, received '</s>'"),
        ({"max_user_symbols": 0}, "max_user_symbols"),
        ({"augment_upper": 1.5}, "augment_upper"),
        (
            {"subwords": "wordpiece", "normalization": "identity", "augment_join": 0.1},
            "need .* received normalization, augment_join with .* and subwords='wordpiece'; leave",
        ),
        (
            {"task": "parsing", "user_symbols": ["html"]},
            "received user_symbols with task='parsing'",
        ),
        ({"word_tags": "target"}, "'target' needs task='parsing'"),
        ({"subwords": "word"}, "'word' needs task='parsing'"),
        (
            {"task": "parsing", "train_target": "a.mrg"},
            "received train_target='a.mrg'; leave it out",
        ),
        (
            {"task": "parsing", "train_languages": ["de"]},
            "parsing takes .* received train_languages=.'de'.; leave it out",
        ),
        (
            {"task": "parsing", "vocabulary_corpora": 2},
            "must be at most 1, the number of corpora, received 2",
        ),
    ],
)
def test_options_of_the_text_that_do_not_fit_are_refused(values, message):
    with pytest.raises(ValueError, match=message):
        DataConfig(**DATA | values)


def test_symbols_that_are_added_to_text_come_from_a_vocabulary():
    values = {"model": {"vocab_size": 100}, "data": {**DATA, "augment_symbols": 0.1}}
    with pytest.raises(ValueError, match="augment_symbols adds .* received no data.user_symbols"):
        ExperimentConfig.from_dict(values)
    for more in (
        {"data": {**values["data"], "user_symbols": ["html"]}},
        {"training": {"init_from": "x"}},
    ):
        assert ExperimentConfig.from_dict(values | more).data.augmentation == {"symbols": 0.1}


@pytest.mark.parametrize(
    "values",
    [
        {},
        {"temperature": 5},
        {"train_weights": [1, 2]},
        {"train_languages": ["de", "de"], "validation_languages": ["de", "de"]},
        {"train_languages": ["pt-BR", "zh_Hans"], "validation_languages": ["pt-BR", "pt-BR"]},
        {"validation_source": "c.tsv", "validation_target": None, "validation_languages": ["fr"]},
    ],
)
def test_corpora_may_have_languages(values):
    assert DataConfig(**TWO | values).train_languages


def corpora(*values):
    """The corpora of `TWO` as one list, with other values."""
    both = [
        {"source": "a.en", "target": "a.de", "language": "de"},
        {"source": "b.en", "target": "b.fr", "language": "fr"},
    ]
    changed = [one | other for one, other in itertools.zip_longest(both, values, fillvalue={})]
    validation = {name: value for name, value in TWO.items() if name.startswith("validation")}
    return validation | {"corpora": changed}


def test_a_list_of_corpora_is_what_the_parallel_lists_were(tmp_path):
    lists = DataConfig(**TWO, train_weights=[2, 1])
    weighted = corpora({"weight": 2}, {"weight": 1})
    assert DataConfig(**weighted).training_corpora == lists.training_corpora
    config = ExperimentConfig.from_dict({"model": {"vocab_size": 100}, "data": weighted})
    config.to_file(tmp_path / "config.yaml")
    assert ExperimentConfig.from_file(tmp_path / "config.yaml") == config
    one = DataConfig(corpora=[{"source": "a.tsv", "tag": "web"}], validation_source="b.tsv")
    assert [corpus.full_tag for corpus in one.training_corpora] == ["web"]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (corpora() | {"train_weights": [1]}, "both corpora and train_weights; move it into corp"),
        (TWO | corpora(), "received both corpora and train_source and train_target and train_lan"),
        (TFDS | corpora(), "text is either in files or in a TFDS dataset, received corpora, "),
        (corpora({"source": None}), "corpora.0.source must be a valid string, received None"),
        (corpora({"langauge": "de"}), "corpora.0.langauge is not an option"),
        (corpora({"weight": -1}), r"the weights of corpora must be at least 0.* \[-1.0, 1.0\]"),
        (corpora({"weight": 1}) | {"temperature": 2}, "received the weights of corpora=.1.0"),
        (corpora({"language": None}), "all corpora or none have a language, received 1 of 2"),
        (
            corpora({"language": None}, {"language": None, **BOTH}),
            "all corpora or none have a language, received 1 of 2",
        ),
        (
            corpora({"language": None, "source_language": "en"}),
            "has language, or both .* received others for a.en",
        ),
        (corpora(BOTH), "has language, or both .* received others for a.en"),
        (corpora({"tag": "web"}), "among the languages of corpora without a tag, received de"),
        (corpora({}, {}, {"source": "c", "language": "d", "tag": "a b"}), "tag .* received 'a b'"),
        (corpora() | {"vocabulary_corpora": 3}, "vocabulary_corpora must be at most 2"),
        ({"corpora": [{"source": "a"}]}, "needs corpora, validation_source, received no"),
        ({"task": "parsing", "validation_source": "b", "filters": ["tags"], "corpora": [
            {"source": "a", "tag": "web"}]}, r"filters=\['tags'\]; leave .* tag of corpora; leave"),
        (DATA | {"filters": ["tags", "tag"]}, "filters must be among messages, .* received 'tag'"),
    ],
)  # fmt: skip
def test_a_list_of_corpora_is_checked(values, message):
    with pytest.raises(ValueError, match=message):
        DataConfig(**values)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"train_languages": ["de"]}, "train_languages must have one .* received 1 for 2"),
        ({"validation_languages": ["de"]}, "validation_languages must have .* received 1 for 2"),
        ({"train_languages": []}, "received validation_languages without train_languages; give"),
        ({"validation_languages": []}, "received train_languages without validation_languages"),
        ({"train_languages": [], "validation_languages": []}, "received 2 files without it"),
        ({"train_languages": ["de", "de"]}, "must be among train_languages, received fr"),
        ({"train_languages": ["de", ""]}, "letters from a to z, .* received ''"),
        ({"train_languages": ["de", "f r"]}, "letters from a to z, .* received 'f r'"),
        ({"train_languages": ["de", "fr<<"]}, "letters from a to z, .* received 'fr<<'"),
        ({"train_languages": ["de", "fr\n"]}, "letters from a to z"),
        ({"train_languages": ["de", "français"]}, "letters from a to z"),
        ({"subwords": "wordpiece"}, "vocabulary with tags, received subwords='wordpiece'"),
        ({"validation_target": ["c.de"]}, "validation_target must name equally many .* 2 and 1"),
        ({"validation_source": []}, "validation_source must name a file, received an empty"),
        ({"temperature": 0.5}, "temperature"),
        ({"temperature": float("inf")}, "temperature"),
        ({"temperature": 2, "train_weights": [1, 2]}, "and temperature=2.0; leave one of them"),
        ({"train_target": ["a"]}, "name equally many files, received 2 and 1"),
        ({"train_source": []}, "train_source must name a file, received an empty list"),
        ({"train_weights": [1]}, "one number for each corpus, received 1 numbers for 2"),
        ({"train_weights": [0, 0]}, r"at least 0, and not all 0, received \[0.0, 0.0\]"),
        ({"train_weights": [2, -1.5]}, r"at least 0, and not all 0, received \[2.0, -1.5\]"),
    ],
)
def test_corpora_that_do_not_fit_together_are_refused(values, message):
    with pytest.raises(ValueError, match=message):
        DataConfig(**TWO | values)
