"""Translations, their scores and the model on the page."""

import shutil

import pytest

from tests.helpers.browser import text_of, translate
from tests.serving.conftest import wait

pytestmark = pytest.mark.slow


def test_the_page_says_what_the_model_is(open_page):
    page = open_page()
    assert page.title() == "parrot – Translate"
    assert page.get_by_role("heading", level=1).inner_text() == "parrot"
    assert page.locator("#state").inner_text() == "Ready, version 2"
    page.get_by_text("Model card").click()
    card = page.locator("#card-text").text_content()
    # Prose fits any width; lists and code keep their lines.
    assert card == (
        "# parrot\n\nRepeats <b>what</b> is said.\n\n- one\n- two\n\n```bash\na\nb\n```\n"
    )


def test_each_line_is_translated(open_page):
    page = open_page()
    lines = [f"Line {number}." for number in range(9)]
    items = translate(page, *lines[:5], "  ", *lines[5:], "")
    assert items.locator(".source").all_inner_texts() == lines
    assert items.locator(".translation").all_inner_texts() == [line.upper() for line in lines]
    assert page.locator("#progress").inner_text() == "9 lines translated"


def test_other_translations_have_scores_and_missing_ones_are_left_out(open_page):
    page = open_page()
    items = translate(page, "A dog.")
    items.get_by_text("The 2 best translations").click()
    assert items.locator(".hypothesis").all_inner_texts() == ["A DOG.", "A dog."]
    assert items.locator(".score").all_inner_texts() == ["−0.25", "−1.50"]


def test_bleu_is_computed_for_a_reference(open_page):
    page = open_page()
    translate(page, "A big dog runs.", "Two men.")
    page.get_by_text("Compare with a reference").click()
    compute = page.get_by_role("button", name="Compute BLEU")
    compute.click()
    scores = page.locator("#scores")
    assert scores.inner_text() == "Paste a reference translation first."
    page.get_by_label("Reference translation").fill("A BIG DOG RUNS.")
    compute.click()
    assert scores.inner_text() == (
        "There are 2 translations, and the reference has 1 line. Give one line for each."
    )
    page.get_by_label("Reference translation").fill("A BIG DOG RUNS.\nTWO MEN.\n")
    compute.click()
    page.get_by_text("BLEU 100.0").wait_for()
    assert "chrF 100.0, 2 sentences" in scores.inner_text()
    assert "nrefs:1|case:mixed" in scores.inner_text()


def test_scores_of_earlier_translations_are_not_shown(open_page):
    page = open_page()
    held = []
    page.route("**/page/bleu", lambda route: held.append(route))
    translate(page, "One.")
    page.get_by_text("Compare with a reference").click()
    page.get_by_label("Reference translation").fill("ONE.")
    page.get_by_role("button", name="Compute BLEU").click()
    page.get_by_text("Computing…").wait_for()
    page.get_by_label("Reference translation").fill("")
    translate(page, "Two.")
    with page.expect_response("**/page/bleu"):
        held[0].continue_()
    page.wait_for_timeout(200)
    assert page.locator("#scores").inner_text() == ""


def test_a_line_of_several_sentences_has_a_hint(open_page):
    page = open_page()
    items = translate(page, "One dog. Two dogs. Three dogs.", "Mr. Smith is here.")
    assert items.get_by_text("This line seems to have several sentences.").count() == 1


def test_a_new_version_has_its_own_card(open_page, parrot):
    page = open_page()
    served = parrot.server.predictor.versions.of("parrot").served
    path = served[2].path
    shutil.copytree(path, path.with_name("copying"))
    (path.with_name("copying") / "README.md").write_text("# the third\n")
    new = path.with_name("copying").rename(path.with_name("3"))
    try:
        wait(lambda: 3 in served)
        page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
        page.get_by_text("Ready, version 3").wait_for()
        assert page.locator("#card-text").text_content() == "# the third\n"
    finally:
        shutil.rmtree(new)
        wait(lambda: 2 in served)


def test_a_parser_has_its_own_words(open_page, parrot):
    path = (
        parrot.server.predictor.versions.of("parrot").served[2].path
        / "assets.extra"
        / "export.json"
    )
    path.parent.mkdir(exist_ok=True)
    path.write_text('{"vocabulary": {"target_tokenizer": "TreeTokenizer"}}')
    try:
        page = open_page()
        assert page.title() == "parrot – Parse"
        text_of(page).fill("A dog.\nA cat.")
        page.get_by_role("button", name="Parse").click()
        page.get_by_text("2 lines parsed").wait_for()
        assert page.locator("#results-title").inner_text() == "Trees"
        page.get_by_text("The 2 best trees").first.wait_for()
        page.get_by_role("radio", name="Tree to text").first.wait_for()
        assert page.get_by_text("Compare with a reference").count() == 1
        assert not page.get_by_text("Compare with a reference").is_visible()
    finally:
        path.unlink()
