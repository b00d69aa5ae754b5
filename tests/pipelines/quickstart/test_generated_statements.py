"""Main clauses, compared with German written by hand."""

import pytest

from pipelines.quickstart.grammar.adjectives import ADJECTIVES
from pipelines.quickstart.grammar.adverbials import ALREADY, CAUSES, NEVER, number_words
from pipelines.quickstart.grammar.pairs import statement
from pipelines.quickstart.grammar.phrases import (
    Adverbial,
    fixed,
    prepositional,
    pronoun,
    together,
)
from pipelines.quickstart.grammar.predicates import being
from pipelines.quickstart.grammar.verbs import (
    BELONG,
    COST,
    LIE,
    PUT_LYING,
    PUT_STANDING,
    STAND,
    TRAVEL,
)
from tests.helpers.sentence_parts import (
    ANNA,
    HE,
    LOOK_FORWARD,
    OFTEN,
    PAUL,
    SHE,
    THEY,
    TODAY,
    TOMORROW,
    WE,
    YESTERDAY,
    at,
    clause,
    now,
    phrase,
    the,
    to,
)

STATEMENTS = [
    # Present, with cases and endings.
    (
        now(the("man", "old"), "read", direct=phrase("a", "newspaper", "new")),
        "The old man is reading a new newspaper.",
        "Der alte Mann liest eine neue Zeitung.",
    ),
    (
        now(SHE, "help", direct=phrase("her", "neighbour")),
        "She is helping her neighbour.",
        "Sie hilft ihrem Nachbarn.",
    ),
    (
        now(HE, "give", indirect=the("child"), direct=phrase("a", "apple", "fresh")),
        "He is giving the child a fresh apple.",
        "Er gibt dem Kind einen frischen Apfel.",
    ),
    (
        now(WE, "explain", indirect=the("student", plural=True), direct=the("problem")),
        "We are explaining the problem to the students.",
        "Wir erklären den Studenten das Problem.",
    ),
    (
        now(phrase("two/zwei", "girl", plural=True), "drink",
            direct=phrase("a", "milk", "cold", mass=True)),
        "Two girls are drinking cold milk.",
        "Zwei Mädchen trinken kalte Milch.",
    ),
    (
        clause(phrase("every", "child"), "have", direct=phrase("a", "ball", "red")),
        "Every child has a red ball.",
        "Jedes Kind hat einen roten Ball.",
    ),
    (
        now(together(ANNA, PAUL), "wait", direct=the("bus"), time=TODAY),
        "Anna and Paul are waiting for the bus today.",
        "Anna und Paul warten heute auf den Bus.",
    ),
    # Separable and reflexive verbs.
    (
        now(PAUL, "pick", direct=HE, time=TOMORROW),
        "Paul is picking him up tomorrow.",
        "Paul holt ihn morgen ab.",
    ),
    (
        clause(pronoun("I"), "get",
            time=Adverbial("every day at six o'clock", "jeden Tag um sechs Uhr")),
        "I get up every day at six o'clock.",
        "Ich stehe jeden Tag um sechs Uhr auf.",
    ),
    (
        clause(the("boy"), "turn", tense="past", direct=the("lamp"), time=YESTERDAY),
        "The boy turned on the lamp yesterday.",
        "Der Junge hat gestern die Lampe eingeschaltet.",
    ),
    (
        clause(SHE, "listen", adverb=OFTEN, direct=the("musician")),
        "She often listens to the musician.",
        "Sie hört dem Musiker oft zu.",
    ),
    (
        now(WE, LOOK_FORWARD, direct=the("trip")),
        "We are looking forward to the trip.",
        "Wir freuen uns auf die Reise.",
    ),
    # Tenses and modal verbs.
    (
        clause(THEY, "run", tense="past", place=at("forest"), time=YESTERDAY),
        "They ran in the forest yesterday.",
        "Sie sind gestern im Wald gelaufen.",
    ),
    (
        clause(HE, "forget", tense="perfect", adverb=ALREADY, direct=phrase("his", "umbrella")),
        "He has already forgotten his umbrella.",
        "Er hat seinen Regenschirm schon vergessen.",
    ),
    (
        clause(ANNA, "visit", tense="future", direct=phrase("her", "uncle"), time=TOMORROW),
        "Anna will visit her uncle tomorrow.",
        "Anna wird morgen ihren Onkel besuchen.",
    ),
    (
        clause(the("child", plural=True), "open", modal="be allowed", direct=the("window")),
        "The children are allowed to open the window.",
        "Die Kinder dürfen das Fenster öffnen.",
    ),
    (
        clause(PAUL, "call", modal="have to", tense="past", direct=the("doctor"), time=YESTERDAY),
        "Paul had to call the doctor yesterday.",
        "Paul musste gestern den Arzt anrufen.",
    ),
    (
        clause(SHE, "read", modal="like", direct=phrase("a", "book", plural=True)),
        "She likes to read books.",
        "Sie liest gern Bücher.",
    ),
    (
        clause(pronoun("I"), "buy", modal="would like", direct=phrase("this", "coat", "warm")),
        "I would like to buy this warm coat.",
        "Ich möchte diesen warmen Mantel kaufen.",
    ),
    (
        clause(the("house"), "build", tense="passive", time=Adverbial("in 1890", "1890")),
        "The house was built in 1890.",
        "Das Haus wurde 1890 gebaut.",
    ),
    (
        clause(the("girl", plural=True), "have", tense="past", direct=phrase("a", "horse"),
            time=YESTERDAY),
        "The girls had a horse yesterday.",
        "Die Mädchen hatten gestern ein Pferd.",
    ),
    # Negation.
    (
        now(PAUL, "buy", negated=True, direct=the("car")),
        "Paul is not buying the car.",
        "Paul kauft das Auto nicht.",
    ),
    (
        now(PAUL, "buy", negated=True, direct=phrase("not a", "car")),
        "Paul is not buying a car.",
        "Paul kauft kein Auto.",
    ),
    (
        clause(SHE, "drink", negated=True, direct=phrase("not a", "coffee", mass=True)),
        "She does not drink coffee.",
        "Sie trinkt keinen Kaffee.",
    ),
    (
        clause(HE, "come", modal="can", negated=True),
        "He cannot come.",
        "Er kann nicht kommen.",
    ),
    (
        clause(THEY, "help", adverb=NEVER, direct=phrase("their", "brother")),
        "They never help their brother.",
        "Sie helfen ihrem Bruder nie.",
    ),
    # Places and directions.
    (
        now(the("woman"), "go", complement=to("market")),
        "The woman is going to the market.",
        "Die Frau geht auf den Markt.",
    ),
    (
        now(PAUL, "go", complement=to("station"), time=TODAY),
        "Paul is going to the station today.",
        "Paul geht heute zum Bahnhof.",
    ),
    (
        now(the("cat"), LIE, complement=prepositional("under", "unter", the("bed"))),
        "The cat is lying under the bed.",
        "Die Katze liegt unter dem Bett.",
    ),
    (
        now(SHE, PUT_STANDING, direct=the("bottle"),
            complement=prepositional("on", "auf", the("table"), direction=True)),
        "She is putting the bottle on the table.",
        "Sie stellt die Flasche auf den Tisch.",
    ),
    (
        now(SHE, PUT_LYING, direct=the("book"),
            complement=prepositional("into", "in", the("cupboard"), direction=True)),
        "She is putting the book into the cupboard.",
        "Sie legt das Buch in den Schrank.",
    ),
    (
        now(HE, TRAVEL, complement=Adverbial("to Munich", "nach München"),
            manner=Adverbial("by train", "mit dem Zug"), time=TOMORROW),
        "He is travelling to Munich by train tomorrow.",
        "Er reist morgen mit dem Zug nach München.",
    ),
    # Be, belong and cost.
    (
        being(the("soup"), ADJECTIVES["hot"]),
        "The soup is hot.",
        "Die Suppe ist heiß.",
    ),
    (
        clause(phrase("this", "guitar"), BELONG, direct=phrase("my", "sister")),
        "This guitar belongs to my sister.",
        "Diese Gitarre gehört meiner Schwester.",
    ),
    (
        clause(the("suit", "black"), COST, direct=fixed("120 euros", "120 Euro")),
        "The black suit costs 120 euros.",
        "Der schwarze Anzug kostet 120 Euro.",
    ),
    (
        now(ANNA, "play", direct=fixed("the piano", "Klavier"), time=TODAY),
        "Anna is playing the piano today.",
        "Anna spielt heute Klavier.",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("built", "english", "german"), STATEMENTS)
def test_statements_equal_those_written_by_hand(built, english, german):
    assert statement(built) == (english, german)


def test_an_adverbial_in_front_moves_the_subject_behind_the_verb():
    reading = now(the("girl"), "read", direct=phrase("a", "letter"))
    assert statement(reading, TODAY) == (
        "Today the girl is reading a letter.",
        "Heute liest das Mädchen einen Brief.",
    )
    going = clause(WE, "drive", modal="can", negated=True, complement=to("beach"))
    assert statement(going, CAUSES[2]) == (
        "Because of the bad weather we cannot drive to the beach.",
        "Wegen des schlechten Wetters können wir nicht an den Strand fahren.",
    )
    assert statement(now(the("man"), LOOK_FORWARD, direct=the("film")), TODAY) == (
        "Today the man is looking forward to the film.",
        "Heute freut sich der Mann auf den Film.",
    )


def test_numbers_are_spelled_in_words():
    english, german = number_words(23)
    age = Adverbial(f"{english} years old", f"{german} Jahre alt")
    assert statement(clause(PAUL, being(PAUL, ADJECTIVES["old"]).verb, complement=age)) == (
        "Paul is twenty-three years old.",
        "Paul ist dreiundzwanzig Jahre alt.",
    )


def test_lying_and_standing_depend_on_the_thing_and_need_the_dative():
    beside = prepositional("next to", "neben", phrase("my", "lamp", "new"))
    assert statement(now(the("suitcase"), STAND, complement=beside)) == (
        "The suitcase is standing next to my new lamp.",
        "Der Koffer steht neben meiner neuen Lampe.",
    )
