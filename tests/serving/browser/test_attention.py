"""Attention of each layer and head, and the words that the model considered."""

import json

import pytest

from tests.helpers.browser import children, show, translate
from tests.helpers.model_server import ModelServer
from tests.helpers.parrot import Parrot

pytestmark = pytest.mark.slow

SENTENCE = "A sleeping dog."
WORDS = ["A", "SLEEPING", "DOG", ".", "end"]


def said(page):
    text = page.locator("#list [aria-live]").inner_text()
    return text.replace("\u2068", "").replace("\u2069", "")


def lines(page, shape="line"):
    """Return the class and the opacity of each line, or bar, that is drawn."""
    return page.locator(f".lines {shape}").evaluate_all(
        """all => all.map(e => [e.getAttribute("class"), Math.round(100 * Number(
            e.getAttribute("stroke-opacity") ?? e.getAttribute("fill-opacity")))])"""
    )


@pytest.fixture
def page(open_page):
    page = open_page()
    translate(page, SENTENCE)
    page.locator(".attending").wait_for()
    return page


def open_choices(page):
    show(page, "Word by word")
    page.locator(".candidates").first.wait_for()


def choose_head(page, name):
    page.get_by_role("radio", name=name, exact=True).check()


def test_all_lines_of_a_head_are_drawn_until_a_word_is_selected(page):
    assert children(page, ".attending").all_inner_texts() == WORDS
    assert page.get_by_label("Layer").input_value() == "1"  # The last.
    # In the last layer, head 1 attends to all of the five words, and head 2 to the own one.
    assert [name for name, _ in lines(page)] == 25 * ["head-0"]
    choose_head(page, "2")
    assert [name for name, _ in lines(page)] == 5 * ["head-1"]
    choose_head(page, "all")
    assert [name for name, _ in lines(page)] == 25 * ["head-0"] + 5 * ["head-1"]
    assert not lines(page, "rect")
    assert said(page).startswith("Point at a word")


def test_a_word_shows_its_lines_while_the_pointer_is_on_it(page):
    choose_head(page, "all")
    word = children(page, ".attending").nth(1)
    word.hover()
    assert word.get_attribute("aria-pressed") == "true"
    # "sleeping" has two of six subwords.
    even = [["head-0", weight] for weight in (17, 33, 17, 17, 17)]
    assert lines(page) == lines(page, "rect") == [*even, ["head-1", 100]]
    assert page.locator(".attended .weight").all_inner_texts() == ["8%", "67%", "8%", "8%", "8%"]
    assert said(page) == "“SLEEPING” attends most to “sleeping” (heads 1 and 2)"
    page.get_by_role("heading", level=1).hover()
    assert len(lines(page)) == 30
    word.click()
    page.get_by_role("heading", level=1).hover()
    assert len(lines(page)) == 6  # A click keeps it,
    page.keyboard.press("Escape")
    assert len(lines(page)) == 30  # and Escape lets it go.


def test_a_word_on_the_right_shows_where_it_has_attention_from(page):
    choose_head(page, "all")
    dog = children(page, ".attended").nth(2)
    dog.hover()
    # Its column of each head: all of the words, and the own one.
    assert lines(page) == [*(5 * [["head-0", 17]]), ["head-1", 100]]
    assert not lines(page, "rect")
    assert page.locator(".attended .weight").all_inner_texts() == 5 * [""]
    assert said(page) == "“dog” has attention from “DOG” 58%, “A” 8%, “SLEEPING” 8%"
    page.get_by_role("heading", level=1).hover()
    assert len(lines(page)) == 30


def test_one_head_has_its_own_color_and_percentages(page):
    children(page, ".attending").nth(2).click()
    choose_head(page, "2")
    assert lines(page) == [["head-1", 100]]
    assert said(page) == "“DOG” attends to “dog” 100%"
    page.get_by_label("Layer").select_option(index=0)
    assert lines(page) == [["head-1", weight] for weight in (17, 33, 17, 17, 17)]
    swatch = page.locator(".choice .head-1").evaluate("e => getComputedStyle(e).backgroundColor")
    assert swatch == page.locator(".lines line").first.evaluate("e => getComputedStyle(e).stroke")


def test_the_mean_is_over_all_layers_and_heads(page):
    children(page, ".attending").nth(2).click()
    page.get_by_label("Layer").select_option("mean of all")
    assert lines(page) == [["head-mean", weight] for weight in (8, 17, 58, 8, 8)]
    assert not page.get_by_text("Head", exact=True).is_visible()


@pytest.mark.parametrize(
    "kind, queries, keys",
    [
        ("Text to text", ["A", "sleeping", "dog", ".", "end"], None),
        ("Translation to text", WORDS, ["A", "sleeping", "dog", ".", "end"]),
        ("Translation to translation", WORDS, ["start", "A", "SLEEPING", "DOG", "."]),
    ],
)
def test_each_attention_has_its_own_words(kind, queries, keys, page):
    page.get_by_role("radio", name=kind).check()
    assert children(page, ".attending").all_inner_texts() == queries
    found = page.locator(".attended bdi").all_inner_texts()
    assert found == (queries if keys is None else keys)


def test_a_word_of_the_decoder_attends_to_earlier_ones_only(page):
    page.get_by_role("radio", name="Translation to translation").check()
    choose_head(page, "all")
    children(page, ".attending").nth(0).hover()
    assert lines(page) == [["head-0", 100], ["head-1", 100]]
    assert said(page) == "“A” attends most to the start (heads 1 and 2)"


def test_what_is_chosen_stays_for_the_next_translation(page):
    page.get_by_role("radio", name="Text to text").check()
    page.get_by_label("Layer").select_option(index=0)
    choose_head(page, "2")
    translate(page, "Two.")
    page.locator(".attending").wait_for()
    assert page.get_by_role("radio", name="Text to text").is_checked()
    assert page.get_by_role("radio", name="2", exact=True).is_checked()
    assert page.get_by_label("Layer").input_value() == "0"


def test_words_appear_in_the_order_in_which_they_are_chosen(page):
    open_choices(page)
    words = children(page, ".written")
    assert words.all_inner_texts() == WORDS
    assert page.locator(".written .later").all_inner_texts() == WORDS[1:]
    words.first.focus()
    page.keyboard.press("ArrowRight")
    assert page.locator(".written .later").all_inner_texts() == WORDS[2:]
    page.keyboard.press("End")
    assert page.locator(".written .later").count() == 0
    page.get_by_role("button", name="Play").click()
    assert page.locator(".written .later").count() == 4
    page.get_by_role("button", name="Play").wait_for()  # It was "Stop" until the end.
    assert page.locator(".written .later").count() == 0


def test_a_word_shows_what_else_was_considered(page):
    open_choices(page)
    children(page, ".written").nth(2).click()
    rows = page.locator(".candidates li")
    names = ["perhaps", "DOG", "…ing", "end", "<b>", "other"]
    assert page.locator(".candidate").all_inner_texts() == names
    scores = ["50.0%", "25.0%", "6.3%", "4.0%", "<0.1%", "14.7%"]
    assert rows.locator(".score").all_inner_texts() == scores
    assert page.locator("li.chosen .candidate").all_inner_texts() == ["DOG"]
    assert said(page) == "Word 3 of 5: “DOG”, chosen with a probability of 25%"
    children(page, ".written").nth(1).click()  # Of two subwords, each chosen by itself.
    assert page.locator("li.chosen .candidate").all_inner_texts() == ["SLEEP", "…ING"]
    assert said(page).endswith("“SLEEPING”, chosen with a probability of 6.3%")


def test_nothing_plays_for_those_who_ask_for_it(open_page):
    page = open_page(reduced_motion="reduce")
    translate(page, SENTENCE)
    open_choices(page)
    assert page.get_by_role("button", name="Play").count() == 0


def test_both_views_share_one_request_of_one_sentence(open_page):
    page, asked = open_page(), []
    page.on("request", lambda request: asked.append(request.post_data))
    translate(page, "One dog.", "Two dogs.")
    page.locator(".attending").wait_for()
    open_choices(page)
    inspected = [json.loads(body) for body in asked if body and '"inspect"' in body]
    assert [request["inputs"] for request in inspected] == [{"text": ["One dog."]}]


@pytest.mark.parametrize("signatures", [("attend",), ()], ids=["attend", "neither"])
def test_an_export_without_the_signature_shows_what_it_has(signatures, open_page, tmp_path):
    Parrot().save(tmp_path / "parrot" / "2", *signatures)
    with ModelServer(tmp_path / "parrot", "parrot") as server:
        page = open_page(server=server)
        translate(page, SENTENCE)
        assert page.locator("#list summary").all_inner_texts() == ["Attention"] * len(signatures)
        if signatures:
            children(page, ".attending").nth(1).hover()
            assert lines(page) == [["head-mean", 100]]
            page.get_by_label("Layer").select_option(index=1)
            assert lines(page) == [["head-mean", weight] for weight in (17, 33, 17, 17, 17)]
            assert page.get_by_role("radio").count() == 0


def width_of(page, selector):
    return page.locator(selector).first.bounding_box()["width"]


@pytest.mark.parametrize(("size", "least"), [(400, 150), (1200, 250)])
def test_lines_between_long_words_have_room(size, least, open_page):
    page = open_page(viewport={"width": size, "height": 800})
    translate(page, "Straßenmusikanten spielen Kontrabassklarinette.")
    page.locator(".attending").wait_for()
    before, figure, card = (width_of(page, each) for each in (".lines", ".figure", "#list details"))
    assert before >= least
    assert figure == card
    children(page, ".attending").nth(1).click()
    assert width_of(page, ".lines") == before  # Percentages move nothing.
