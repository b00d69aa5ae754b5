"""Regular German inflection: articles, endings, pronouns, contracted prepositions.

The plural is treated as a fourth gender, so every table has the columns m, f, n, p.
"""

from typing import Literal

Case = Literal["nominative", "accusative", "dative", "genitive"]
Gender = Literal["m", "f", "n", "p"]
Agreement = Literal["I", "we", "he", "they"]
Declension = Literal["article", "der", "ein", "strong", "none"]

CASES: tuple[Case, ...] = ("nominative", "accusative", "dative", "genitive")


def _table(nominative: str, accusative: str, dative: str, genitive: str = "") -> dict:
    """Read a table of forms, one string of four columns for each case; `-` is an empty form."""
    rows = {
        "nominative": nominative,
        "accusative": accusative,
        "dative": dative,
        "genitive": genitive,
    }
    return {
        (case, gender): form.strip("-")
        for case, row in rows.items()
        for gender, form in zip("mfnp", row.split(), strict=bool(row))
    }


_ARTICLE = _table("der die das die", "den die das die", "dem der dem den", "des der des der")
_DER_WORD = _table("er e es e", "en e es e", "em er em en", "es er es er")
_EIN_WORD = _table("- e - e", "en e - e", "em er em en", "es er es er")
_WEAK = _table("e e e en", "en e e en", "en en en en", "en en en en")
_MIXED = _table("er e es en", "en e es en", "en en en en", "en en en en")
_STRONG = _table("er e es e", "en e es e", "em er em en", "en er en er")

PRONOUN = _table("er sie es sie", "ihn sie es sie", "ihm ihr ihm ihnen")
RELATIVE = _table("der die das die", "den die das die", "dem der dem denen")

_CONTRACTIONS = {
    "in dem": "im",
    "in das": "ins",
    "an dem": "am",
    "an das": "ans",
    "zu dem": "zum",
    "zu der": "zur",
}

# The ich form, the er form and the plural of irregular verbs. The preterite is that of verbs that
# use it where others use the perfect.
_PRESENT = {
    "sein": "bin ist sind",
    "haben": "habe hat haben",
    "werden": "werde wird werden",
    "wissen": "weiß weiß wissen",
    "können": "kann kann können",
    "müssen": "muss muss müssen",
    "wollen": "will will wollen",
    "dürfen": "darf darf dürfen",
    "sollten": "sollte sollte sollten",
    "möchten": "möchte möchte möchten",
}
_PRETERITE = {
    "sein": "war",
    "haben": "hatte",
    "werden": "wurde",
    "müssen": "musste",
    "wollen": "wollte",
}

# Prepositions with a fixed case. Others take the dative for a place and the accusative for a
# direction.
PREPOSITION_CASE: dict[str, Case] = {"mit": "dative", "zu": "dative"}


def determiner_form(stem: str, declension: Declension, case: Case, gender: Gender) -> str:
    """Inflect an article word: `("dies", "der", "dative", "f")` gives `dieser`.

    Args:
        stem: The word without its ending, such as `dies`, `ein`, `mein`; ignored for the article.
        declension: `"article"` for der/die/das; `"der"` for words with the same endings (dieser);
            `"strong"` for words with these endings followed by strong adjectives (viele); `"ein"`
            for words with the endings of the indefinite article; `"none"` for numbers.
        case: The case of the noun.
        gender: The gender of the noun, or `"p"` for a plural.
    """
    if declension == "article":
        return _ARTICLE[case, gender]
    if declension in ("der", "strong"):
        return stem + _DER_WORD[case, gender]
    if declension == "ein":
        return stem + _EIN_WORD[case, gender]
    return stem


def adjective_ending(after: Declension, case: Case, gender: Gender) -> str:
    """Return the ending of an adjective after an article word of the declension `after`.

    Words with the endings of the definite article are followed by weak endings, words with those of
    the indefinite article by mixed endings, and all others, such as numbers, by strong endings.
    """
    if after in ("article", "der"):
        return _WEAK[case, gender]
    if after == "ein":
        return _MIXED[case, gender]
    return _STRONG[case, gender]


def with_preposition(preposition: str, phrase: str) -> str:
    """Put a preposition before a phrase: `("in", "dem Garten")` gives `im Garten`."""
    article, _, rest = phrase.partition(" ")
    contracted = _CONTRACTIONS.get(f"{preposition} {article}")
    return f"{contracted} {rest}" if contracted and rest else f"{preposition} {phrase}"


def irregular_present(infinitive: str, agreement: Agreement) -> str | None:
    """Return the present of an irregular or auxiliary verb, or None for any other."""
    forms = _PRESENT.get(infinitive)
    return forms and forms.split()[{"I": 0, "he": 1}.get(agreement, 2)]


def irregular_preterite(infinitive: str, agreement: Agreement) -> str | None:
    """Return the preterite of a verb that prefers it to the perfect, or None for any other."""
    form = _PRETERITE.get(infinitive)
    if form is None or agreement in ("I", "he"):
        return form
    return form + ("n" if form.endswith("e") else "en")
