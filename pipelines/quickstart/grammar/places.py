"""Places with their prepositions, and names of people, cities and countries."""

from dataclasses import dataclass

from pipelines.quickstart.grammar.nouns import NOUNS
from pipelines.quickstart.grammar.words import Noun


@dataclass(frozen=True)
class Place:
    """A noun with the prepositions for being there and for going there, in both languages."""

    noun: Noun
    english_at: str
    german_at: str
    english_to: str
    german_to: str


def _read_places(table: str) -> dict[str, Place]:
    rows = (line.split() for line in table.strip().splitlines())
    names = {name.replace("_", " "): prepositions for name, *prepositions in rows}
    return {name: Place(NOUNS[name], *prepositions) for name, prepositions in names.items()}


# In German, the preposition of a direction depends on the place: ins Kino, zum Bahnhof.
PLACES = _read_places("""
    kitchen in in into in
    bathroom in in into in
    bedroom in in into in
    living_room in in into in
    cellar in in into in
    office in in to in
    house in in into in
    school in in to zu
    church in in into in
    hospital in in to in
    hotel in in to zu
    museum in in to in
    library in in to in
    restaurant in in to in
    cinema in in to in
    theatre in in to in
    station at an to zu
    castle in in to zu
    factory in in to zu
    bakery in in to zu
    shop in in into in
    garden in in into in
    park in in to in
    forest in in into in
    city in in into in
    village in in into in
    street in auf to zu
    market at auf to auf
    bridge on auf to zu
    river in in to zu
    lake in in to zu
    beach on an to an
    island on auf to auf
""")

MALE_NAMES = ("Peter", "Paul", "Martin", "Simon", "Leon", "Oskar")
FEMALE_NAMES = ("Anna", "Maria", "Julia", "Emma", "Laura", "Clara")

# Cities with their German names, and countries.
CITIES = {
    "Berlin": "Berlin",
    "Hamburg": "Hamburg",
    "London": "London",
    "Munich": "München",
    "Vienna": "Wien",
    "Cologne": "Köln",
}
COUNTRIES = {"Germany": "Deutschland", "Italy": "Italien"}

# German verbs depend on the thing: some things lie (legen, liegen), others stand (stellen, stehen).
LYING = tuple(
    ("book novel newspaper letter report shirt dress jacket skirt sweater coat").split()
    + "camera knife spoon key umbrella gift ball doll pencil picture".split()
)
STANDING = tuple("cup plate glass bottle bag suitcase box basket lamp radio computer".split())

# Positions of things by kind. Prepositions: English for a place and for a direction, and German.
_ON, _UNDER = ("on", "on", "auf"), ("under", "under", "unter")
_IN, _BEHIND = ("in", "into", "in"), ("behind", "behind", "hinter")
_BEFORE, _BESIDE = ("in front of", "in front of", "vor"), ("next to", "next to", "neben")
Spots = tuple[tuple[tuple[str, str, str], str], ...]
_ANYWHERE: Spots = (
    (_ON, "table bed sofa chair"),
    (_UNDER, "table bed sofa chair"),
    (_IN, "bag suitcase box basket cupboard"),
    (_BEHIND, "door sofa"),
    (_BESIDE, "lamp bed sofa"),
)
_SPOTS: dict[str, Spots] = {
    "tableware": ((_ON, "table"), (_IN, "cupboard basket box"), (_BESIDE, "lamp")),
    "garment": ((_ON, "bed chair sofa"), (_IN, "cupboard suitcase bag"), (_UNDER, "bed")),
    "device": ((_ON, "table cupboard"), (_BESIDE, "bed sofa window"), (_BEFORE, "window mirror")),
    "container": (
        (_ON, "table chair bed"),
        (_UNDER, "table bed"),
        (_BEHIND, "door sofa"),
        (_BEFORE, "door cupboard window mirror"),
        (_BESIDE, "bed sofa table door"),
    ),
}


def spots_for(noun: Noun) -> Spots:
    """Return the possible positions of a thing: prepositions and the nouns after them."""
    return _SPOTS.get(noun.kind, _ANYWHERE)
