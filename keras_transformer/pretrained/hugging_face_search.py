"""The search of Hugging Face's `generate`, as generation_config.json or config.json describe it."""

import dataclasses
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from keras_transformer.config import BOS_ID, EOS_ID, PAD_ID, DecodingConfig
from keras_transformer.pretrained.foreign_model import ForeignSide, check_search, validated

SPECIAL_IDS = {
    "pad_token_id": PAD_ID,
    "bos_token_id": BOS_ID,
    "eos_token_id": EOS_ID,
    "decoder_start_token_id": BOS_ID,
}
"""Our special tokens, by the names of Hugging Face."""
OWN_SEARCH = "keras_transformer"
"""The option that holds our search, which Hugging Face does not read."""
_MAX_LENGTH = 512
"""The limit of models that state none. Hugging Face's is 20, which cuts most sentences off."""
_NEUTRAL: dict[str, Any] = {
    "num_beam_groups": 1,
    "diversity_penalty": 0.0,
    "encoder_no_repeat_ngram_size": 0,
    "encoder_repetition_penalty": 1.0,
    "guidance_scale": 1.0,
    **dict.fromkeys(
        """
        begin_suppress_tokens constraints dola_layers exponential_decay_length_penalty
        force_words_ids forced_decoder_ids max_time penalty_alpha
        sequence_bias stop_strings token_healing watermarking_config
        """.split()
    ),
}
"""Options that cannot be imported, and their neutral values."""
_NEUTRAL_IN_SAMPLING: dict[str, Any] = {
    "num_beams": 1,
    "typical_p": 1.0,
    "epsilon_cutoff": 0.0,
    "eta_cutoff": 0.0,
    **dict.fromkeys(("min_p", "top_h")),
}
"""The same for sampling. Except for num_beams, they have no effect without it."""
_LISTS = ("bad_words_ids", "suppress_tokens")
_OTHER_PROBLEMS = (
    *_LISTS,
    *("early_stopping", "forced_bos_token_id"),
    *("decoder_start_token_id", "eos_token_id", "forced_eos_token_id"),
    *("repetition_penalty", "no_repeat_ngram_size"),
)
"""Further options whose values may not be importable."""
_NUMBERS = {
    int: (
        *("max_length", "max_new_tokens", "min_length", "min_new_tokens", "no_repeat_ngram_size"),
        *("num_beams", "num_return_sequences", "top_k"),
    ),
    int | float: ("length_penalty", "repetition_penalty", "temperature", "top_p"),
}
"""The options that are read, by their types."""


def read_search(
    path: Path,
    search: Mapping[str, Any],
    options: Mapping[str, Any],
    target: ForeignSide,
    ignore: Collection[str] = (),
) -> DecodingConfig:
    """Return the search that a file describes.

    Args:
        path: The file, for messages.
        search: Its options.
        options: The options of config.json, with defaults.
        target: The vocabulary of the target.
        ignore: Options that may have values without a counterpart; they are left out.

    Raises:
        ValueError: If an option is out of range, or has no counterpart.
    """
    if (own := _written_search(search, options, target)) is not None:
        return own
    wrong = [f"{name} must be {kind}" for name, kind in _wrong_types(search)]
    if wrong:
        raise ValueError(f"{path} cannot be imported: {'; '.join(wrong)}. Restore it.")
    problems = dict(_problems(search, options, target))
    known = {*_NEUTRAL, *_NEUTRAL_IN_SAMPLING, *_OTHER_PROBLEMS}
    check_search(path, problems, known, ignore)
    # Of lists, what can be imported is.
    kept = {name: search[name] for name in search if name not in problems or name in _LISTS}
    return validated(path, lambda: _decoding(kept, options, target))


def write_search(
    decoding: DecodingConfig,
    special: Mapping[str, int],
    unknown: int,
    languages: Mapping[str, int],
) -> dict[str, Any]:
    """Return the options of generation_config.json that come closest to a search.

    They also have the search itself, from which `read_search` returns the same.

    Args:
        decoding: The search.
        special: Hugging Face's ids of special tokens, by its names.
        unknown: Its id of the unknown token.
        languages: Its ids of languages, by their codes.
    """
    end = special["eos_token_id"]
    banned = {special["pad_token_id"], special["decoder_start_token_id"]} - {end}
    if not decoding.allow_unknown:
        banned.add(unknown)
    is_theirs = decoding.style in ("transformers", "transformers_early")
    options: dict[str, Any] = {
        OWN_SEARCH: dataclasses.asdict(decoding),
        **special,
        # It counts the token that the decoder starts from.
        "max_length": decoding.longest(decoding.max_source_length) + 1,
        "bad_words_ids": [[i] for i in sorted(banned)],
        "no_repeat_ngram_size": decoding.no_repeat_ngram_size,
        "repetition_penalty": decoding.repetition_penalty,
        "renormalize_logits": decoding.renormalize,
    }
    if decoding.min_length:
        options["min_new_tokens"] = decoding.min_length
    if is_theirs:
        options["forced_eos_token_id"] = end
    if decoding.target_language is not None:
        options["forced_bos_token_id"] = languages[decoding.target_language]
    if decoding.temperature is not None:
        sampling = {name: getattr(decoding, name) for name in ("temperature", "top_k", "top_p")}
        return {**options, "num_beams": 1, "do_sample": True, **sampling}
    options["num_beams"] = decoding.beam_size
    if decoding.beam_size > 1:
        options["length_penalty"] = decoding.length_penalty
        options["early_stopping"] = decoding.style == "transformers_early" if is_theirs else "never"
    return options


def _written_search(
    search: Mapping[str, Any], options: Mapping[str, Any], target: ForeignSide
) -> DecodingConfig | None:
    """Return the search that `write_search` was given, unless the options have been changed."""
    special: dict[str, Any] = {name: options.get(name) for name in SPECIAL_IDS}
    special |= {"pad_token_id": target.pad, "eos_token_id": target.eos}
    languages = {code: i for i, code in target.language_codes.items()}
    try:
        decoding = DecodingConfig(**search[OWN_SEARCH])
        written = write_search(decoding, special, target.unk, languages)
    except (KeyError, TypeError, ValueError):
        return None
    return decoding if written == search else None


def _wrong_types(search: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for kind, names in _NUMBERS.items():
        for name in names:
            value = search.get(name)
            if value is not None and (isinstance(value, bool) or not isinstance(value, kind)):
                yield name, f"a number, received {value!r}"
    words, tokens = search.get("bad_words_ids"), search.get("suppress_tokens")
    if words is not None and not (_is_list(words, list) and all(_is_list(w, int) for w in words)):
        yield "bad_words_ids", f"a list of lists of ids, received {words!r}"
    if tokens is not None and not _is_list(tokens, int):
        yield "suppress_tokens", f"a list of ids, received {tokens!r}"


def _is_list(value: Any, kind: type) -> bool:
    return isinstance(value, list) and all(isinstance(item, kind) for item in value)


def _problems(
    search: Mapping[str, Any], options: Mapping[str, Any], target: ForeignSide
) -> Iterator[tuple[str, str]]:
    """Yield which options have values that cannot be imported, and what is required of them."""
    neutral = _NEUTRAL | (_NEUTRAL_IN_SAMPLING if search.get("do_sample") else {})
    expected: dict[str, tuple] = {name: (value, None, []) for name, value in neutral.items()}
    if (search.get("num_beams") or 1) > 1:
        expected["early_stopping"] = (False, True, None)
    start = options["decoder_start_token_id"]
    languages = list(target.language_codes)
    expected |= {
        "forced_bos_token_id": (None, *languages),
        # Without it, only translations that reach the limit have another last token.
        "forced_eos_token_id": (target.eos, [target.eos], *([None] if languages else [])),
        "eos_token_id": (target.eos, [target.eos], None),
        "decoder_start_token_id": (start, None),
    }
    if start in (target.eos, target.unk):  # It counts as a token that occurred.
        expected["repetition_penalty"] = (1.0, None)
        if search.get("no_repeat_ngram_size") == 1:
            expected["no_repeat_ngram_size"] = (0,)
    for name, values in expected.items():
        if (value := search.get(name)) not in values:
            yield name, f"must be {values[0]!r}, received {value!r}"
    no_text = [target.pad, target.unk, start]
    words = [word for word in search.get("bad_words_ids") or [] if word != [target.eos]]
    if others := [word for word in words if len(word) != 1 or word[0] not in no_text]:
        yield (
            "bad_words_ids",
            f"must be the padding, start or unknown token, received {others!r}",
        )
    if tokens := [i for i in search.get("suppress_tokens") or [] if i not in no_text]:
        yield "suppress_tokens", f"must be padding, start or unknown tokens, received {tokens!r}"


def _decoding(
    search: Mapping[str, Any], options: Mapping[str, Any], target: ForeignSide
) -> DecodingConfig:
    # max_length counts the token that the decoder starts from.
    longest = search.get("max_new_tokens") or (search.get("max_length") or _MAX_LENGTH) - 1
    shortest = search.get("min_new_tokens") or max((search.get("min_length") or 0) - 1, 0)
    hypotheses = search.get("num_return_sequences") or 1
    sampling: dict[str, Any] = {}
    if search.get("do_sample"):
        sampling = {
            "temperature": search.get("temperature") or 1.0,
            "top_k": 50 if search.get("top_k") is None else search["top_k"],
            "top_p": search.get("top_p") or 1.0,
        }
    banned = [
        *(search.get("bad_words_ids") or []),
        *([i] for i in search.get("suppress_tokens") or []),
    ]
    return DecodingConfig(
        target_language=target.language_codes.get(search.get("forced_bos_token_id") or -1),
        beam_size=search.get("num_beams") or 1,
        num_hypotheses=None if hypotheses == 1 else hypotheses,
        length_penalty=float(
            1.0 if search.get("length_penalty") is None else search["length_penalty"]
        ),
        style="transformers_early" if search.get("early_stopping") else "transformers",
        renormalize=bool(search.get("renormalize_logits")),
        length_factor=0.0,
        extra_length=longest,
        min_length=shortest,
        **sampling,
        max_source_length=options.get("max_position_embeddings") or _MAX_LENGTH,
        no_repeat_ngram_size=search.get("no_repeat_ngram_size") or 0,
        repetition_penalty=search.get("repetition_penalty") or 1.0,
        allow_unknown=[target.unk] not in banned,
    )
