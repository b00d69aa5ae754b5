"""The page in a browser; needs playwright and Chromium."""

import os
import re
import shutil
import threading

import pytest
import tensorflow as tf

from tests.helpers.model_server import ModelServer
from tests.serving.conftest import STRINGS

sync_api = pytest.importorskip("playwright.sync_api")
CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium on PATH"),
]

LAYERS = 3
HOSTILE = [
    "<img src=x onerror=document.title='broken'>",
    "<script>document.title='broken'</script>",
    "שלום עולם",
    "\u202eevil\u202c &amp; \\ \" '",
    "😀👨‍👩‍👧‍👦",
    "x" * 10_000,
]


class Parrot(tf.Module):
    """Translates into capitals, with attention from each word to its own."""

    @tf.function(input_signature=[STRINGS])
    def translate(self, text):
        return {"translation": tf.strings.upper(text, encoding="utf-8")}

    @tf.function(input_signature=[STRINGS])
    def n_best(self, text):
        best = self.translate(text)["translation"]
        rows = tf.stack([best, text, tf.fill(tf.shape(text), "")], axis=1)
        return {"translations": rows, "scores": tf.zeros_like(rows, tf.float32) + SCORES}

    @tf.function(input_signature=[STRINGS])
    def attend(self, text):
        def tokens(texts):
            marked = tf.strings.regex_replace(texts, r"(\S+)", "▁\\1")
            parts = tf.strings.regex_replace(marked, r"(?i)(ing|\.)\b|([.])", " \\1\\2")
            ends = tf.strings.join([parts, " </s>"])
            return tf.strings.split(ends).to_tensor("")

        source = tokens(text)
        own = tf.eye(tf.shape(source)[1], batch_shape=[tf.shape(source)[0]])
        even = tf.ones_like(own) / tf.cast(tf.shape(source)[1], tf.float32)
        return {
            "source_tokens": source,
            "target_tokens": tokens(self.translate(text)["translation"]),
            "attention": tf.stack([own, even, own], axis=1),
        }


SCORES = tf.constant([-0.25, -1.5, -1e9])


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    base = tmp_path_factory.mktemp("models") / "parrot"
    model = Parrot()
    signatures = {"serving_default": model.translate, "n_best": model.n_best}
    tf.saved_model.save(model, str(base / "2"), {**signatures, "attend": model.attend})
    (base / "2" / "README.md").write_text(
        "# parrot\n\nRepeats <b>what</b>\nis said.\n\n- one\n- two\n\n```bash\na\nb\n```\n"
    )
    with ModelServer(base, "parrot") as server:
        yield server


@pytest.fixture(scope="module")
def browser():
    options = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=options)
        yield browser
        browser.close()


@pytest.fixture
def open_page(server, browser):
    """Return a function that opens the page; messages of the browser fail the test."""
    contexts, problems, expected = [], [], []

    def open_page(wait=True, errors=None, **options):
        expected.append(errors)
        context = browser.new_context(**options)
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(10_000)
        page.on("console", lambda message: problems.append(message.text))
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("dialog", lambda dialog: problems.append(dialog.message))
        page.goto(f"http://localhost:{server.rest_port}/")
        if wait:
            page.locator("[data-state=ready]").wait_for()
        return page

    yield open_page
    server.on_predict = lambda: None
    for context in contexts:
        context.close()
    allowed = [pattern for pattern in expected if pattern]
    assert [text for text in problems if not any(re.search(each, text) for each in allowed)] == []


def text_of(page):
    return page.get_by_role("textbox", name="Text", exact=True)


def translate(page, *lines):
    text_of(page).fill("\n".join(lines))
    page.get_by_role("button", name="Translate").click()
    items = page.locator("#list > li")
    items.nth(sum(bool(line.strip()) for line in lines) - 1).wait_for()
    page.get_by_text(re.compile("lines? translated")).wait_for()
    return items


def words(page, kind):
    return page.locator(f".{kind}-words").first.locator(":scope > *")


def width(page):
    return page.evaluate("document.documentElement.scrollWidth")


def focused(page):
    return page.evaluate("document.activeElement.id || document.activeElement.textContent")


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


def test_a_word_shades_what_it_attends_to(open_page):
    page = open_page()
    translate(page, "A sleeping dog.")
    target, source = words(page, "target"), words(page, "source")
    target.first.wait_for()
    assert target.all_inner_texts() == ["A", "SLEEPING", "DOG", ".", "end"]
    page.get_by_label("Layer").select_option("1")
    target.nth(1).hover()
    assert target.nth(1).get_attribute("aria-pressed") == "true"
    assert page.locator("[aria-pressed=true]").count() == 1
    page.get_by_label("Layer").select_option("3 (last)")
    # Its two subwords attend to the two of its source word.
    assert source.locator(".weight").all_inner_texts() == ["", "100%", "", "", ""]
    colors = [word.evaluate("e => getComputedStyle(e).backgroundColor") for word in source.all()]
    assert len(set(colors)) == 2
    assert colors[0] == colors[2] != colors[1]
    page.get_by_label("Layer").select_option("2")
    assert source.locator(".weight").all_inner_texts() == ["17%", "33%", "17%", "17%", "17%"]


def test_the_chosen_layer_stays(open_page):
    page = open_page()
    translate(page, "One.")
    page.get_by_label("Layer").select_option("2")
    translate(page, "Two.")
    assert page.get_by_label("Layer").input_value() == "1"


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


def test_the_keyboard_is_enough(open_page):
    page = open_page()
    for _ in range(9):
        page.keyboard.press("Tab")
        if focused(page) == "text":
            break
    page.keyboard.type("A dog.")
    page.keyboard.press("Control+Enter")
    words(page, "target").first.wait_for()
    seen = []
    while "Layer" not in seen:
        page.keyboard.press("Tab")
        is_layer = page.evaluate("document.activeElement.tagName") == "SELECT"
        seen.append("Layer" if is_layer else focused(page))
        outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
        assert outline == "solid", seen
        assert len(seen) < 9, seen
    assert seen == ["translate", "copy", "The 2 best translations", "Attention", "Layer"]
    page.keyboard.press("Tab")
    assert focused(page) == "A"
    page.keyboard.press("ArrowRight")
    assert focused(page) == "DOG"
    said = page.locator("[aria-live=polite]")
    assert said.inner_text().startswith("“\u2068DOG\u2069” attends to “\u2068dog\u2069” ")
    page.keyboard.press("End")
    assert focused(page) == "end"
    page.keyboard.press("ArrowRight")
    assert focused(page) == "end"
    page.keyboard.press("Home")
    assert focused(page) == "A"
    page.keyboard.press("Tab")  # The words are one stop.
    assert focused(page) == "Compare with a reference"
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    assert focused(page) == "reference"


def test_hostile_text_is_only_text(open_page):
    page = open_page(viewport={"width": 320, "height": 700})
    items = translate(page, *HOSTILE)
    for number in range(1, len(HOSTILE)):
        items.nth(number).get_by_text("Attention").click()
    page.locator(".target-words").nth(len(HOSTILE) - 1).wait_for()
    assert items.locator(".source").evaluate_all("all => all.map(e => e.textContent)") == HOSTILE
    assert page.locator("#list :is(img, script, b)").count() == 0
    assert page.title() == "parrot – Translate"
    assert width(page) == 320
    texts = items.locator(".source")
    assert texts.nth(2).evaluate("e => getComputedStyle(e).direction") == "rtl"


def test_a_phone_needs_no_sideways_scrolling(open_page, tmp_path):
    page = open_page(viewport={"width": 320, "height": 640})
    assert width(page) == 320
    translate(page, "A dog runs on the beach with a very long leash and two other dogs.")
    page.locator("#list summary").first.click()
    page.get_by_text("Compare with a reference").click()
    page.get_by_text("Model card").click()
    assert width(page) == 320
    page.screenshot(path=tmp_path / "phone.png", full_page=True)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_both_color_schemes_have_contrast(scheme, open_page, tmp_path):
    page = open_page(color_scheme=scheme)
    translate(page, "A dog runs.")
    page.get_by_text("The 2 best translations").click()
    words(page, "target").nth(1).hover()
    colors = page.evaluate(
        """[...document.querySelectorAll("h1, p, label, summary, button, span, li")]
        .filter((e) => e.checkVisibility() && e.textContent.trim())
        .map((e) => [e.textContent.trim().slice(0, 20), getComputedStyle(e).color, (() => {
            for (; e; e = e.parentElement) {
                const color = getComputedStyle(e).backgroundColor;
                if (color.startsWith("rgb(")) return color;
            }
        })()])"""
    )
    assert len(colors) > 20
    for text, ink, paper in colors:
        assert contrast(ink, paper) >= 4.5, (text, ink, paper)
    page.screenshot(path=tmp_path / f"{scheme}.png", full_page=True)


def contrast(one, other):
    """Return the contrast of two colors, as WCAG defines it."""
    dark, light = sorted(map(luminance, (one, other)))
    return (light + 0.05) / (dark + 0.05)


def luminance(color):
    channels = [int(value) / 255 for value in re.findall(r"\d+", color)[:3]]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return sum(weight * c for weight, c in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def test_nothing_moves_for_those_who_ask_for_it(open_page, server):
    go_on = threading.Event()
    server.on_predict = lambda: go_on.wait(20)
    for motion, animation in (("no-preference", "turn"), ("reduce", "none")):
        page = open_page(reduced_motion=motion)
        text_of(page).fill("a")
        page.get_by_role("button", name="Translate").click()
        busy = page.locator(".busy").element_handle()
        style = "e => getComputedStyle(e, '::before').animationName"
        assert busy.evaluate(style) == animation
    go_on.set()


def test_a_translation_that_takes_long_is_visible_and_can_be_stopped(open_page, server):
    page = open_page()
    go_on = threading.Event()
    server.on_predict = lambda: go_on.wait(20)
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


def copied(page):
    page.evaluate("navigator.clipboard.writeText = (text) => { window.copied = text; }")
    page.get_by_role("button", name="Copy").click()
    return page.evaluate("window.copied")


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


def test_a_new_version_has_its_own_card(open_page, server):
    page = open_page()
    served = server.server.predictor.versions._current
    states, before = server.server.predictor.versions._states, (served.number, served.path)
    new = served.path.with_name("3")
    new.mkdir(exist_ok=True)
    (new / "README.md").write_text("# the third\n")
    try:
        served.number, served.path = 3, new
        states[3] = states.pop(2)
        page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
        page.get_by_text("Ready, version 3").wait_for()
        assert page.locator("#card-text").text_content() == "# the third\n"
    finally:
        states[2] = states.pop(3)
        served.number, served.path = before
        new.joinpath("README.md").unlink()
        new.rmdir()


def test_a_parser_has_its_own_words(open_page, server):
    path = server.server.predictor.versions._current.path / "assets.extra" / "export.json"
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
        assert page.get_by_text("Compare with a reference").count() == 1
        assert not page.get_by_text("Compare with a reference").is_visible()
    finally:
        path.unlink()


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
def test_an_error_is_one_sentence_and_the_text_is_kept(error, message, open_page, server):
    page = open_page(errors="Failed to load resource")
    translate(page, "First.")
    server.on_predict = fail_with(error)
    text_of(page).fill("Second.")
    page.get_by_role("button", name="Translate").click()
    problem = page.get_by_role("alert")
    problem.wait_for()
    assert problem.inner_text() == message
    assert text_of(page).input_value() == "Second."
    assert page.locator(".translation").all_inner_texts() == ["FIRST."]
    assert copied(page) == "FIRST."
    server.on_predict = lambda: None
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


def test_a_model_that_is_loading_is_waited_for(open_page, server):
    versions = server.server.predictor.versions
    before = versions._states[2].state
    versions._states[2].state = "LOADING"
    try:
        page = open_page(wait=False)
        page.get_by_text("Loading version 2…").wait_for()
    finally:
        versions._states[2].state = before
    page.get_by_text("Ready, version 2").wait_for()


def test_a_line_of_several_sentences_has_a_hint(open_page):
    page = open_page()
    items = translate(page, "One dog. Two dogs. Three dogs.", "Mr. Smith is here.")
    assert items.get_by_text("This line seems to have several sentences.").count() == 1
