"""Messages of XLIFF with elements, segments and parts that are not translated."""

import re
from xml.dom import minidom

import pytest

from tests.helpers.documents import XLIFF, XLIFF_2, each, texts_of, translated


def test_segments_of_xliff_2_are_filled_in(tmp_path):
    found, failures = translated(tmp_path, ".xlf", XLIFF_2, each("{} X".format))
    assert failures == []
    targets = minidom.parseString(found).getElementsByTagName("target")
    assert [re.sub(" ?(xmlns|xml:space)=.[^ >]*", "", node.toxml()) for node in targets] == [
        "<target>Plain &amp; simple. X</target>",
        '<target>Some <pc id="1">bold</pc> text. X</target>',
    ]
    assert found.count('state="initial"') == 2
    assert texts_of(tmp_path, ".xlf", found, only_missing=True)[0] == []


def test_every_translation_of_xliff_asks_for_review(tmp_path):
    plural = """<group restype="x-gettext-plurals" id="1" approved="yes">
    <trans-unit id="1[0]"><source>%d file</source></trans-unit>
    <trans-unit id="1[1]"><source>%d files</source><target state="final">Alt</target></trans-unit>
    </group></body>"""
    inline = 'text.</source><target xml:lang="de" state="final">Alt <g id="1">x</g></target>'
    text = 'simple.</source><target resname="a"><g id="1">Alt</g> x</target>'
    content = XLIFF.replace("plaintext", "po").replace("</body>", plural)
    content = content.replace("text.</source>", inline).replace("simple.</source>", text)
    found, _ = translated(tmp_path, ".xlf", content, each("{}!".format))
    assert 'approved="yes"' not in found
    targets = minidom.parseString(found).getElementsByTagName("target")
    assert [node.getAttribute("state") for node in targets] == ["needs-review-translation"] * 4
    assert [re.sub(' (xmlns|state)="[^"]*"', "", node.toxml()) for node in targets] == [
        '<target resname="a">Plain &amp; simple.!</target>',
        '<target xml:lang="de">Some <g id="1">bold</g> text.!</target>',
        "<target>%d file!</target>",
        "<target>%d files!</target>",
    ]


@pytest.mark.parametrize(
    ("content", "unit", "end"),
    [(XLIFF, '<trans-unit id="1"', "</trans-unit>"), (XLIFF_2, '<unit id="1"', "</unit>")],
)
def test_what_xliff_says_is_not_to_be_translated_stays(content, unit, end, tmp_path):
    def seen(content):
        return len(texts_of(tmp_path, ".xlf", content)[0])

    inside = content.replace(unit, f'<group translate="no" id="g"><group id="h">{unit}', 1)
    inside = inside.replace(end, f"{end}</group></group>", 1)
    assert seen(content) == 2 and seen(inside) == (content == XLIFF)
    assert seen(inside.replace(unit, f'{unit} translate="yes"')) == 2
    assert seen(content.replace(unit, f'{unit} translate="no"')) == (content == XLIFF)


@pytest.mark.parametrize(
    ("content", "inside", "text"),
    [
        (
            XLIFF,
            'See <bpt id="1">&lt;b&gt;</bpt>bold<ept id="1">&lt;/b&gt;</ept> <x id="2"/> in '
            '<g id="3"><mrk mtype="protected">Save <g id="4">it</g></mrk>, <ph id="5">two</ph></g> '
            '<it id="6" pos="open">x</it> <mrk mtype="term">three</mrk>.',
            'See <X id="0"/>bold<X id="1"/> <x id="2"/> in <g id="3"><X id="2"/>, <X id="3"/></g> '
            '<X id="4"/> <mrk mtype="term">three</mrk>.',
        ),
        (
            XLIFF_2,
            'Some <mrk id="1" translate="no">Save <pc id="2">it</pc></mrk> <ph id="3"/> text.',
            'Some <X id="0"/> <ph id="3"/> text.',
        ),
    ],
)
def test_code_and_protected_parts_of_xliff_stay(content, inside, text, tmp_path):
    content = re.sub("(?s)Some .*?text\\.", inside, content)
    texts, same = texts_of(tmp_path, ".xlf", content)
    assert texts[-1] == text
    targets = re.findall("(?s)<target[^>]*>(.*?)</target>", same)
    assert targets == ["Plain &amp; simple.", inside]
    swap = each(lambda text: re.sub(r'(.*)(<X id="0"/>)(.*)', r"\2\3 Und \1", text))
    found, _ = translated(tmp_path, ".xlf", content, swap)
    before, first, after = re.split("(<bpt.*?</bpt>|<mrk.*?</mrk>)", inside, maxsplit=1)
    assert f">{first}{after} Und {before}</target>" in found
    add = each('{}<X id="9"/>'.format)
    assert f'{inside}<X id="9"/></target>' in translated(tmp_path, ".xlf", content, add)[0]


PROTECTED = '<mrk mtype="protected">x <ph id="3"><sub>y</sub></ph></mrk>'
SEGMENTS = f"""<seg-source><mrk mtype="seg" mid="1">One <ph id="1">a="<sub>tip</sub>"</ph>.</mrk> \
<g id="2"><mrk mtype="seg" mid="2">Two &amp; {PROTECTED}</mrk></g></seg-source>"""
DONE = f"""<mrk mtype="seg" mid="1">One <ph id="1">a="<sub>tip!</sub>"</ph>.!</mrk> \
<g id="2"><mrk mtype="seg" mid="2">Two &amp; {PROTECTED}!</mrk></g>"""
SOME_DONE = DONE.replace(f"Two &amp; {PROTECTED}!", "Zwei")


@pytest.mark.parametrize(
    ("inside", "expected"),
    [
        (f"One. </source>{SEGMENTS}", DONE),
        (f"One. </source><target/>{SEGMENTS}", DONE),
        (
            f'One. </source>{SEGMENTS}<target><mrk mtype="seg" mid="1"/> <mrk mtype="seg" mid="2">'
            "Zwei</mrk></target>",
            SOME_DONE,
        ),
        (  # A segment that the target lacks.
            f'One. </source>{SEGMENTS}<target><mrk mtype="seg" mid="2">Zwei</mrk></target>',
            SOME_DONE,
        ),
        (  # A target without segments.
            f'One. </source>{SEGMENTS}<target>Zwei <x id="1"/></target>',
            'Zwei <x id="1"/>',
        ),
        (  # Without ids, which are optional.
            'One. </source><seg-source><mrk mtype="seg">One.</mrk> <mrk mtype="seg">Two.</mrk>'
            '</seg-source><target><mrk mtype="seg">Eins.</mrk> <mrk mtype="seg"/></target>',
            '<mrk mtype="seg">Eins.</mrk> <mrk mtype="seg">Two.!</mrk>',
        ),
        (
            'One. </source><seg-source><mrk mtype="seg" mid="1" translate="no">One.</mrk> '
            '<mrk mtype="seg" mid="2">Two.</mrk></seg-source>',
            '<mrk mtype="seg" mid="1" translate="no">One.</mrk> '
            '<mrk mtype="seg" mid="2">Two.!</mrk>',
        ),
        (
            'A <g xmlns:q="urn:q" q:r="5">b</g></source>',
            'A <g xmlns:q="urn:q" q:r="5">b</g>!',
        ),
        (
            'A <ph id="1">="<sub>b <it id="2">x<sub>c</sub></it></sub>"</ph></source>',
            'A <ph id="1">="<sub>b <it id="2">x<sub>c!</sub></it>!</sub>"</ph>!',
        ),
        ('A <ph id="1"><sub>b</sub><sub/></ph></source>', 'A <ph id="1"><sub>b!</sub><sub/></ph>!'),
    ],
)
def test_segments_and_texts_in_code_of_xliff_are_translated(inside, expected, tmp_path):
    content = XLIFF.replace('Some <g id="1">bold</g> text.</source>', inside)
    add = each(lambda text: f"{text}!" if text.strip() else text)
    found, failures = translated(tmp_path, ".xlf", content, add, only_missing=True)
    assert failures == []
    if SEGMENTS in inside:
        assert SEGMENTS in found
        assert found.index("</seg-source>") < found.index("<target", found.index("<source>One"))
    target = re.findall("<target[^>]*>(.*?)</target>", found)[-1]
    assert target == expected
    elements = minidom.parseString(found).getElementsByTagName("*")
    assert len({element.namespaceURI for element in elements}) == 1


def test_segments_that_are_done_are_translated_again_unless_only_others_are_asked_for(tmp_path):
    done = f"One. </source>{SEGMENTS}<target>{DONE.replace('!', '')}</target>"
    content = XLIFF.replace('Some <g id="1">bold</g> text.</source>', done)
    found, _ = translated(tmp_path, ".xlf", content, each("{}!".format))
    assert re.findall("<target[^>]*>(.*?)</target>", found)[-1] == DONE


def test_brackets_in_the_text_of_an_element_stay_text(tmp_path):
    content = XLIFF.replace("bold", '&lt;svg xmlns="a"&gt;')
    texts, _ = texts_of(tmp_path, ".xliff", content)
    assert texts[-1] == 'Some <g id="1">&lt;svg xmlns="a"&gt;</g> text.'
