r"""Sentences of texts, found inside a graph.

The regular expressions are RE2's, which has no lookaround. Instead, each replaces what a look at
the surroundings has decided: stops that do not end a sentence become other characters first.
"""

import tensorflow as tf

from keras_transformer.text.protection import CLOSE, OPEN, clean, is_odd, join, split_marked

_END, _NEXT = OPEN, CLOSE  # Around the white space between sentences.
# More of Unicode's characters for internal use, which are in no text.
_KEPT_STOP, _WEAK_STOP, _TAG, _TAG_SPACE = map(chr, range(0xFDD2, 0xFDD6))

_INLINE = r"[ \t\pZ]"
_BLANK = r"[\s\pZ\v\x{85}]"
_BREAK = rf"{_BLANK}*[\n\r\x{{2028}}\x{{2029}}]{_BLANK}*"
_START = r"(^|[^\pL\pM\pN_])"

_NEVER_LAST = (
    "Dr|Drs|Mr|Mrs|Ms|Prof|St|Ste|Mt|Rev|Gen|Col|Capt|Lt|Sgt|Sen|Rep|Gov|Pres|Messrs|Hon"
    "|vs|[Cc]f|[Aa]pprox|esp|viz|[Ii]ncl|[Ee]xcl|dept|e\\.g|i\\.e"
    "|Hrn?|Fr|Frl|Dipl|Ing|Mag|Fa|[Bb]zw|[Cc]a|[Ee]vtl|[Gg]gf|[Ii]nkl|[Ee]xkl|[Ss]og|[Vv]gl|zzgl"
    "|[Bb]spw|[Ii]nsb|allg|[zZ]\\.\\pZ?B|[dD]\\.\\pZ?h|i\\.\\pZ?d\\.\\pZ?R"
    "|MM|Mme|Mlle|Mgr|Pr|Me|[Ee]nv|[ÉéEe]d|trad|av|[Bb]d|boul|[Cc]hap|p\\.\\pZ?ex|c\\.-à-d"
)
"""Abbreviations that no sentence ends with, in English, German and French."""
_BEFORE_NUMBER = (
    "[Nn]os?|Nrn?|pp|[Ff]igs?|Abb|[Tt]ab|Abs|[Aa]rt|Kap|[Bb]d|[Vv]ol|[Cc]hap|[Cc]h|[Ss]ec|Eqs?"
    "|Jan|Febr?|Mar|Apr|Jun|Jul|Aug|Sept?|O[ck]t|Nov|De[cz]|janv|févr|avr|juil|sept|oct|nov|déc"
    "|Ziff|Anm|[Mm]ax|[Mm]in|[Tt][eé]l|[Vv]er|\\pL*[Ss]tr|[Rr][eé]f"
)
"""Abbreviations if a number follows."""
_ORDINAL_NOUN = (
    "Januar|Jänner|Februar|März|April|Mai|Juni|Juli|August|September|Oktober|November|Dezember"
    "|Jahrhundert|Jh|Geburtstag|Jahrestag"
)
_BEFORE_ORDINAL = (
    "[Aa]m|[Dd]er|[Dd]ie|[Dd]as|[Dd]em|[Dd]en|[Dd]es|[Ii]m|[Ii]n|[Vv]om|[Zz]um|[Zz]ur|[Bb]is|ab"
    "|eine?[mnrs]?|[Ss]eine?[mnrs]?|[Ii]hre?[mnrs]?|[Jj]ede[mnrs]?|[Aa]uf|[Aa]ls|[Vv]on"
)
"""Words before a number with a stop that make it an ordinal of German, unless a sentence starts."""
_FIRST_WORDS = (
    "The|An?|He|She|It|We|They|You|I|This|That|These|Those|There|In|On|At|But|And|Or|If|When|While"
    "|As|For|Its|His|Her|Our|My|Their|What|Who|How|Why|Where|Then|However|So|No|Not|Yes|Please"
    "|Der|Die|Das|Ein|Eine|Er|Sie|Es|Wir|Ich|Du|Ihr|Dieser?|Dieses|Im|Am|Auf|Aber|Und|Oder|Wenn"
    "|Als|Da|Dann|Danach|Doch|Nun|Was|Wer|Wie|Wo|Warum|Man|Mit|Nach|Bei|Für|Von|Vor|Seit|Mehr"
    "|Le|La|Les|Une?|Des|Ils?|Elles?|On|Nous|Vous|Je|Tu|Ce|Cette|Ces|Cela|Mais|Et|Ou|Si|Quand|Dans"
    "|En|À|Aux?|Pour|Par|Sur|Avec|Son|Sa|Ses|[CLDJ]['’]\\pL+|Puis"
)
"""What starts a sentence after a stop that rather belongs to an abbreviation."""

_SPAN = r"<[A-Za-z/!][^<>\n]*>|\{(?:[^{}\n]|\{[^{}\n]*\})*\}"
_OPENING = r"(?:[\[({\"'“‘„‚«»‹›¿¡*_]|[-–—]\pZ)*"
_CLOSING = rf"(?:[\])}}\"'”’“‘«»‹›*_]|{_INLINE}[»›]|</?[A-Za-z][^<>\n]*>)*"
_WIDE = r"[。｡！？]+[」』）】”’》〉]*"

# An expression and what replaces its matches, one after another.
_STEPS = (
    # Stops that end no sentence.
    (rf"(?m)(^{_INLINE}*[0-9]{{1,3}})\.", rf"\1{_KEPT_STOP}"),
    (rf"{_START}({_NEVER_LAST})\.", rf"\1\2{_KEPT_STOP}"),
    (rf"{_START}({_BEFORE_NUMBER})\.({_INLINE}*[0-9])", rf"\1\2{_KEPT_STOP}\3"),
    (rf"([0-9])\.({_INLINE}+(?:{_ORDINAL_NOUN}))", rf"\1{_KEPT_STOP}\2"),
    (
        rf"([0-9])\.({_INLINE}+[0-9]{{1,2}})\.({_INLINE}*[0-9])",
        rf"\1{_KEPT_STOP}\2{_KEPT_STOP}\3",
    ),
    # Stops that mostly end none.
    (rf"{_START}((?:{_BEFORE_ORDINAL}){_INLINE}+[0-9]{{1,2}})\.", rf"\1\2{_WEAK_STOP}"),
    *[(rf"{_START}(\pL|[IVX]+)\.", rf"\1\2{_WEAK_STOP}")] * 2,  # In a.m., two share a stop.
    (
        rf"({_WEAK_STOP}{_CLOSING})({_INLINE}+)({_OPENING}(?:{_FIRST_WORDS})[^\pL])",
        rf"\1{_END}\2{_NEXT}\3",
    ),
    # All others end one, unless a small letter follows.
    (rf"({_SPAN})|([.!?…]+{_CLOSING})({_INLINE}+)", rf"\1\2{_END}\3{_NEXT}"),
    (f"{_END}{_NEXT}", ""),
    (rf"{_END}({_INLINE}+){_NEXT}({_OPENING}\p{{Ll}}(?:[^)]|$))", r"\1\2"),
    (rf"({_NEXT}[0-9]{{1,3}}\.){_END}({_INLINE}+){_NEXT}", r"\1\2"),  # 1. An item.
    (rf"({_WIDE})({_INLINE}*)", rf"\1{_END}\2{_NEXT}"),
    (rf"(^{_BLANK}+|{_BREAK}|{_BLANK}+$)", rf"{_END}\1{_NEXT}"),
    (f"{_NEXT}{_END}", ""),
    (f"{_KEPT_STOP}|{_WEAK_STOP}", "."),
)


def split_sentences(text: tf.Tensor) -> tf.RaggedTensor:
    """Split texts into sentences and the white space between them.

    A sentence ends at a stop, with the quotes and brackets that close after it, and at each line
    break. It does not end at a stop inside a tag or braces, nor after an abbreviation, an initial
    or a number that mostly continues.

    Args:
        text: string [B].

    Returns:
        The pieces of each text, string [B, None]: sentence, white space, sentence and so on, with a
        sentence at both ends, which may be empty. Joined, they are the text, except that U+FFFD
        replaces bytes that are not UTF-8 and Unicode's characters for internal use.

    >>> pieces = split_sentences(tf.constant(["Dr. No came. He left.\\n", "Wait", ""]))
    >>> [[piece.decode() for piece in row] for row in pieces.to_list()]
    [['Dr. No came.', ' ', 'He left.', '\\n', ''], ['Wait'], ['']]
    """
    marked = clean(tf.convert_to_tensor(text))
    for pattern, rewrite in _STEPS:
        marked = tf.strings.regex_replace(marked, pattern, rewrite)
    return split_marked(marked)


def split_long(pieces: tf.RaggedTensor, is_long: tf.Tensor, most: int) -> tf.RaggedTensor:
    """Split sentences after commas, or else at white space, or anywhere but inside a tag or URL.

    Longer tags and URLs, which no model translates, are set apart as white space is.

    Args:
        pieces: string [B, None], as `split_sentences` returns them.
        is_long: bool [N], which of all pieces are sentences to split.
        most: The most characters of a part.

    Returns:
        Pieces of the same kind, which are the same text.

    >>> pieces = split_sentences(["A dog, a cat and a very old mouse.", "A long one."])
    >>> pieces = split_long(pieces, [True, False], most=15)
    >>> [[piece.decode() for piece in row] for row in pieces.to_list()]
    [['A dog,', ' ', 'a cat and a', ' ', 'very old mouse.', '', ''], ['A long one.']]
    """
    some = f".{{1,{most}}}"
    pattern = (
        rf"(?s)({some})$|({some}[,;:])({_BLANK}+)|({some}[，、；：])"
        rf"|({some})({_BLANK}+)|({some}){_TAG}|(.{{{most}}})"
    )
    long = tf.where(is_long)
    parts = _set_apart(tf.gather_nd(pieces.values, long), most)
    cut = tf.strings.regex_replace(parts.values, pattern, rf"\1\2\4\5\7\8{_END}\3\6{_NEXT}")
    kept = tf.strings.join([_END, parts.values, _NEXT])
    cut = join(parts.with_values(tf.where(is_odd(parts), kept, cut)))
    cut = tf.strings.regex_replace(tf.strings.regex_replace(cut, _TAG, ""), _TAG_SPACE, " ")
    marked = tf.tensor_scatter_nd_update(pieces.values, long, cut)
    return pieces.with_values(split_marked(marked)).merge_dims(1, 2)


def _set_apart(text: tf.Tensor, most: int) -> tf.RaggedTensor:
    """Return texts [N] as pieces, every other of which is a tag or URL of more characters.

    Other tags and URLs get a mark in front, and marks for their spaces.
    """
    tag = r"<[A-Za-z/!][^<>]*>|https?://[^\s\pZ<>]*[\pL\pN/]"
    parts = split_marked(tf.strings.regex_replace(text, f"({tag})", rf"{_END}\1{_NEXT}"))
    is_tag, values = is_odd(parts), parts.values
    is_longer = is_tag & (tf.strings.length(values, unit="UTF8_CHAR") >= most)
    marked = tf.strings.join([_TAG, tf.strings.regex_replace(values, " ", _TAG_SPACE)])
    values = tf.where(is_tag, marked, values)
    values = tf.where(is_longer, tf.strings.join([_END, parts.values, _NEXT]), values)
    spaced = rf"({_BLANK}*){_END}([^{_NEXT}]*){_NEXT}({_BLANK}*)"
    apart = tf.strings.regex_replace(
        join(parts.with_values(values)), spaced, rf"{_END}\1\2\3{_NEXT}"
    )
    return split_marked(apart)
