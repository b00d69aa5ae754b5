"""Messages of ICU: their forms are translated one by one, and apostrophes quote nothing."""

import json
import random
import re

import pytest

from keras_transformer.documents.messages import read_message, write_message
from tests.helpers.documents import each, translated

ICU = [
    "You have {n, plural,\n  =0 {no files}\n  one {# file}\n  other {# files in {dir}}\n} now.",
    "{a, select, male {He has {n, plural, one {a dog} other {# dogs}}} other { They }}",
    "{n, plural, offset: 1 one {it's '}' here} other {it''s #}}",
]


def test_the_forms_of_a_message_are_translated_one_by_one(tmp_path):
    def upper(text):
        assert "plural" not in text and "#" not in text
        return re.sub(r"\{\w+\}|\w+", lambda x: x[0] if "{" in x[0] else x[0].upper(), text)

    broken = "{n, plural, one {# file} other"
    content = json.dumps({str(i): text for i, text in enumerate([*ICU, broken, "Open {n}"])})
    found, failures = translated(tmp_path, ".json", content, each(upper))
    assert list(json.loads(found).values()) == [
        "YOU HAVE {n, plural,\n  =0 {NO FILES}\n  one {# FILE}\n  other {# FILES IN {dir}}\n} NOW.",
        "{a, select, male {HE HAS {n, plural, one {A DOG} other {# DOGS}}} other { THEY }}",
        "{n, plural, offset: 1 one {IT'S '}' HERE} other {IT''S #}}",
        broken,
        "OPEN {n}",
    ]
    named = f"{broken!r}: its syntax is not understood"
    assert failures == [named]
    found, failures = translated(tmp_path, ".json", content, each("{}}}".format))
    assert list(json.loads(found).values())[:4] == [*ICU, broken]
    rejected = [part for text in ICU for part in read_message(text)[1::2] if part]
    assert sorted(failures) == sorted(
        [named, *(f"{part!r}: its translation changes braces or #" for part in rejected)]
    )


@pytest.mark.parametrize("change", ["{}}}", "{}}}{{", "{{a}} {}", "{} #"])
def test_a_form_whose_syntax_changes_stays_and_is_named(change, tmp_path):
    content = json.dumps({"a": "{n, plural, one {# file} other {# files}}", "b": "Open"})
    found, failures = translated(tmp_path, ".json", content, each(change.format))
    assert json.loads(found)["a"] == json.loads(content)["a"]
    assert failures == [
        f"{text!r}: its translation changes braces or #" for text in ("# file", "# files")
    ]


@pytest.mark.parametrize(
    ("source", "translation", "java", "icu"),
    [
        ("Delete {0}", "C'est l'{0}", "C''est l''{0}", "C''est l''{0}"),
        ("It''s {0}", "C'est l''{0}", "C''est l''{0}", "C''est l''{0}"),
        ("Can't open {0}", "C'est l'{0}", "C'est l''{0}", "C'est l''{0}"),
        ("Delete {name}", "C'est l'{name}", "C'est l''{name}", "C'est l''{name}"),
        ("A '{'{name}", "'{'l'{name}", "'{'l'{name}", "'{'l'{name}"),
        ("Delete it", "C'est l'{a}", "C'est l'{a}", "C'est l'{a}"),
        ("Delete {{name}}", "C'est l'{{name}}", "C'est l'{{name}}", "C'est l'{{name}}"),
        ("Delete ${name}", "C'est l'${name}", "C'est l'${name}", "C'est l'${name}"),
    ],
)
def test_apostrophes_quote_no_argument(source, translation, java, icu, tmp_path):
    translate = each(lambda text: translation if text == source else text)
    found, _ = translated(tmp_path, ".properties", f"a={source}\n", translate)
    assert found == f"a={java}\n"
    forms = "{n, plural, other {#}}"
    for suffix, messages, expected in (
        (".json", [source, forms], icu),
        (".json", [source], translation),  # It may be one of other software.
        (".arb", [source, forms], translation),
    ):
        content = json.dumps(dict(enumerate(messages)))
        found, _ = translated(tmp_path, suffix, content, translate)
        assert [*json.loads(found).values()] == [expected, *messages[1:]]


def test_plurals_of_flutter_get_single_apostrophes(tmp_path):
    french = {"the {b}": "l'{b} d'un", "it''s {b}": "c''est l''{b}"}
    forms = [f"{{n, plural, other {{{each}}}}}" for each in french]
    content = json.dumps(dict(enumerate(forms)))
    found, failures = translated(tmp_path, ".arb", content, each(french.__getitem__))
    expected = [form.replace(*pair) for form, pair in zip(forms, french.items(), strict=True)]
    assert ([*json.loads(found).values()], failures) == (expected, [])
    found, _ = translated(tmp_path, ".json", content, each(french.__getitem__))
    assert json.loads(found)["0"] == "{n, plural, other {l''{b} d'un}}"


def test_messages_of_any_form_come_back():
    choose = random.Random(0)
    parts = ["{", "}", "{n, plural,", " one {", " other {", "a", " ", "#", "{x}", "\n", "'"]
    for _ in range(3000):
        text = "".join(choose.choices(parts, k=choose.randrange(14)))
        found = read_message(text)
        assert found is None or "".join(found) == text == write_message(found, {})[0]
