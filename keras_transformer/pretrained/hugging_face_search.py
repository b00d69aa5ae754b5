"""The search of Hugging Face's `generate`, as generation_config.json or config.json describe it."""

import logging
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from keras_transformer.config import DecodingConfig
from keras_transformer.pretrained.foreign_model import ForeignSide

log = logging.getLogger(__name__)

_MAX_LENGTH = 512
"""The limit of models that state none. Hugging Face's is 20, which cuts most sentences off."""
_NEUTRAL: dict[str, Any] = {
    "early_stopping": False,
    "num_beam_groups": 1,
    "diversity_penalty": 0.0,
    "encoder_no_repeat_ngram_size": 0,
    "encoder_repetition_penalty": 1.0,
    "guidance_scale": 1.0,
    **dict.fromkeys(
        """
        begin_suppress_tokens constraints dola_layers exponential_decay_length_penalty
        force_words_ids forced_bos_token_id forced_decoder_ids max_time penalty_alpha
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


def read_search(
    path: Path, search: Mapping[str, Any], options: Mapping[str, Any], target: ForeignSide
) -> DecodingConfig:
    """Return the search that a file describes, and log the options that cannot be imported.

    Args:
        path: The file, for messages.
        search: Its options.
        options: The options of config.json, with defaults.
        target: The vocabulary of the target.

    Raises:
        ValueError: If an option is out of range.
    """
    if problems := list(_problems(search, options, target)):
        log.warning(
            "%s has search options that cannot be imported: %s. Translations use the required "
            "values instead, and may differ from Hugging Face's; compare some, or change the "
            "options.",
            path,
            "; ".join(problems),
        )
    try:
        return _decoding(search, options, target)
    except ValueError as error:
        reason = " ".join(str(error).split())
        raise ValueError(
            f"The search of {path} cannot be imported: {reason}. Change the option."
        ) from error


def _problems(
    search: Mapping[str, Any], options: Mapping[str, Any], target: ForeignSide
) -> Iterator[str]:
    """Yield which options have values that cannot be imported, as parts of a sentence."""
    neutral = _NEUTRAL | (_NEUTRAL_IN_SAMPLING if search.get("do_sample") else {})
    expected: dict[str, tuple] = {name: (value, None, []) for name, value in neutral.items()}
    if (search.get("num_beams") or 1) == 1:
        del expected["early_stopping"]
    start = options["decoder_start_token_id"]
    expected |= {
        "forced_eos_token_id": (target.eos, [target.eos]),
        "eos_token_id": (target.eos, [target.eos], None),
        "decoder_start_token_id": (start, None),
    }
    for name, values in expected.items():
        if (value := search.get(name)) not in values:
            yield f"{name} must be {values[0]!r}, received {value!r}"
    no_text = [target.pad, target.unk, start]
    words = [word for word in search.get("bad_words_ids") or [] if word != [target.eos]]
    if others := [word for word in words if len(word) != 1 or word[0] not in no_text]:
        yield f"bad_words_ids must be the padding, start or unknown token, received {others!r}"
    if tokens := [i for i in search.get("suppress_tokens") or [] if i not in no_text]:
        yield f"suppress_tokens must be padding, start or unknown tokens, received {tokens!r}"


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
        beam_size=search.get("num_beams") or 1,
        num_hypotheses=None if hypotheses == 1 else hypotheses,
        length_penalty=float(
            1.0 if search.get("length_penalty") is None else search["length_penalty"]
        ),
        style="transformers",
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
