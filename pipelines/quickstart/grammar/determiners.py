"""Article words in both languages."""

from dataclasses import dataclass

from pipelines.quickstart.grammar.german import Declension


@dataclass(frozen=True)
class Determiner:
    """An article word.

    Attributes:
        english: The English word before a singular noun, or None.
        plural: The English word before a plural noun, or None.
        stem: The German word without its ending.
        declension: Its endings, which also determine those of adjectives after it.
        indefinite: Whether it makes a phrase indefinite.
        negative: Whether the German word negates the clause.
    """

    english: str | None
    plural: str | None
    stem: str
    declension: Declension
    indefinite: bool = False
    negative: bool = False


_DETERMINERS = {
    "the": Determiner("the", "the", "", "article"),
    "a": Determiner("a", "", "ein", "ein", indefinite=True),
    "not a": Determiner("a", "", "kein", "ein", indefinite=True, negative=True),
    "no": Determiner("no", "no", "kein", "ein", indefinite=True, negative=True),
    "this": Determiner("this", "these", "dies", "der"),
    "every": Determiner("every", None, "jed", "der"),
    "which": Determiner("which", None, "welch", "der"),
    "all": Determiner(None, "all", "all", "der"),
    "some": Determiner(None, "some", "einig", "strong", indefinite=True),
    "many": Determiner(None, "many", "viel", "strong", indefinite=True),
    "how many": Determiner(None, "how many", "wie viel", "strong", indefinite=True),
    "my": Determiner("my", "my", "mein", "ein"),
    "his": Determiner("his", "his", "sein", "ein"),
    "her": Determiner("her", "her", "ihr", "ein"),
    "our": Determiner("our", "our", "unser", "ein"),
    "their": Determiner("their", "their", "ihr", "ein"),
}
POSSESSIVE = {"I": "my", "we": "our", "he": "his", "she": "her", "they": "their"}


def find_determiner(name: str) -> Determiner:
    """Return the article word of that name, or the number `three/drei`, which has no endings.

    Names are English singular forms, or plural forms for words without a singular. "not a" is the
    "a" of a negated English sentence, kein in German.
    """
    if name in _DETERMINERS:
        return _DETERMINERS[name]
    english, german = name.split("/")
    return Determiner(None, english, german, "none", indefinite=True)
