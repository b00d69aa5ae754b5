"""Translations, their scores and the model on the page."""

import json
import re
import shutil

import pytest

from keras_transformer.config.record import ExportRecord
from tests.helpers.browser import focused, show, text_of, translate, width
from tests.helpers.model_server import ModelServer
from tests.helpers.parrot import Parrot
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


def test_a_person_chooses_among_many_languages(open_page, tmp_path):
    codes = ["eng_Latn", "deu_Latn", "zho_Hans", "zho_Hant", "qqq_Latn", "fr"]
    Parrot().save(tmp_path / "1", "n_best", "inspect", "between", "translate_with_terms")
    path = tmp_path / "1" / ExportRecord.FILE
    path.parent.mkdir()
    decoding = {"source_language": "eng_Latn", "target_language": "deu_Latn"}
    facts = {"signatures": {"translate": {}}, "vocabulary": {"languages": codes}}
    path.write_text(json.dumps({**facts, "decoding": decoding}))
    with ModelServer(tmp_path, "parrot") as server:
        page = open_page(server=server)
        source, target = (page.get_by_label(name, exact=True) for name in ("From", "To"))
        assert target.locator("option").all_inner_texts() == [
            *("English (eng_Latn)", "French (fr)", "German (deu_Latn)", "qqq_Latn"),
            *("Simplified Chinese (zho_Hans)", "Traditional Chinese (zho_Hant)"),
        ]
        items = translate(page, "A dog.")
        assert items.locator(".translation").all_inner_texts() == ["A DOG."]
        assert items.locator("details").count() == 1
        assert page.get_by_text("Glossary").is_visible()
        source.select_option("fr")
        target.select_option("zho_Hant")
        assert not page.get_by_text("Glossary").is_visible()  # They are translated without.
        items = translate(page, "A dog.", "A cat.")
        assert items.locator(".translation").all_inner_texts() == [
            "fr zho_Hant A dog.",
            "fr zho_Hant A cat.",
        ]
        assert items.locator("details").count() == 0  # It would be about other languages.
        page.reload()
        page.locator("[data-state=ready]").wait_for()
        assert (source.input_value(), target.input_value()) == ("fr", "zho_Hant")
        assert not page.get_by_text("Glossary").is_visible()
        source.select_option("eng_Latn")
        target.select_option("deu_Latn")
        assert page.get_by_text("Glossary").is_visible()


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
    show(items, "Best translations")
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


def test_a_parser_has_its_own_words(open_page, record):
    record({"vocabulary": {"target_tokenizer": "TreeTokenizer"}})
    page = open_page()
    assert page.title() == "parrot – Parse"
    text_of(page).fill("A dog.\nA cat.")
    page.get_by_role("button", name="Parse").click()
    page.get_by_text("2 lines parsed").wait_for()
    assert page.locator("#results-title").inner_text() == "Trees"
    page.get_by_role("radio", name="Best trees").first.wait_for()
    page.get_by_role("radio", name="Tree to text").first.wait_for()
    assert page.get_by_text("Compare with a reference").count() == 1
    assert not page.get_by_text("Compare with a reference").is_visible()


@pytest.mark.parametrize(
    ("languages", "title"),
    [
        (["en", "de"], "English to German"),
        (["pt_BR", "de", "fr"], "Brazilian Portuguese to German and French"),
        (["en", "qqz", "<b>"], "English to qqz and <b>"),
        (["en", *"abcd"], "English to 4 languages"),
    ],
    ids=str,
)
def test_the_title_names_the_languages(languages, title, open_page, record):
    record({"languages": languages, "license": "CC-BY 4.0", "attribution": "by <i>all</i>"})
    page = open_page()
    assert page.get_by_role("heading", level=1).inner_text() == title
    assert page.title() == f"{title} – Translate"
    assert page.locator("#identity").inner_text() == "parrot · License: CC-BY 4.0"
    assert page.locator("#facts div", has_text="Attribution").locator("dd").inner_text() == (
        "by <i>all</i>"
    )
    assert page.get_by_role("group", name="Try").count() == 0


def test_an_example_is_translated_by_one_click(open_page, record):
    record({"examples": ["A dog.", "<b>Two</b> dogs."]})
    page = open_page()
    examples = page.get_by_role("group", name="Try").get_by_role("button")
    assert examples.all_inner_texts() == ["A dog.", "<b>Two</b> dogs."]
    examples.nth(1).click()
    page.get_by_text("1 line translated").wait_for()
    assert page.locator(".translation").all_inner_texts() == ["<B>TWO</B> DOGS."]
    assert text_of(page).input_value() == "<b>Two</b> dogs."
    examples.nth(0).click()  # The next one replaces it,
    page.get_by_text("A DOG.").first.wait_for()
    text_of(page).press_sequentially("x")  # but nothing replaces a person's own text.
    assert examples.count() == 0
    text_of(page).fill("")
    assert examples.count() == 2


@pytest.mark.parametrize("sizing", ["content", "fixed"])
def test_the_text_area_grows_with_its_text(sizing, open_page):
    page = open_page()
    if sizing == "fixed":  # A browser without `field-sizing`.
        page.evaluate("CSS.supports = () => false")
        page.evaluate("document.getElementById('text').style.fieldSizing = 'fixed'")
    text = text_of(page)
    heights = []
    for lines in (1, 15, 200, 1):
        text.fill("\n".join(["a"] * lines))
        heights.append(text.evaluate("e => e.offsetHeight"))
    assert heights[1] > 2 * heights[0]
    assert heights[1] < heights[2] <= 0.6 * page.viewport_size["height"] + 1
    assert heights[3] == heights[0]


def chips(item, side):
    return item.locator(f".{side} .chip").all_inner_texts()


def test_what_a_translation_keeps_is_shown_as_chips(open_page, keeper):
    page = open_page(server=keeper)
    lines = [
        "Copied %1$d files to <b>{0}</b>.",
        "Write to a@b.org, see https://b.org/{{ b }}.",
        "A dog.",
    ]
    items = translate(page, *lines)
    kept = [["%1$d", "<b>", "{0}", "</b>"], ["a@b.org", "https://b.org/", "{{ b }}"], []]
    for number, expected in enumerate(kept):
        for side in ("source", "translation"):
            assert chips(items.nth(number), side) == expected
    texts = items.locator(".translation").all_inner_texts()
    assert texts == [f"{lines[0]} |all", f"{lines[1]} |all", "A DOG."]
    assert items.locator("details").count() == 1  # The other search has no views.
    page.get_by_text("Glossary").click()
    page.get_by_label("Keep placeholders").uncheck()
    assert chips(translate(page, lines[0]).first, "source") == []


def test_terms_of_the_glossary_are_used(open_page, keeper):
    page = open_page(server=keeper, viewport={"width": 320, "height": 700})
    page.get_by_text("Glossary").click()
    page.get_by_label("Terms", exact=True).fill("invoice* = Rechnung\nno term\ncredit\tGutschrift")
    items = translate(page, "Pay Invoices, not voices.")
    text = "Pay Invoices, not voices. invoice*_Rechnung_credit_Gutschrift|all"
    assert items.locator(".translation").inner_text() == text
    assert chips(items, "source") == ["Invoices"]
    assert chips(items, "translation") == ["Rechnung"]
    assert width(page) == 320
    page.get_by_label("Terms", exact=True).fill("file* = Datei\nfile name = Dateiname")
    items = translate(page, "A file name of files.")
    assert chips(items, "source") == ["file name", "files"]


def test_a_model_keeps_what_it_was_exported_to_keep(open_page, keeper):
    version = keeper.server.predictor.versions.of("keeper").served[1].path
    path = version / ExportRecord.FILE
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps({"decoding": {"protect": "all, numbers accelerators"}}))
    try:
        items = translate(open_page(server=keeper), "A dog.", "7 dogs.", "&Dog", "AT & T")
    finally:
        path.unlink()
    asked = "|all_numbers_accelerators"
    texts = items.locator(".translation").all_inner_texts()
    assert texts == ["A DOG.", f"7 dogs. {asked}", f"&Dog {asked}", "AT & T"]


def test_a_line_of_several_sentences_is_divided(open_page, keeper):
    items = translate(open_page(server=keeper), "One. Two. Three. Four.", "One.")
    texts = items.locator(".translation").all_inner_texts()
    assert texts == ["One. Two. Three. Four. (divided)", "ONE."]
    assert items.get_by_text("several sentences").count() == 0


DROP = """(content) => {
    const data = new DataTransfer();
    data.items.add(new File([new Uint8Array(content)], "a.md"));
    const options = { dataTransfer: data, bubbles: true, cancelable: true };
    return document.querySelector("#text").dispatchEvent(new DragEvent("drop", options));
}"""


def test_a_text_file_is_opened_or_dropped(open_page):
    page = open_page()
    with page.expect_file_chooser() as chooser:
        page.get_by_role("button", name="Open a text file").click()
    file = {"name": "a.txt", "mimeType": "text/plain", "buffer": "Grün.\r\n\r\nTwo.\n".encode()}
    chooser.value.set_files(file)
    page.wait_for_function("document.querySelector('#text').value === 'Grün.\\n\\nTwo.\\n'")
    assert page.evaluate(DROP, list(b"Dropped.")) is False  # The browser stays on the page.
    page.wait_for_function("document.querySelector('#text').value === 'Dropped.'")
    page.get_by_text("Opened a.md").wait_for()
    assert focused(page) == "text"
    for content, message in (b"\xff\xfe", "must be text in UTF-8"), (200_001 * b"a", "200 kB"):
        page.evaluate(DROP, list(content))
        page.locator("#problem", has_text=message).wait_for()
    assert text_of(page).input_value() == "Dropped."


def test_a_file_replaces_own_text_only_after_a_question(open_page):
    question = "Replace your text with that of a.md?"
    page = open_page(errors=re.escape(question))
    text_of(page).fill("Own.")
    for answer, expected in ("dismiss", "Own."), ("accept", "Dropped."):
        with page.expect_event("dialog") as dialog:
            page.evaluate(DROP, list(b"Dropped."))
        assert dialog.value.message == question
        getattr(dialog.value, answer)()
        page.wait_for_timeout(100)
        assert text_of(page).input_value() == expected


def test_a_model_is_chosen_if_there_are_several(open_page, keeper, parrot):
    page = open_page(server=keeper)
    translate(page, "A %s.")
    page.get_by_role("combobox", name="Model").select_option("plain")
    page.get_by_role("heading", name="plain").wait_for()
    page.locator("#glossary").wait_for(state="hidden")
    assert not page.locator("#results").is_visible()
    assert translate(page, "A %s.").locator(".translation").inner_text() == "A %S."
    assert not open_page(server=parrot).locator("#models").is_visible()


def hold(page, *paths):
    """Return what is asked of the server at some paths, which it does not answer."""
    held = []
    for path in paths:
        page.route(path, lambda route: held.append(route))
    return held


def test_a_text_waits_for_the_model_that_was_chosen(open_page, keeper):
    page = open_page(server=keeper)
    held = hold(page, "**/page/model.json?name=plain", "**/v1/models/plain/metadata")
    asked = []
    page.on("request", lambda request: asked.append(request.url))
    page.get_by_role("combobox", name="Model").select_option("plain")
    text_of(page).fill("A %s.")
    page.get_by_role("button", name="Translate").click()
    page.wait_for_timeout(200)
    held.pop().continue_()
    page.get_by_role("heading", name="plain").wait_for()
    # The first model's signatures are gone before the second's are known.
    page.locator("#glossary").wait_for(state="hidden")
    wait(lambda: page.wait_for_timeout(10) or len(held) == 2)  # For the state, and for the text.
    for route in held:
        route.continue_()
    page.get_by_text("1 line translated").wait_for()
    assert page.locator(".translation").all_inner_texts() == ["A %S."]
    assert [url for url in asked if "keeper:predict" in url] == []


def test_the_model_that_was_chosen_last_is_shown(open_page, keeper):
    page = open_page(server=keeper)
    held = hold(page, "**/page/model.json?name=*")
    models = page.get_by_role("combobox", name="Model")
    models.select_option("plain")
    models.select_option("keeper")
    wait(lambda: page.wait_for_timeout(10) or len(held) == 2)
    for route in reversed(held):
        with page.expect_response(route.request.url):
            route.continue_()
        page.wait_for_timeout(200)
        assert page.get_by_role("heading", level=1).inner_text() == "keeper"
        assert models.locator(":checked").inner_text() == "keeper"
    assert page.locator("#glossary").is_visible()


def test_a_model_that_is_gone_is_not_shown_as_chosen(open_page, keeper):
    page = open_page(server=keeper, errors="404")
    answer = {"status": 404, "json": {"error": "There is no model plain."}}
    page.route("**/page/model.json?name=plain", lambda route: route.fulfill(**answer))
    models = page.get_by_role("combobox", name="Model")
    models.select_option("plain")
    problem = page.get_by_role("alert")
    problem.wait_for()
    assert problem.inner_text() == "The server has no model plain, or it is still loading."
    assert models.locator(":checked").inner_text() == "keeper"
    page.unroute("**/page/model.json?name=plain")
    models.select_option("plain")
    page.get_by_role("heading", name="plain").wait_for()
    assert problem.count() == 0
