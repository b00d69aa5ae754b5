"""Messages next to their translations: what is filled in, marked, checked and left."""

import pytest

from tests.helpers.documents import PO, XLIFF, each, texts_of, translated

UPPER = each(str.upper)


def test_messages_are_filled_in_and_marked(tmp_path):
    found, failures = translated(tmp_path, ".po", PO, UPPER)
    assert failures == []
    for expected in (
        '#, c-format, fuzzy\nmsgid "Copied %s files. Done."\nmsgstr "COPIED %S FILES. DONE."',
        'msgstr[0] "%D FILE"\nmsgstr[1] "%D FILES"\nmsgstr[2] "%D FILES"',
        '#, fuzzy\nmsgctxt "menu"\nmsgid "Open"\nmsgstr "OPEN"',
        '#~ msgid "Obsolete"\n#~ msgstr "Alt"',
        r'"Plural-Forms: nplurals=3; plural=(n > 2);\n"',
    ):
        assert expected in found


def test_a_plural_has_as_many_forms_as_the_header_says(tmp_path):
    one = PO.replace("nplurals=3; plural=(n > 2)", "nplurals=1; plural=0")
    one = one.replace('msgstr[1] ""\nmsgstr[2] ""\n', "")
    assert 'msgstr[0] "%D FILES"\n\n' in translated(tmp_path, ".po", one, UPPER)[0]
    many = PO.replace("nplurals=3;", "nplurals=2000000000;")
    assert translated(tmp_path, ".po", many, UPPER)[0].count('"%D FILES"') == 5


def test_only_what_is_missing_is_filled_in(tmp_path):
    some = PO.replace('msgstr[0] ""', 'msgstr[0] "Eine"')
    found, _ = translated(tmp_path, ".po", some, UPPER, only_missing=True)
    assert 'msgstr[0] "Eine"\nmsgstr[1] "%D FILES"\nmsgstr[2] "%D FILES"' in found
    assert '\nmsgctxt "menu"\nmsgid "Open"\nmsgstr "Auf"' in found
    assert '"COPIED %S FILES. DONE."' in found
    source = '<source>Some <g id="1">bold</g> text.</source>'
    done = XLIFF.replace(source, f'{source}<target><x id="1"/></target>')
    texts, _ = texts_of(tmp_path, ".xliff", done, only_missing=True)
    assert texts == ["Plain & simple."]


def test_comments_name_the_checks_that_a_new_translation_fails(tmp_path):
    options = {"only_missing": True, "checks": True}
    drop = each(lambda text: text.replace("%s ", ""))
    found, _ = translated(tmp_path, ".po", PO, drop, **options)
    note = "# (pofilter) printf: Missing printf variable: %s\n"
    assert f"# A note.\n{note}#. extracted\n" in found
    assert found.count(note) == 1 and '\n\nmsgctxt "menu"\nmsgid "Open"\nmsgstr "Auf"' in found
    again, _ = translated(tmp_path, ".po", found.replace("files. D", "files, d"), drop, **options)
    assert again.count(note) == 1 and "pofilter" not in translated(tmp_path, ".po", PO, drop)[0]


def test_comments_on_checks_are_those_of_the_last_translation(tmp_path):
    good = {"Copied %s files. Done.": "Kopierte %s dateien. Fertig."}
    good |= {"%d file": "%d datei", "%d files": "%d dateien", "Open": "Auf"}
    mend = each(good.__getitem__)
    bad = each(lambda text: text.replace("%", ""))
    found, _ = translated(tmp_path, ".po", PO, bad, checks=True)
    assert found.count("(pofilter) printf: Missing printf variable: %d\n") == 1
    assert translated(tmp_path, ".po", found, mend, checks=True) == (
        translated(tmp_path, ".po", PO, mend)
    )


@pytest.mark.parametrize(("language", "count"), [("el", 0), ("de", 1)])
def test_checks_depend_on_the_language(language, count, tmp_path):
    content = PO.replace('"Plural', f'"Language: {language}\\n"\n"Plural')
    greek = each(lambda text: text.replace("?", ";"))  # A question mark of Greek is a semicolon.
    found, _ = translated(tmp_path, ".po", content.replace("Done.", "Done?"), greek, checks=True)
    assert found.count("(pofilter) endpunc") == count


def test_a_check_with_an_error_leaves_the_translation(tmp_path, monkeypatch):
    def fail(*_):
        raise TypeError("no such thing")

    monkeypatch.setattr("translate.filters.checks.StandardChecker.printf", fail)
    found, failures = translated(tmp_path, ".po", PO, UPPER, checks=True)
    assert '"%D FILES"' in found and '"OPEN"' in found
    assert failures[0] == "'Copied %s files. Done.': its checks failed: no such thing"


def test_a_text_that_fails_is_named_and_stays(tmp_path):
    def translate(texts):
        if "Open" in texts:
            raise ValueError("no menus")
        return UPPER(texts)

    found, failures = translated(tmp_path, ".po", PO, translate)
    assert failures == ["'Open': no menus"]
    assert 'msgid "Open"\nmsgstr "Auf"' in found
    assert "COPIED" in found


def test_a_translation_that_is_no_xml_is_named_and_left_out(tmp_path):
    broken, failures = translated(tmp_path, ".xliff", XLIFF, each("{}<".format))
    assert broken.count("<target") == 1
    assert failures[0].startswith("""'Some <g id="1">bold</g> text.': StartTag: invalid""")
    controls, failures = translated(tmp_path, ".xliff", XLIFF, each("\x01{}".format))
    assert (controls.count("<target"), failures, "\x01" in controls) == (2, [], False)
