"""The languages of models of many languages: codes, the names that people use, and token ids."""

import dataclasses
import difflib
from collections.abc import Mapping, Sequence

import tensorflow as tf

from keras_transformer.config import DecodingConfig
from keras_transformer.text import Tokenizer
from keras_transformer.text.base import StringTable

Languages = str | Sequence[str] | None
"""A language of all sentences, or one for each."""

_SHOWN = 5


def with_languages(decoding: DecodingConfig, tokenizer: Tokenizer) -> DecodingConfig:
    """Return options whose languages are codes of a tokenizer.

    Raises:
        ValueError: If it has no such language, translations are to begin with a text, or sources
            have no token besides their language and eos.
    """
    if tokenizer.languages and decoding.prefix:
        raise ValueError(
            "prefix must be empty for a model of many languages, whose translations begin with "
            f"their language; received {decoding.prefix!r}. Leave it out."
        )
    if tokenizer.languages and decoding.max_source_length < 3:
        raise ValueError(
            "max_source_length must be at least 3 for a model of many languages, as it counts the "
            f"source's language and eos; received {decoding.max_source_length}. Give a higher one."
        )
    source, target = decoding.source_language, decoding.target_language
    return dataclasses.replace(
        decoding,
        source_language=source and find_language(source, tokenizer, "source_language"),
        target_language=target and find_language(target, tokenizer, "target_language"),
    )


def find_language(name: str, tokenizer: Tokenizer, option: str = "language") -> str:
    """Return the code that a tokenizer has for a language.

    Args:
        name: A code of the tokenizer, such as "deu_Latn", or a code or an English name that means
            one of its languages, such as "de", "de-DE" and "German"; these need the package babel.
        tokenizer: A tokenizer with `languages`.
        option: What the name was given as, for the message.

    Raises:
        ValueError: If it has no such language, or several.
    """
    codes = list(tokenizer.languages)
    if name in codes:
        return name
    if not codes:
        raise ValueError(
            f"{option} needs a model of many languages, such as NLLB's, received {name!r} and a "
            "model of fixed languages. Leave it out."
        )
    plain = _plain(name)
    found = [code for code in codes if _plain(code) == plain]
    found = found or [code for code in codes if _plain(code).split("-")[0] == plain]
    found = found or _by_standard(name, codes)
    if len(found) == 1:
        return found[0]
    if found:
        raise ValueError(
            f"{option} must be one language of the model, received {name!r}, which may be "
            f"{', '.join(found)}. Give one of these."
        )
    near = difflib.get_close_matches(plain, [_plain(code) for code in codes], _SHOWN, 0.5)
    shown = [code for code in codes if _plain(code) in near] or codes[:_SHOWN]
    raise ValueError(
        f"{option} must be a language of the model, received {name!r}. Near ones are "
        f"{', '.join(shown)}; it has {len(codes)} in all (`Translator.languages`)."
    )


def _plain(code: str) -> str:
    return code.replace("_", "-").lower()


def _by_standard(name: str, codes: Sequence[str]) -> list[str]:
    """Return the codes that mean a language by the names and aliases of Unicode's CLDR."""
    try:
        from babel import Locale
        from babel.core import get_global
    except ImportError:
        return []
    aliases, likely = get_global("language_aliases"), get_global("likely_subtags")
    named = {text.lower(): code for code, text in Locale("en").languages.items()}
    wanted = named.get(name.lower(), name).replace("-", "_")

    def language(code):
        first = code.split("_")[0].lower()
        return aliases.get(first, first)

    found = [code for code in codes if language(code) == language(wanted)]
    parts = wanted.split("_")[1:]
    if any(len(part) > 4 for part in parts):
        return []
    if parts and len(parts[0]) != 4:  # A region, which may tell the script.
        parts = likely.get(f"{language(wanted)}_{parts[0].upper()}", "_").split("_")[1:]
    return [code for code in found if parts and parts[0].title() in code.split("_")] or found


def language_columns(
    named: Mapping[str, Languages],
    defaults: Mapping[str, str | None],
    tokenizer: Tokenizer,
    count: int,
) -> list[list[str]]:
    """Return the codes of each sentence: one list for each side.

    Args:
        named: What a call was given.
        defaults: The languages of a call that names none.
        tokenizer: A tokenizer with `languages`.
        count: The number of sentences.

    Raises:
        ValueError: If a language is missing or unknown, or there is not one for each sentence.
    """
    columns = []
    for side, given in named.items():
        languages = defaults[side] if given is None else given
        if languages is None:
            raise ValueError(f"Give {side}, too; the model has no default.")
        if isinstance(languages, str):
            languages = count * [languages]
        if len(languages) != count:
            raise ValueError(
                f"{side} must be one language, or one for each of the {count} sentences; received "
                f"{len(languages)}."
            )
        codes = {name: find_language(name, tokenizer, side) for name in set(languages)}
        columns.append([codes[name] for name in languages])
    return columns


def language_ids(codes: tf.Tensor, tokenizer: Tokenizer, name: str) -> tf.Tensor:
    """Return the ids int32 [B] of codes, string [B], in a graph; others are an error there."""
    with tf.init_scope():
        table = StringTable(tokenizer.languages)
    ids = table(codes, default=-1)
    known = sorted(tokenizer.languages)
    message = f"{name} must be one of {', '.join(known)}; received others:"
    others = tf.boolean_mask(codes, ids < 0)
    with tf.control_dependencies([tf.debugging.Assert(tf.reduce_all(ids >= 0), [message, others])]):
        return tf.identity(ids)
