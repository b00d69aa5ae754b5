"""What the page says and keeps when something goes wrong or takes long."""

import threading

import pytest
import tensorflow as tf

from tests.helpers.browser import copied, focused, text_of, translate

pytestmark = pytest.mark.slow


def test_a_translation_that_takes_long_is_visible_and_can_be_stopped(open_page, parrot):
    page = open_page()
    go_on = threading.Event()
    parrot.on_predict = lambda: go_on.wait(20)
    text_of(page).fill("a\nb")
    page.get_by_role("button", name="Translate").click()
    assert page.locator("#progress.busy").inner_text() == "Translating…"
    assert page.locator("#list").get_attribute("aria-busy") == "true"
    page.get_by_role("button", name="Stop").focus()
    page.keyboard.press("Enter")
    page.get_by_text("Stopped after 0 of 2 lines").wait_for()
    assert focused(page) == "translate"  # The button that had the focus is gone.
    assert page.get_by_role("button", name="Stop").count() == 0
    go_on.set()


def fail_with(error):
    def fail():
        raise error

    return fail


@pytest.mark.parametrize(
    "error, message",
    [
        (
            tf.errors.UnavailableError(None, None, "away"),
            "The server is busy. Wait a moment, then try again.",
        ),
        (
            tf.errors.InvalidArgumentError(None, None, "no <b>such</b> .. text."),
            "The server did not accept this text: no <b>such</b> .. text.",
        ),
        (
            tf.errors.NotFoundError(None, None, "Servable not found"),
            "The server has no model parrot, or it is still loading.",
        ),
        (
            tf.errors.DeadlineExceededError(None, None, "Timed out waiting for notification"),
            "The model took too long. Send shorter sentences, or fewer of them.",
        ),
        (
            tf.errors.InternalError(None, None, "a secret"),
            "The server had an error. Its log says more; you can try again.",
        ),
        (
            ConnectionResetError(),
            "There is no connection to the server. Check that it is still running; your text is "
            "kept.",
        ),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else "",
)
def test_an_error_is_one_sentence_and_the_text_is_kept(error, message, open_page, parrot):
    page = open_page(errors="Failed to load resource")
    translate(page, "First.")
    parrot.on_predict = fail_with(error)
    text_of(page).fill("Second.")
    page.get_by_role("button", name="Translate").click()
    problem = page.get_by_role("alert")
    problem.wait_for()
    assert problem.inner_text() == message
    assert text_of(page).input_value() == "Second."
    assert page.locator(".translation").all_inner_texts() == ["FIRST."]
    assert copied(page) == "FIRST."
    parrot.on_predict = lambda: None
    translate(page, "Second.")
    assert problem.count() == 0
    assert page.locator(".translation").all_inner_texts() == ["SECOND."]


def test_what_cannot_be_translated_is_said(open_page):
    page = open_page()
    page.get_by_role("button", name="Translate").click()
    assert page.get_by_role("alert").inner_text() == "Write or paste a sentence first."
    assert focused(page) == "text"
    text_of(page).fill("a\n" * 201)
    page.keyboard.press("Control+Enter")
    assert "takes 200 lines at a time, and these are 201" in page.get_by_role("alert").inner_text()


def test_a_model_that_is_loading_is_waited_for(open_page, parrot):
    versions = parrot.server.predictor.versions.of("parrot")
    before = versions._states[2].state
    versions._states[2].state = "LOADING"
    try:
        page = open_page(wait=False, errors="503")
        page.get_by_text("Loading version 2…").wait_for()
    finally:
        versions._states[2].state = before
    page.get_by_text("Ready, version 2").wait_for()
