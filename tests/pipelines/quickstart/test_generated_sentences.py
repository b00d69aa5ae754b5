"""Questions and longer sentences, compared with German written by hand."""

import pytest

from pipelines.quickstart.grammar.adjectives import ADJECTIVES
from pipelines.quickstart.grammar.pairs import (
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
from pipelines.quickstart.grammar.phrases import Adverbial, fixed, refer_back
from pipelines.quickstart.grammar.predicates import being, stay_at_home
from pipelines.quickstart.grammar.verbs import KNOW, LIVE, TRY
from tests.helpers.sentence_parts import (
    ALTHOUGH,
    ANNA,
    BECAUSE,
    HE,
    IF,
    OFTEN,
    PAUL,
    SHE,
    THAT,
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
def test_questions_with_a_question_word_equal_those_written_by_hand(word, built, english, german):
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


def test_infinitives_with_zu_end_their_clause():
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


def test_joined_main_clauses_keep_the_verb_second():
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
