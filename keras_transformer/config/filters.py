"""The filters of sentence pairs by name, and sets of them."""

FILTERS = {
    "identical": "whose sides are identical",
    "keys": "whose source is a message key, such as label_add",
    "placeholders": "with other placeholders on one side",
    "tags": "with other tags on one side",
    "numbers": "with other numbers on one side",
    "urls": "with other URLs on one side",
    "newlines": "with more newlines on one side",
    "script": "with a side in another script than the rest",
    "language": "with a side in another language than the rest",
    "several_translations": "whose source occurred before with another translation",
    "near_duplicates": "that occurred before, apart from case, digits, punctuation and white space",
    "in_validation": "whose source is also in the validation text, apart from such differences",
}
"""What the pairs that a filter finds have in common."""

FILTER_SETS = {
    "messages": ("keys", "placeholders", "tags", "urls", "newlines", "script", "in_validation"),
    "prose": (
        "identical",
        "numbers",
        "urls",
        "script",
        "near_duplicates",
        "in_validation",
    ),
}
"""Names that stand for several filters."""


def chosen_filters(names: list[str]) -> tuple[str, ...]:
    """Return the filters that some names of filters and sets stand for, each once.

    Raises:
        ValueError: If a name is unknown.

    >>> chosen_filters(["identical", "messages"])[:3]
    ('identical', 'keys', 'placeholders')
    """
    if unknown := [name for name in names if name not in FILTERS | FILTER_SETS]:
        raise ValueError(
            f"filters must be among {', '.join(FILTER_SETS | FILTERS)}, received "
            f"{', '.join(map(repr, unknown))}"
        )
    each = (name for given in names for name in FILTER_SETS.get(given, (given,)))
    return tuple(dict.fromkeys(each))
