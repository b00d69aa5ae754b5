"""Word documents: what a translation keeps around the text of their paragraphs."""

import asyncio
import io
import re
import zipfile

import pytest
import tensorflow as tf

from keras_transformer.documents import word
from keras_transformer.serving.errors import ServingError
from keras_transformer.serving.files import File, Files
from tests.helpers.documents import each, texts_of, translated

docx = pytest.importorskip("docx")


def run(text, style=""):
    return f'<w:r><w:rPr>{style}</w:rPr><w:t xml:space="preserve">{text}</w:t></w:r>'


def start(name="bookmark", number=1):
    return f'<w:{name}Start w:id="{number}" w:name="m"/>'


def end(name="bookmark", number=1):
    return f'<w:{name}End w:id="{number}"/>'


BREAK = '<w:br w:type="page"/>'
BOX = """<w:r><mc:AlternateContent xmlns:wps="x" xmlns:mc=
"http://schemas.openxmlformats.org/markup-compatibility/2006"><wps:txbx><w:txbxContent><w:p><w:r>
<w:t>In a box</w:t></w:r></w:p></w:txbxContent></wps:txbx></mc:AlternateContent></w:r>"""
FIELD = (
    '<w:r><w:fldChar w:fldCharType="begin"/></w:r><w:r><w:instrText>PAGE</w:instrText></w:r>'
    f'<w:r><w:fldChar w:fldCharType="separate"/></w:r>{run("7")}'
    '<w:r><w:fldChar w:fldCharType="end"/></w:r>'
)
SIGN = '<w:r><w:sym w:char="1"/></w:r>'
RANGE = "commentRange"
SEE = run("See ")


def saved(document):
    content = io.BytesIO()
    document.save(content)
    return content.getvalue()


def opened(content):
    return docx.Document(io.BytesIO(content))


def add_paragraph(document, inside):
    xml = docx.oxml.parse_xml(f"<w:p {docx.oxml.ns.nsdecls('w')}>{inside}</w:p>")
    document.add_paragraph()._p.extend(list(xml))


def upper(text):
    """Return a text with its words in capitals, but not what is in its tags."""
    return re.sub(r"<[^<>]*>|\w+", lambda x: x[0] if "<" in x[0] else x[0].upper(), text)


def test_paragraphs_of_word_keep_their_formatting(tmp_path):
    document = docx.Document()
    document.add_heading("A title")
    paragraph = document.add_paragraph("A ", style="List Bullet")
    paragraph.add_run("bold").bold = True
    for text in (" dog ru", "ns.", "\tYes\nno "):
        paragraph.add_run(text)
    paragraph.add_run().add_picture(
        io.BytesIO(tf.io.encode_png(tf.zeros([1, 1, 3], tf.uint8)).numpy())
    )
    paragraph.add_run("end")
    cell = document.add_table(1, 1).cell(0, 0)
    cell.text = "Cell"
    document.sections[0].header.paragraphs[0].text = "Header"
    document.add_paragraph("42")
    content = saved(document)
    texts, same = texts_of(tmp_path, ".docx", content)
    marked = 'A <G id="1">bold</G> dog runs.\tYes\nno <X id="3"/>end'
    assert texts == ["A title", marked, "Cell", "Header"]
    assert opened(same).element.xml == opened(content).element.xml

    swap = each(lambda text: upper(re.sub("(A )(<G.*G>)", r"\2 \1", text)))
    found = opened(translated(tmp_path, ".docx", content, swap)[0])
    bullet = found.paragraphs[1]
    assert [(run.text, run.bold) for run in bullet.runs] == [
        ("BOLD", True),
        (" A  DOG RUNS.\tYES\nNO ", None),
        ("", None),
        ("END", None),
    ]
    assert (bullet.style.name, len(found.inline_shapes)) == ("List Bullet", 1)
    assert found.tables[0].cell(0, 0).text == "CELL"
    assert found.sections[0].header.paragraphs[0].text == "HEADER"
    # What loses the tags loses no object.
    drop = each(lambda text: re.sub("<.*?>", "", text) + "!")
    assert len(opened(translated(tmp_path, ".docx", content, drop)[0]).inline_shapes) == 1


@pytest.mark.parametrize(
    ("inside", "text", "kept"),
    [
        ("<w:r><w:lastRenderedPageBreak/><w:t>Hello</w:t></w:r>", "Hello", ()),
        ("<w:r><w:t>co</w:t><w:softHyphen/><w:t>op</w:t></w:r>", "coop", ()),
        (f"<w:r>{BREAK}</w:r>{run('Head')}", "Head", (BREAK,)),
        (f"<w:r><w:t>One</w:t>{BREAK}<w:t>two</w:t></w:r>", 'One<X id="1"/>two', (BREAK,)),
        (
            f'{run("See ")}<w:hyperlink w:anchor="a"><w:proofErr w:type="spellStart"/>'
            f'{run("it")}<w:bookmarkStart w:id="1" w:name="m"/>{run(" now", "<w:b/>")}'
            '</w:hyperlink><w:bookmarkEnd w:id="1"/>',
            'See <G id="1">it</G><G id="2"> now</G>',
            ('w:anchor="a"', "<w:b/>", "<w:bookmarkStart", "<w:bookmarkEnd"),
        ),
        (
            f'<w:hyperlink w:anchor="a"><w:r><w:sym w:char="1"/></w:r>{run("it")}</w:hyperlink>',
            '<X id="0"/>it',
            ('w:anchor="a"', '<w:sym w:char="1"/>'),
        ),
        (
            f'{run("They ")}<w:del w:id="1"><w:r><w:delText>r</w:delText></w:r></w:del>'
            f'<w:ins w:id="2"><w:smartTag w:element="e">{run("ran")}</w:smartTag></w:ins>',
            'They <X id="1"/><G id="2">ran</G>',
            ("<w:delText>r</w:delText>", '<w:ins w:id="2"><w:smartTag w:element="e"><w:r>'),
        ),
        (
            f'{run("In ")}<w:sdt><w:sdtPr><w:alias w:val="x"/></w:sdtPr><w:sdtContent>{run("a")}'
            "</w:sdtContent></w:sdt>",
            'In <G id="1">a</G>',
            ('<w:alias w:val="x"/></w:sdtPr><w:sdtContent><w:r>',),
        ),
        (f"{run('See ')}{FIELD}{run(' too')}", 'See <X id="1"/> too', ("PAGE",)),
        (f"{run('See ')}{BOX}{run('!')}", 'See <X id="1"/>!', ("<w:t>IN A BOX!</w:t>",)),
    ],
)
def test_what_a_paragraph_of_word_holds_stays(inside, text, kept, tmp_path):
    document = docx.Document()
    add_paragraph(document, inside)
    if hasattr(document, "add_comment"):  # Since python-docx 1.2.
        document.add_comment(document.add_paragraph().add_run("Noted"), "A comment")
    texts, _ = texts_of(tmp_path, ".docx", saved(document))
    boxes, notes = ["In a box"] * ("box" in inside), ["Noted"] * hasattr(document, "add_comment")
    assert texts == [text, *boxes, *notes]
    add = each(lambda text: f"{upper(text)}!\x01")
    found = opened(translated(tmp_path, ".docx", saved(document), add)[0])
    xml = re.sub(r"<w:rPr/>|\s?xmlns:\w+=\"[^\"]*\"", "", found.element.xml)
    xml = re.sub(r">\s+<", "><", xml)
    for part in kept:
        assert xml.count(part) == 1, part
    assert xml.count("<w:hyperlink") == inside.count("<w:hyperlink")
    words = "".join(re.findall("<w:t(?: [^<>]*)?>(.*?)</w:t>", xml))
    expected = re.sub("<.*?>", "", text.replace('<X id="1"/>', "7" * ("PAGE" in kept)).upper())
    assert words.replace("IN A BOX!", "") == f"{expected}!{'NOTED!' if notes else ''}"
    if notes:
        assert next(iter(found.comments)).text == "A comment"


@pytest.mark.parametrize(
    ("inside", "text", "shown"),
    [
        (
            SEE + start() + run("a table") + end() + run(" now"),
            'See <G id="1">a table</G> now',
            "SEE [A TABLE] NOW",
        ),
        (
            SEE + start(RANGE) + run("it") + end(RANGE) + SIGN + run(" now"),
            'See <G id="1">it</G><X id="2"/> now',
            "SEE [IT]* NOW",
        ),
        (start() + run("All ") + run("it", "<w:b/>") + end(), None, "[ALL IT]"),
        (SIGN + start(RANGE) + run("All") + end(RANGE) + SIGN, "All", "*[ALL]*"),
        (start() + SIGN + run("All") + end(), "All", "[*ALL]"),
        (
            start() + SIGN + run("Al") + end() + run(" of it"),
            '<X id="0"/><G id="1">Al</G> of it',
            "[*AL] OF IT",
        ),
        (SEE + start() + run("it"), 'See <G id="1">it</G>', "SEE [IT"),
        (run("It") + end() + run(" is"), '<G id="0">It</G> is', "IT] IS"),
        (SEE + start() + end() + run("it"), "See it", "SEE IT[]"),
        (
            SEE + FIELD.replace(run("7"), start() + run("7") + end()) + run(" now"),
            'See <X id="1"/> now',
            "SEE {[7]} NOW",
        ),
        (
            start() + run("Fig. ") + FIELD + end() + run(": a dog"),
            '<G id="0">Fig. </G><X id="1"/>: a dog',
            "[FIG. {7}]: A DOG",
        ),
        (
            f'<w:hyperlink w:anchor="a">{start()}{run("it")}</w:hyperlink>{end()}',
            "it",
            "[IT]",
        ),
    ],
)
def test_bookmarks_and_comments_of_word_stay_around_their_text(inside, text, shown, tmp_path):
    document = docx.Document()
    add_paragraph(document, inside)
    content = saved(document)
    signs = {"Start": "[", "End": "]", "sym": "*", "begin": "{", "end": "}"}

    def show_sign(element):
        space, _, name = element.tag.rpartition("}")
        name = element.get(f"{space}}}fldCharType", name)
        found = [sign for kind, sign in signs.items() if name.endswith(kind)]
        return found[0] if found else element.text if name == "t" else ""

    def read(change):
        found, _ = translated(tmp_path, ".docx", content, each(change))
        return "".join(map(show_sign, opened(found).paragraphs[0]._p.iter()))

    assert text is None or texts_of(tmp_path, ".docx", content)[0] == [text]
    assert read(upper) == shown
    assert read(str) != shown
    whole = read(lambda _: "Alles")
    assert all(whole.count(sign) == shown.count(sign) for sign in "[]*{}")
    if shown == "SEE [A TABLE] NOW":
        assert whole == "[Alles]"
    assert read(lambda _: "").count("[") == shown.count("[")


def test_a_paragraph_of_word_has_a_limit_of_bookmarks_around_their_text(tmp_path, monkeypatch):
    monkeypatch.setattr(word, "_MOST_RANGES", 2)
    document = docx.Document()
    marked = (f"{start(number=i)}{run('a ')}{end(number=i)}" for i in range(3))
    add_paragraph(document, "".join(marked))
    change = each(lambda text: text.replace("a ", "b "))
    paragraph = opened(translated(tmp_path, ".docx", saved(document), change)[0]).paragraphs[0]
    assert paragraph.text == 3 * "b "
    names = [element.tag.rpartition("}")[2] for element in paragraph._p]
    marks = ["bookmarkStart", "r", "bookmarkEnd"]
    assert names == [*marks, *marks, "r", "bookmarkStart", "bookmarkEnd"]


def zipped(size):
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("word/document.xml", b" " * size)
    return content.getvalue()


def test_a_large_document_of_word_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"have [0-9]+ bytes once .* received 73400320. Divide"):
        texts_of(tmp_path, ".docx", zipped(70 << 20))
    refused = r"Invalid request: .* have 4194304 bytes once .* received 5242880. Divide it."
    with pytest.raises(ServingError, match=refused):
        asyncio.run(Files().translate(File("a.docx", zipped(5 << 20)), None))
