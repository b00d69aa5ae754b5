"""The adjectives of the corpus and the kinds of nouns that they describe.

Each line has the English word, the German word, and its stem before an ending if that differs.
"""

from functools import cache

from pipelines.quickstart.grammar.words import Adjective, read_adjectives

ADJECTIVES = read_adjectives("""
    old alt
    young jung
    friendly freundlich
    rich reich
    poor arm
    famous berühmt
    strong stark
    clever klug
    brave mutig
    polite höflich
    lazy faul
    honest ehrlich
    funny lustig
    tired müde müd
    happy glücklich
    sad traurig
    hungry hungrig
    sick krank
    nervous nervös
    angry wütend
    big groß
    small klein
    new neu
    beautiful schön
    ugly hässlich
    cheap billig
    expensive teuer teur
    heavy schwer
    clean sauber
    dirty schmutzig
    broken kaputt
    empty leer
    modern modern
    comfortable bequem
    practical praktisch
    long lang
    short kurz
    warm warm
    cold kalt
    hot heiß
    fresh frisch
    sweet süß
    delicious lecker
    interesting interessant
    boring langweilig
    strange seltsam
    important wichtig
    difficult schwierig
    simple einfach
    good gut
    bad schlecht
    fast schnell
    slow langsam
    red rot
    blue blau
    green grün
    yellow gelb
    black schwarz
    white weiß
    brown braun
    grey grau
""")

STATES = "tired happy sad hungry sick nervous angry".split()

# Adjectives for each kind of noun, or for a single noun if its kind is too general.
_OF_KIND = {
    "kin": "friendly clever famous brave honest funny",
    "friend": "old new young clever lazy polite honest funny",
    "person": "old young friendly rich poor famous strong clever brave polite lazy honest funny",
    "child": "small clever brave polite lazy honest funny tired happy sad hungry",
    "boy": "small clever brave polite lazy honest funny tired happy sad hungry",
    "girl": "small clever brave polite lazy honest funny tired happy sad hungry",
    "animal": "big small old young beautiful hungry sick black white brown grey",
    "fruit": "fresh sweet big small",
    "vegetable": "fresh big small good cheap",
    "dish": "good fresh delicious cheap expensive",
    "cake": "sweet fresh delicious good",
    "soup": "hot delicious",
    "hot_drink": "hot cold",
    "cold_drink": "cold good cheap",
    "literature": "interesting boring long short new old strange good sad difficult",
    "press": "interesting boring new old",
    "post": "important interesting boring long short strange",
    "garment": "red blue green yellow black white brown grey new old beautiful ugly cheap expensive"
    " warm clean dirty modern comfortable",
    "vehicle": "red blue grey new old cheap expensive fast slow dirty modern",
    "transport": "fast slow empty",
    "device": "new old modern expensive cheap broken heavy practical small",
    "computer": "old new fast slow modern expensive cheap broken",
    "instrument": "old new expensive beautiful cheap good",
    "furniture": "old new big small heavy beautiful ugly modern expensive cheap brown white",
    "table": "big small old new heavy beautiful ugly modern practical brown white",
    "mirror": "big small old beautiful expensive",
    "chair": "comfortable old new modern practical red green broken",
    "sofa": "comfortable old new big red green expensive",
    "bed": "comfortable old new big small warm",
    "tableware": "clean dirty new old beautiful blue white expensive",
    "container": "big small heavy empty old practical brown black green",
    "article": "new old beautiful small expensive cheap",
    "key": "new old small big",
    "umbrella": "black red yellow green big old new practical",
    "gift": "beautiful small big expensive practical strange",
    "ball": "red blue yellow new big small",
    "pencil": "short long red blue green yellow new",
    "flower": "red blue yellow white beautiful fresh",
    "opening": "big small old new dirty broken",
    "room": "big small clean dirty cold warm beautiful modern empty",
    "building": "big small old new modern beautiful ugly famous",
    "house": "big small old new modern beautiful ugly",
    "school": "big small old new modern beautiful ugly",
    "landscape": "big small beautiful",
    "forest": "big small beautiful",
    "river": "long beautiful big",
    "lake": "big small beautiful cold",
    "street": "long short beautiful old",
    "bridge": "long old new modern beautiful",
    "city": "big small beautiful famous ugly modern old",
    "village": "small old poor beautiful",
    "thought": "difficult important simple",
    "idea": "good bad important simple",
    "mistake": "big small simple",
    "performance": "beautiful short long boring good",
    "other": "",
    "film": "boring interesting sad funny strange long new old",
}


@cache
def adjectives_for(kind: str, noun: str) -> tuple[Adjective, ...]:
    """Return the adjectives for a noun, listed under the noun itself or under its kind."""
    names = _OF_KIND.get(noun, _OF_KIND[kind])
    return tuple(ADJECTIVES[name] for name in names.split())


# English and German comparatives.
COMPARATIVES = {
    "old": ("older", "älter"),
    "young": ("younger", "jünger"),
    "big": ("bigger", "größer"),
    "small": ("smaller", "kleiner"),
    "rich": ("richer", "reicher"),
    "strong": ("stronger", "stärker"),
    "cheap": ("cheaper", "billiger"),
    "expensive": ("more expensive", "teurer"),
    "beautiful": ("more beautiful", "schöner"),
    "interesting": ("more interesting", "interessanter"),
}
