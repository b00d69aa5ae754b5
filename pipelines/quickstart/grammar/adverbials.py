"""Times, adverbs and numbers in both languages."""

from random import Random

from pipelines.quickstart.grammar.phrases import Adverbial


def _read(table: str, late: bool = False) -> tuple[Adverbial, ...]:
    pairs = (line.split("=") for line in table.strip().splitlines())
    return tuple(Adverbial(english.strip(), german.strip(), late) for english, german in pairs)


NOW = _read("""
    now = jetzt
    today = heute
    at the moment = im Moment
""")
SOON = _read("""
    tomorrow = morgen
    this evening = heute Abend
    soon = bald
""")
LATER = _read("""
    next week = nächste Woche
    next month = nächsten Monat
    next year = nächstes Jahr
""")
RECENTLY = _read("""
    yesterday = gestern
    yesterday evening = gestern Abend
    this morning = heute Morgen
""")
EARLIER = _read("""
    last week = letzte Woche
    last month = letzten Monat
    last year = letztes Jahr
""")
HABIT = _read("""
    every day = jeden Tag
    every morning = jeden Morgen
    every evening = jeden Abend
    every week = jede Woche
    in the morning = am Morgen
    in the evening = am Abend
""")
SEASONS = _read("""
    in the summer = im Sommer
    in the winter = im Winter
""")
FREQUENCY = _read("""
    often = oft
    sometimes = manchmal
    always = immer
    usually = meistens
    rarely = selten
""")
(NEVER,) = _read("never = nie", late=True)
(ALREADY,) = _read("already = schon", late=True)
OPENERS = _read("""
    perhaps = vielleicht
    unfortunately = leider
    fortunately = zum Glück
    of course = natürlich
""")
MANNERS = {
    "slowly": Adverbial("slowly", "langsam"),
    "quickly": Adverbial("quickly", "schnell"),
    "carefully": Adverbial("carefully", "vorsichtig"),
    "quietly": Adverbial("quietly", "leise"),
    "loudly": Adverbial("loudly", "laut"),
    "alone": Adverbial("alone", "allein"),
}
WEEKDAYS = {
    "Monday": "Montag",
    "Tuesday": "Dienstag",
    "Wednesday": "Mittwoch",
    "Thursday": "Donnerstag",
    "Friday": "Freitag",
    "Saturday": "Samstag",
    "Sunday": "Sonntag",
}
# Causes; German uses the genitive.
CAUSES = _read("""
    because of the rain = wegen des Regens
    because of the snow = wegen des Schnees
    because of the bad weather = wegen des schlechten Wetters
    despite the rain = trotz des Regens
    despite the snow = trotz des Schnees
    despite the bad weather = trotz des schlechten Wetters
""")

# English plurals, and German plurals in the dative, for use after vor and in.
_UNITS = {
    "hour": ("hours", "Stunden"),
    "day": ("days", "Tagen"),
    "week": ("weeks", "Wochen"),
    "month": ("months", "Monaten"),
    "year": ("years", "Jahren"),
}

_ENGLISH_NUMBERS = (
    "one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen"
    " sixteen seventeen eighteen nineteen"
).split()
_GERMAN_NUMBERS = (
    "ein zwei drei vier fünf sechs sieben acht neun zehn elf zwölf dreizehn vierzehn fünfzehn"
    " sechzehn siebzehn achtzehn neunzehn"
).split()
_TENS = {2: ("twenty", "zwanzig"), 3: ("thirty", "dreißig"), 4: ("forty", "vierzig")}


def number_words(number: int) -> tuple[str, str]:
    """Return a number from 2 to 49 in words: 23 is `twenty-three`, dreiundzwanzig."""
    tens, unit = divmod(number, 10)
    if tens < 2:
        return _ENGLISH_NUMBERS[number - 1], _GERMAN_NUMBERS[number - 1]
    english, german = _TENS[tens]
    if unit == 0:
        return english, german
    return f"{english}-{_ENGLISH_NUMBERS[unit - 1]}", f"{_GERMAN_NUMBERS[unit - 1]}und{german}"


def number(rng: Random, lowest: int, highest: int, digits: float = 0.4) -> tuple[str, str]:
    """Draw a number in both languages, in digits with probability `digits`."""
    drawn = rng.randint(lowest, highest)
    if drawn > 49 or rng.random() < digits:
        return str(drawn), str(drawn)
    return number_words(drawn)


def clock(rng: Random) -> Adverbial:
    """Draw a time of day in the morning or evening: `at seven o'clock`, um sieben Uhr."""
    english, german = number(rng, 6, 11)
    return Adverbial(f"at {english} o'clock", f"um {german} Uhr")


def weekday(rng: Random) -> Adverbial:
    """Draw a day of the week: `on Monday`, am Montag."""
    english, german = rng.choice(list(WEEKDAYS.items()))
    return Adverbial(f"on {english}", f"am {german}")


def ago(rng: Random, *units: str) -> Adverbial:
    """Draw a time in the past: `three weeks ago`, vor drei Wochen."""
    english, german = _span(rng, units)
    return Adverbial(f"{english} ago", f"vor {german}")


def ahead(rng: Random, *units: str) -> Adverbial:
    """Draw a time in the future: `in three weeks`, in drei Wochen."""
    english, german = _span(rng, units)
    return Adverbial(f"in {english}", f"in {german}")


def _span(rng: Random, units: tuple[str, ...]) -> tuple[str, str]:
    english, german = number(rng, 2, 12, digits=0.0)
    english_unit, german_unit = _UNITS[rng.choice(units)]
    return f"{english} {english_unit}", f"{german} {german_unit}"
