"""English inflection that follows rules: verb endings and the indefinite article."""

import re


def third_person(verb: str) -> str:
    """Return the English form with -s: `goes`, `tidies`, `reads`."""
    if verb == "have":
        return "has"
    if re.search(r"[^aeiou]y$", verb):
        return verb[:-1] + "ies"
    return verb + ("es" if re.search(r"(s|x|z|ch|sh|o)$", verb) else "s")


def gerund(verb: str) -> str:
    """Return the English form with -ing: `lying`, `writing`, `running`."""
    if verb.endswith("ie"):
        return verb[:-2] + "ying"
    if verb.endswith("e") and not verb.endswith("ee"):
        return verb[:-1] + "ing"
    doubles = re.fullmatch(r"[^aeiou]+[aeiou][^aeiouwxy]", verb) or verb in ("forget", "travel")
    return verb + (verb[-1] if doubles else "") + "ing"


def a_or_an(following: str) -> str:
    """Return the indefinite article before a word: `an` before `apple` and `honest`."""
    return "an" if following[0] in "aeiou" or following.startswith("honest") else "a"
