"""The page by keyboard, on a phone, in both color schemes, and with hostile text."""

import re
import threading

import pytest

from tests.helpers.browser import children, focused, show, text_of, translate, width

pytestmark = pytest.mark.slow


HOSTILE = [
    "<img src=x onerror=document.title='broken'>",
    "<script>document.title='broken'</script>",
    "שלום עולם",
    "\u202eevil\u202c &amp; \\ \" '",
    "😀👨‍👩‍👧‍👦",
    "x" * 10_000,
]


# What has the focus: by its id, as a choice by its label, or by its text.
NAME = """(() => {
    const { id, tagName, labels, textContent } = document.activeElement;
    if (tagName === "SELECT") return labels[0].firstChild.textContent;
    return id || (labels?.[0] ?? { textContent }).textContent;
})()"""


def has_outline(page):
    """Return whether the focus is visible; a choice shows it at its label."""
    element = "e.type === 'radio' ? e.nextElementSibling : e"
    style = f"(e => getComputedStyle({element}).outlineStyle)(document.activeElement)"
    return page.evaluate(style) == "solid"


def test_the_keyboard_is_enough(open_page):
    page = open_page()
    for _ in range(9):
        page.keyboard.press("Tab")
        if focused(page) == "text":
            break
    page.keyboard.type("A dog.")
    page.keyboard.press("Control+Enter")
    page.locator(".attending").wait_for()
    seen = []
    while "A" not in seen:
        page.keyboard.press("Tab")
        seen.append(page.evaluate(NAME))
        assert has_outline(page), seen
        assert len(seen) < 12, seen
    assert seen == [
        *("translate", "copy", "Details", "Attention"),
        *("Translation to text", "Layer", "1", "A"),  # Each choice is one stop, and so are words.
    ]
    page.keyboard.press("ArrowDown")
    assert focused(page) == "DOG"
    said = page.locator("[aria-live=polite]")
    assert said.inner_text() == "“\u2068DOG\u2069” attends to no word much more than to another"
    page.keyboard.press("End")
    assert focused(page) == "end"
    page.keyboard.press("ArrowRight")
    assert focused(page) == "end"
    page.keyboard.press("Home")
    assert focused(page) == "A"
    page.keyboard.press("Tab")
    assert focused(page) == "Compare with a reference"
    page.get_by_role("radio", name="Attention").focus()
    page.keyboard.press("ArrowRight")
    page.locator(".written").wait_for()
    seen = []
    while "Compare with a reference" not in seen:
        page.keyboard.press("Tab")
        seen.append(focused(page))
        assert has_outline(page), seen
        assert len(seen) < 9, seen
    assert seen == ["Play", "A", "Compare with a reference"]
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    assert focused(page) == "reference"


@pytest.mark.parametrize("name", ["Show", "Attention of", "Head"])
def test_choosing_with_the_arrow_keys_keeps_the_focus(name, open_page):
    page = open_page()
    translate(page, "A dog.")
    page.locator(".attending").wait_for()
    choices = page.get_by_role("group", name=name).get_by_role("radio")
    choices.and_(page.locator(":checked")).focus()
    for _ in range(choices.count()):
        before = page.evaluate(NAME)
        page.keyboard.press("ArrowRight")
        assert page.evaluate(NAME) != before
        group = "document.activeElement.closest('fieldset')?.firstChild.textContent"
        assert page.evaluate(group) == name


def test_hostile_text_is_only_text(open_page):
    page = open_page(viewport={"width": 320, "height": 700})
    items = translate(page, *HOSTILE)
    for number in range(1, len(HOSTILE)):
        show(items.nth(number), "Attention")
    page.locator(".attending").nth(len(HOSTILE) - 1).wait_for()
    for number in range(1, len(HOSTILE)):
        show(items.nth(number), "Word by word")
    page.locator(".written").nth(len(HOSTILE) - 3).wait_for()
    page.get_by_text("This line is too long to be shown word by word.").wait_for()
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
    assert not page.get_by_text("Ctrl").is_visible()  # There is no such key.
    for view in ("Attention", "Best translations", "Word by word"):
        show(page, view)
        assert width(page) == 320
    page.locator(".written").wait_for()
    page.get_by_text("Compare with a reference").click()
    page.get_by_text("Model card").click()
    assert width(page) == 320
    page.screenshot(path=tmp_path / "phone.png", full_page=True)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_both_color_schemes_have_contrast(scheme, open_page, tmp_path):
    page = open_page(color_scheme=scheme)
    translate(page, "A dog runs.")
    page.locator(".attending").wait_for()
    children(page, ".attending").nth(1).hover()
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


@pytest.mark.parametrize("size", [1200, 400])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing(scheme, size, open_page, record, keeper):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    record(
        {"languages": ["en", "de"], "license": "MIT", "attribution": "A", "examples": ["A dog."]}
    )
    page = open_page(color_scheme=scheme, viewport={"width": size, "height": 800}, bypass_csp=True)
    found = axe.run(page).response["violations"]
    translate(page, "A dog runs.", "Two.")
    page.get_by_text("Compare with a reference").click()
    page.get_by_text("Model card").click()
    for view, content in (
        ("Attention", ".attending"),
        ("Word by word", ".candidates"),
        ("Best translations", ".hypotheses"),
    ):
        show(page, view)
        page.locator(content).first.wait_for()
        found += axe.run(page).response["violations"]
    page = open_page(
        server=keeper,
        color_scheme=scheme,
        viewport={"width": size, "height": 800},
        bypass_csp=True,
    )
    page.get_by_text("Glossary").click()
    page.get_by_label("Terms", exact=True).fill("dog = Hund")
    translate(page, "The dog %s.", "Two.")
    found += axe.run(page).response["violations"]
    assert [(each["id"], [node["html"] for node in each["nodes"]]) for each in found] == []


def contrast(one, other):
    """Return the contrast of two colors, as WCAG defines it."""
    dark, light = sorted(map(luminance, (one, other)))
    return (light + 0.05) / (dark + 0.05)


def luminance(color):
    channels = [int(value) / 255 for value in re.findall(r"\d+", color)[:3]]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return sum(weight * c for weight, c in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def test_nothing_moves_for_those_who_ask_for_it(open_page, parrot):
    go_on = threading.Event()
    parrot.on_predict = lambda: go_on.wait(20)
    for motion, animation in (("no-preference", "turn"), ("reduce", "none")):
        page = open_page(reduced_motion=motion)
        text_of(page).fill("a")
        page.get_by_role("button", name="Translate").click()
        busy = page.locator(".busy").element_handle()
        style = "e => getComputedStyle(e, '::before').animationName"
        assert busy.evaluate(style) == animation
    go_on.set()
