"""What the scripts of OPUS-MT do to text before they split it, in a TensorFlow graph."""

import tensorflow as tf

_REPLACEMENTS = {
    "[，、]": ",",
    "[。．] *": ". ",
    "[”“《》」「１]": '"',  # The scripts have a quotation mark for a wide 1.
    "[∶：]": ":",
    "？": "?",
    "）": ")",
    "！": "!",
    "（": "(",
    "；": ";",
    "～": "~",
    "’": "'",
    "…": "...",
    "━": "-",
    "〈": "<",
    "〉": ">",
    "【": "[",
    "】": "]",
    "％": "%",
    **{wide: str(digit) for digit, wide in enumerate("０１２３４５６７８９") if digit != 1},
    # Control characters, then spaces.
    r"[^\n\PC]": " ",
    " +": " ",
    "^ | $": "",
}


def normalize_opus(text: tf.Tensor) -> tf.Tensor:
    """Return texts as the preprocessing scripts of OPUS-MT give them to SentencePiece.

    They replace wide punctuation and digits by narrow ones, control characters (`\\p{C}` but for
    unassigned code points) by spaces, and several spaces by one.

    Args:
        text: UTF-8 strings [B].

    >>> normalize_opus(tf.constant(["你好，  世界！", "“a”…\\u200b b "])).numpy()[1].decode()
    '"a"... b'
    """
    for pattern, replacement in _REPLACEMENTS.items():
        text = tf.strings.regex_replace(text, pattern, replacement)
    return text
