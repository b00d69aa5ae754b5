"""What a person does on the page, and what the browser then shows."""

import re


def text_of(page):
    return page.get_by_role("textbox", name="Text", exact=True)


def translate(page, *lines):
    text_of(page).fill("\n".join(lines))
    page.get_by_role("button", name="Translate").click()
    items = page.locator("#list > li")
    items.nth(sum(bool(line.strip()) for line in lines) - 1).wait_for()
    page.get_by_text(re.compile("lines? translated")).wait_for()
    return items


def show(place, view):
    """Show a view in the details of a result: the first on the page, or a given one."""
    details = place.locator("details:not([id])").first
    if details.get_attribute("open") is None:
        details.locator("summary").click()
    details.get_by_role("radio", name=view).check()


def children(page, selector):
    return page.locator(selector).first.locator(":scope > *")


def width(page):
    return page.evaluate("document.documentElement.scrollWidth")


def focused(page):
    return page.evaluate("document.activeElement.id || document.activeElement.textContent")


def copied(page):
    page.evaluate("navigator.clipboard.writeText = (text) => { window.copied = text; }")
    page.get_by_role("button", name="Copy").click()
    return page.evaluate("window.copied")
