"""Every option of Hugging Face's search is taken over, or named."""

from pathlib import Path

import pytest

from keras_transformer.config import DecodingConfig
from keras_transformer.pretrained.foreign_model import ForeignSide
from keras_transformer.pretrained.hugging_face_search import read_search

EOS, UNK, A, PAD = range(4)
TARGET = ForeignSide(b"", ["</s>", "<unk>", "▁a", "<pad>"], pad=PAD, unk=UNK, start=PAD, eos=EOS)
OPTIONS = {"decoder_start_token_id": PAD, "max_position_embeddings": 100}
OPUS = {
    "bad_words_ids": [[PAD]],
    "bos_token_id": 0,
    "decoder_start_token_id": PAD,
    "eos_token_id": EOS,
    "forced_eos_token_id": EOS,
    "max_length": 512,
    "num_beams": 4,
    "pad_token_id": PAD,
    "renormalize_logits": True,
}
NO_EFFECT = {
    # Of what is returned, how fast, or for which other models.
    *("bos_token_id", "pad_token_id", "transformers_version", "_from_model_config"),
    *("output_attentions", "output_hidden_states", "output_scores", "output_logits"),
    *("return_dict_in_generate", "remove_invalid_values", "low_memory", "prefill_chunk_size"),
    *("use_cache", "cache_implementation", "cache_config", "max_cache_len"),
    *("compile_config", "disable_compile", "continuous_batching_config", "use_mtp"),
    *("is_assistant", "num_assistant_tokens", "num_assistant_tokens_schedule"),
    *("assistant_confidence_threshold", "assistant_early_exit", "assistant_lookbehind"),
    *("assistant_ensemble_weight", "target_lookbehind", "prompt_lookup_num_tokens"),
    *("max_matching_ngram_size", "speculation_type"),
}
TEXT_ONLY = "must be the padding, start or unknown token"
ODD = {"bad_words_ids": [[A]], "suppress_tokens": [A], "renormalize_logits": False, "top_p": 0.5}
ODD["decoder_start_token_id"] = A


def read(**changes):
    return read_search(Path("generation_config.json"), {**OPUS, **changes}, OPTIONS, TARGET)


def test_the_options_of_opus_are_taken_over():
    assert read() == DecodingConfig(
        beam_size=4,
        length_penalty=1.0,
        style="transformers",
        length_factor=0.0,
        extra_length=511,
        max_source_length=100,
        allow_unknown=True,
    )


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"max_length": 21}, {"extra_length": 20}),
        ({"max_length": 21, "max_new_tokens": 7}, {"extra_length": 7}),
        ({"max_length": None}, {"extra_length": 511}),
        ({"min_length": 6}, {"min_length": 5}),
        ({"min_new_tokens": 6}, {"min_length": 6}),
        ({"num_return_sequences": 2}, {"num_hypotheses": 2}),
        ({"length_penalty": 0.5}, {"length_penalty": 0.5}),
        ({"no_repeat_ngram_size": 3}, {"no_repeat_ngram_size": 3}),
        ({"repetition_penalty": 1.5}, {"repetition_penalty": 1.5}),
        ({"do_sample": True, "num_beams": 1, "top_p": 0.5}, {"temperature": 1.0, "top_k": 50}),
        ({"bad_words_ids": [[PAD], [UNK], [EOS]]}, {"allow_unknown": False}),
        ({"suppress_tokens": [UNK]}, {"allow_unknown": False}),
        # Values without an effect.
        ({"early_stopping": False, "forced_bos_token_id": None, "sequence_bias": None}, {}),
        ({"num_beams": 1, "early_stopping": True}, {"beam_size": 1}),
        ({"early_stopping": True}, {"style": "transformers_early"}),
        ({"temperature": 0.5, "min_p": 0.1}, {}),
    ],
    ids=str,
)
def test_what_has_a_counterpart_is_taken_over(options, expected):
    search = read(**options)
    assert {name: getattr(search, name) for name in expected} == expected


@pytest.mark.parametrize(
    ("options", "rules"),
    [
        ({"early_stopping": "never"}, ["early_stopping must be False, received 'never'"]),
        ({"forced_bos_token_id": A}, [f"forced_bos_token_id must be None, received {A}"]),
        ({"forced_eos_token_id": None}, [f"forced_eos_token_id must be {EOS}, received None"]),
        ({"bad_words_ids": [[PAD], [A]]}, [f"bad_words_ids {TEXT_ONLY}, received [[2]]"]),
        ({"bad_words_ids": [[PAD, A]]}, [f"bad_words_ids {TEXT_ONLY}, received [[3, 2]]"]),
        ({"do_sample": True}, ["num_beams must be 1, received 4"]),
        (
            {"suppress_tokens": [A], "diversity_penalty": 0.5},
            ["suppress_tokens must be padding", "diversity_penalty must be 0.0, received 0.5"],
        ),
    ],
    ids=str,
)
def test_what_has_no_counterpart_is_an_error_unless_it_is_ignored(options, rules, caplog):
    with pytest.raises(ValueError, match="search options that cannot be imported") as error:
        read(**options)
    names = [rule.split()[0] for rule in rules]
    for rule, name in zip(rules, names, strict=True):
        assert rule in str(error.value) and name in str(error.value).partition("--ignore ")[2]
    search = {**OPUS, **options}
    found = read_search(Path("generation_config.json"), search, OPTIONS, TARGET, ignore=names)
    [record] = caplog.records
    assert all(rule in record.getMessage() for rule in rules)
    assert found.beam_size == (1 if "num_beams" in names else 4)


def test_an_ignored_option_is_left_out():
    start_is_eos = {**OPTIONS, "decoder_start_token_id": EOS}
    search = {**OPUS, "decoder_start_token_id": EOS, "repetition_penalty": 1.2}
    arguments = Path("generation_config.json"), search, start_is_eos, TARGET
    assert read_search(*arguments, ignore=["repetition_penalty"]).repetition_penalty == 1
    no_token_twice = search | {"repetition_penalty": 1.0, "no_repeat_ngram_size": 1}
    with pytest.raises(ValueError, match="no_repeat_ngram_size must be 0, received 1"):
        read_search(arguments[0], no_token_twice, *arguments[2:])
    two = read_search(arguments[0], no_token_twice | {"no_repeat_ngram_size": 2}, *arguments[2:])
    assert two.no_repeat_ngram_size == 2
    with pytest.raises(ValueError, match="--ignore .* received early_stoping, .*early_stopping"):
        read_search(*arguments, ignore=["repetition_penalty", "early_stoping"])


def test_a_value_out_of_range_is_an_error():
    with pytest.raises(ValueError, match=r"config.json cannot be imported: .* Change the option"):
        read_search(Path("config.json"), {**OPUS, "repetition_penalty": 0.5}, OPTIONS, TARGET)


@pytest.mark.parity
def test_no_option_is_ignored():
    transformers = pytest.importorskip("transformers", reason="transformers is not installed")
    names = transformers.GenerationConfig(do_sample=True).to_dict().keys() - NO_EFFECT
    for name in names:
        searches = ("num_beams", "early_stopping", "do_sample")
        base = {
            "num_beams": 4 if name == "early_stopping" else 1,
            "do_sample": name not in searches,
        }
        try:
            assert read(**{**base, name: ODD.get(name, 3)}) != read(**base), name
        except ValueError as error:
            assert f"{name} must be " in str(error)
