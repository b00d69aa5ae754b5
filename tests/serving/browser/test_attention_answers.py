"""What the page asks for attention, and answers that differ from the usual."""

import json

import numpy as np
import pytest

from tests.helpers.browser import children, text_of, translate
from tests.serving.browser.test_attention import choose_head, lines, open_choices, said

pytestmark = pytest.mark.slow

WORDS = "one two three four five six seven eight nine ten eleven twelve".split()


def answer(tokens, encoder, others):
    """Return outputs of `inspect` whose text and translation are the same tokens."""
    outputs = {
        "source_tokens": tokens,
        "target_tokens": tokens,
        "encoder_attention": encoder.tolist(),
        "cross_attention": others.tolist(),
        "decoder_attention": others.tolist(),
        "probabilities": [1.0] * len(tokens),
        "candidates": [[token] for token in tokens],
        "candidate_probabilities": [[1.0]] * len(tokens),
    }
    return {"outputs": {name: [value] for name, value in outputs.items()}}


def show(page, outputs):
    """Translate a text, whose attention is what `answer` returned."""

    def fulfill(route):
        if '"inspect"' in route.request.post_data:
            route.fulfill(json=outputs)
        else:
            route.continue_()

    page.route("**:predict", fulfill)
    translate(page, "A text.")
    page.locator(".attending").wait_for()


def even(layers, heads, words):
    return np.full([layers, heads, words, words], 1 / words)


def test_even_attention_is_drawn_and_no_word_is_named(open_page):
    tokens = [f"▁{word}" for word in WORDS] + ["</s>"]
    weights = even(1, 8, len(tokens))
    weights[0, 2, 0] = np.eye(len(tokens))[1]  # Head 3 attends from "one" to "two".
    page = open_page()
    show(page, answer(tokens, weights, weights))
    assert len(lines(page)) == 13 * 13
    choose_head(page, "all")
    assert len(lines(page)) == 8 * 13 * 13 - 12
    words = children(page, ".attending")
    words.nth(0).click()
    assert said(page) == "“one” attends most to “two” (head 3)"
    words.nth(1).click()
    assert said(page) == "“two” attends to no word much more than to another"
    choose_head(page, "4")
    assert said(page) == "“two” attends to no word much more than to another"
    choose_head(page, "3")
    words.nth(0).click()
    assert said(page) == "“one” attends to “two” 100%"


def test_attention_with_a_clear_favorite_has_no_fainter_lines(open_page):
    weights = np.tile([0.7, 0.12, 0.09, 0.09], [1, 1, 4, 1])
    page = open_page()
    show(page, answer(["▁a", "▁b", "▁c", "</s>"], weights, weights))
    assert lines(page) == 4 * [["head-mean", 70], ["head-mean", 12]]


def test_a_decoder_of_one_layer_may_follow_a_deep_encoder(open_page):
    page = open_page()
    show(page, answer(["▁a", "▁b", "</s>"], even(3, 2, 3), even(1, 2, 3)))
    page.get_by_role("radio", name="Text to text").check()
    page.get_by_label("Layer").select_option("mean of all")
    page.get_by_role("radio", name="Translation to text").check()
    assert page.get_by_label("Layer").count() == 0
    assert page.get_by_text("Head", exact=True).is_visible()
    choose_head(page, "2")
    assert [name for name, _ in lines(page)] == 3 * 3 * ["head-1"]
    page.get_by_role("radio", name="Text to text").check()
    assert page.get_by_label("Layer").input_value() == "-1"  # The choice is kept.


@pytest.mark.parametrize(
    "text, signature",
    [("a" * 200, "inspect"), ("a" * 201, "attend"), ("犬" * 66, "inspect"), ("犬" * 67, "attend")],
    ids=["200", "201", "198 in Chinese", "201 in Chinese"],
)
def test_a_text_of_many_bytes_has_means_only(text, signature, open_page):
    page, asked = open_page(), []
    page.on("request", lambda request: asked.append(request.post_data))
    translate(page, text)
    page.locator(".attending").wait_for()
    names = [json.loads(body)["signature_name"] for body in asked if body]
    assert names == ["n_best", signature]


def test_a_new_translation_aborts_the_request_of_the_last(open_page):
    page, failed, held = open_page(), [], []
    page.on("requestfailed", lambda request: failed.append(request.post_data))
    page.route("**:predict", lambda route: answer_later(route, held))
    translate(page, "One.")
    page.get_by_text("Loading…").wait_for()
    translate(page, "Two.")
    page.get_by_text("Loading…").wait_for()
    assert [json.loads(body)["inputs"] for body in failed] == [{"text": ["One."]}]
    held[-1].continue_()
    page.locator(".attending").wait_for()
    assert children(page, ".attending").all_inner_texts() == ["TWO", ".", "end"]


def test_aborted_details_can_be_opened_again(open_page):
    page, held = open_page(), []
    page.route("**:predict", lambda route: answer_later(route, held))
    translate(page, "One.")
    page.get_by_text("Loading…").wait_for()
    page.route("**:predict", lambda route: held.append(route))
    text_of(page).fill("Two.")
    page.get_by_role("button", name="Translate").click()
    page.locator("#list details[open]").wait_for(state="detached")
    page.get_by_role("button", name="Stop").click()
    page.unroute("**:predict")
    page.get_by_text("Details", exact=True).click()
    page.locator(".attending").wait_for()
    assert children(page, ".attending").all_inner_texts() == ["ONE", ".", "end"]


def answer_later(route, held):
    if '"inspect"' in route.request.post_data:
        held.append(route)
    else:
        route.continue_()


def test_words_from_right_to_left_are_in_that_order(open_page):
    page = open_page()
    translate(page, "שלום עולם")
    open_choices(page)
    direction = "e => getComputedStyle(e).direction"
    assert page.locator(".written").evaluate(direction) == "rtl"
    first, second, _ = children(page, ".written").all()
    assert first.bounding_box()["x"] > second.bounding_box()["x"]
    first.click()
    page.keyboard.press("ArrowLeft")
    assert page.evaluate("document.activeElement.textContent") == "עולם"
