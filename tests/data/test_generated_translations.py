"""Sentences whose German was written by hand, built by the grammar."""

import pytest

from keras_transformer.data.generated.adjectives import ADJECTIVES
from keras_transformer.data.generated.adverbials import ALREADY, CAUSES, NEVER, number_words
from keras_transformer.data.generated.clauses import Clause
from keras_transformer.data.generated.nouns import NOUNS
from keras_transformer.data.generated.pairs import (
    again,
    asked,
    followed,
    infinitive,
    joined,
    preceded,
    question,
    statement,
    subordinate,
    that_someone,
    who_does,
)
from keras_transformer.data.generated.phrases import (
    Adverbial,
    at_place,
    fixed,
    name,
    noun_phrase,
    prepositional,
    pronoun,
    refer_back,
    to_place,
    together,
)
from keras_transformer.data.generated.predicates import being, stay_at_home
from keras_transformer.data.generated.verbs import (
    BELONG,
    COST,
    KNOW,
    LIE,
    LIVE,
    PUT_LYING,
    PUT_STANDING,
    STAND,
    TRANSITIVE,
    TRAVEL,
    TRY,
    verb_named,
)

ANNA, PAUL, HE, SHE, WE, THEY = (
    name("Anna"),
    name("Paul"),
    pronoun("he"),
    pronoun("she"),
    pronoun("we"),
    pronoun("they"),
)
TODAY, TOMORROW = Adverbial("today", "heute"), Adverbial("tomorrow", "morgen")
YESTERDAY, OFTEN = Adverbial("yesterday", "gestern"), Adverbial("often", "oft")
BECAUSE, THAT = Adverbial("because", "weil"), Adverbial("that", "dass")
ALTHOUGH, IF = Adverbial("although", "obwohl"), Adverbial("if", "wenn")
LOOK_FORWARD = next(verb for verb in TRANSITIVE if verb.reflexive)


def the(noun, adjective=None, **how):
    return phrase("the", noun, adjective, **how)


def phrase(determiner, noun, adjective=None, **how):
    return noun_phrase(determiner, NOUNS[noun], ADJECTIVES.get(adjective), **how)


def clause(subject, verb, **parts):
    return Clause(subject, verb_named(verb) if isinstance(verb, str) else verb, **parts)


def now(subject, verb, **parts):
    return clause(subject, verb, progressive=True, **parts)


def at(place, determiner="the"):
    return at_place(place, phrase(determiner, place))


def to(place, determiner="the"):
    return to_place(place, phrase(determiner, place))


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
def test_statements(built, english, german):
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


def test_numbers_in_words():
    english, german = number_words(23)
    age = Adverbial(f"{english} years old", f"{german} Jahre alt")
    assert statement(clause(PAUL, being(PAUL, ADJECTIVES["old"]).verb, complement=age)) == (
        "Paul is twenty-three years old.",
        "Paul ist dreiundzwanzig Jahre alt.",
    )


def test_yes_or_no_questions_start_with_the_verb():
    assert question(clause(ANNA, "visit", tense="past", direct=HE, time=YESTERDAY)) == (
        "Did Anna visit him yesterday?",
        "Hat Anna ihn gestern besucht?",
    )
    assert question(clause(the("train"), "arrive", place=at("station"), adverb=OFTEN)) == (
        "Does the train often arrive at the station?",
        "Kommt der Zug oft am Bahnhof an?",
    )


@pytest.mark.parametrize(
    ("word", "built", "english", "german"),
    [
        (
            ("why", "warum"),
            now(the("boy"), "cry"),
            "Why is the boy crying?",
            "Warum weint der Junge?",
        ),
        (
            ("who", "wem"),
            now(PAUL, "help", time=TODAY),
            "Who is Paul helping today?",
            "Wem hilft Paul heute?",
        ),
        (
            ("what", "was"),
            clause(the("baker"), "take", tense="past", time=YESTERDAY),
            "What did the baker take along yesterday?",
            "Was hat der Bäcker gestern mitgenommen?",
        ),
        (
            ("where", "wohin"),
            now(phrase("his", "mother"), "drive"),
            "Where is his mother driving?",
            "Wohin fährt seine Mutter?",
        ),
        (
            ("how many books", "wie viele Bücher"),
            clause(the("student"), "buy", tense="past"),
            "How many books did the student buy?",
            "Wie viele Bücher hat der Student gekauft?",
        ),
    ],
)  # fmt: skip
def test_questions_with_a_question_word(word, built, english, german):
    assert asked(Adverbial(*word), built) == (english, german)


def test_which_is_inflected():
    which = phrase("which", "coat")
    assert which.in_case("accusative") == "welchen Mantel"
    assert which.english == "which coat"


def test_subordinate_clauses_end_with_the_finite_verb():
    tired = being(ANNA, ADJECTIVES["tired"])
    sleeping = now(ANNA, "sleep")
    assert followed(sleeping, subordinate(BECAUSE, again(tired))) == (
        "Anna is sleeping because she is tired.",
        "Anna schläft, weil sie müde ist.",
    )
    assert preceded(subordinate(ALTHOUGH, tired), again(now(ANNA, "wash", direct=the("car")))) == (
        "Although Anna is tired, she is washing the car.",
        "Obwohl Anna müde ist, wäscht sie das Auto.",
    )
    calling = clause(SHE, "call", tense="past", direct=phrase("her", "aunt"), time=YESTERDAY)
    assert followed(clause(PAUL, KNOW), subordinate(THAT, calling)) == (
        "Paul knows that she called her aunt yesterday.",
        "Paul weiß, dass sie gestern ihre Tante angerufen hat.",
    )
    raining = clause(fixed("it", "es"), "rain", time=TOMORROW)
    staying = stay_at_home(WE)
    assert preceded(subordinate(IF, raining), staying) == (
        "If it rains tomorrow, we stay at home.",
        "Wenn es morgen regnet, bleiben wir zu Hause.",
    )


def test_a_separable_verb_is_one_word_at_the_end():
    opening = now(SHE, "pick", direct=the("child", plural=True))
    assert subordinate(BECAUSE, opening).german == "weil sie die Kinder abholt"
    must = clause(SHE, "pick", modal="must", direct=the("child", plural=True))
    assert subordinate(BECAUSE, must).german == "weil sie die Kinder abholen muss"


@pytest.mark.parametrize(
    ("noun", "how", "english", "german"),
    [
        ("coat", {}, "it is cheap", "er billig ist"),
        ("lamp", {}, "it is cheap", "sie billig ist"),
        ("book", {}, "it is cheap", "es billig ist"),
        ("shoe", {"plural": True}, "they are cheap", "sie billig sind"),
    ],
)
def test_pronouns_have_the_gender_of_what_they_refer_to(noun, how, english, german):
    cheap = being(refer_back(the(noun, **how)), ADJECTIVES["cheap"])
    assert subordinate(BECAUSE, cheap) == Adverbial(f"because {english}", f"weil {german}")


def test_infinitives_with_zu():
    going = now(HE, "go", complement=to("bakery"))
    buying = clause(HE, "buy", direct=phrase("a", "bread", mass=True))
    assert followed(going, infinitive(buying, "um")) == (
        "He is going to the bakery to buy bread.",
        "Er geht zur Bäckerei, um Brot zu kaufen.",
    )
    calling = infinitive(clause(HE, "call", direct=the("policeman")))
    assert followed(clause(HE, TRY, tense="past"), calling, front=YESTERDAY) == (
        "Yesterday he tried to call the policeman.",
        "Gestern hat er versucht, den Polizisten anzurufen.",
    )


def test_two_main_clauses():
    wish = clause(ANNA, "buy", modal="want", direct=the("house"))
    poor = clause(SHE, "have", direct=phrase("no", "money", mass=True))
    assert joined(wish, ", but ", poor, ", aber ") == (
        "Anna wants to buy the house, but she has no money.",
        "Anna will das Haus kaufen, aber sie hat kein Geld.",
    )


def test_relative_clauses_stand_between_commas_and_end_with_the_verb():
    farmer = the("farmer")
    living = clause(farmer, LIVE, complement=Adverbial("in Cologne", "in Köln"))
    happy = being(who_does(farmer, living), ADJECTIVES["happy"])
    assert statement(happy) == (
        "The farmer who lives in Cologne is happy.",
        "Der Bauer, der in Köln wohnt, ist glücklich.",
    )
    meeting = now(PAUL, "meet", direct=who_does(farmer, living))
    assert statement(meeting) == (
        "Paul is meeting the farmer who lives in Cologne.",
        "Paul trifft den Bauern, der in Köln wohnt.",
    )
    coat = that_someone(the("coat"), now(ANNA, "wear"), "that")
    assert statement(being(coat, ADJECTIVES["warm"])) == (
        "The coat that Anna is wearing is warm.",
        "Der Mantel, den Anna trägt, ist warm.",
    )
    children = that_someone(the("child", plural=True), now(WE, "help"), "whom")
    assert statement(being(children, ADJECTIVES["sick"])) == (
        "The children whom we are helping are sick.",
        "Die Kinder, denen wir helfen, sind krank.",
    )


def test_lying_and_standing_depend_on_the_thing_and_need_the_dative():
    beside = prepositional("next to", "neben", phrase("my", "lamp", "new"))
    assert statement(now(the("suitcase"), STAND, complement=beside)) == (
        "The suitcase is standing next to my new lamp.",
        "Der Koffer steht neben meiner neuen Lampe.",
    )
