import gzip

import pytest

from keras_transformer.data import read_pairs
from keras_transformer.data.splitting import split_text

pytest.importorskip("translate")

PO = r"""msgid ""
msgstr ""
"Content-Type: text/plain; charset=UTF-8\n"

msgid "Open\tfile\n"
msgstr "Datei\töffnen\n"

#, fuzzy
msgid "Close"
msgstr "Öffnen"

msgid "Save"
msgstr ""

msgid "%d file"
msgid_plural "%d files"
msgstr[0] "%d Datei"
msgstr[1] "%d Dateien"

#~ msgid "Old"
#~ msgstr "Alt"
"""
TMX = """<tmx version="1.4"><header srclang="en"/><body>
<tu><tuv xml:lang="en"><seg>A <bpt i="1">&lt;b&gt;</bpt>dog</seg></tuv>
<tuv xml:lang="de"><seg>Ein Hund</seg></tuv></tu>
<tu><tuv xml:lang="de"><seg>Eine Katze</seg></tuv><tuv xml:lang="en"><seg>A cat</seg></tuv></tu>
<tu><tuv xml:lang="en"><seg>A bird</seg></tuv></tu>
</body></tmx>"""
XLIFF = """<xliff version="1.2" xmlns="urn:oasis:names:tc:xliff:document:1.2">
<file original="x" source-language="en" target-language="de" datatype="plaintext"><body>
<trans-unit id="1"><source>A <g id="1">dog</g></source><target>Ein Hund</target></trans-unit>
<trans-unit id="2" approved="no"><source>Close</source><target>Auf</target></trans-unit>
<trans-unit id="3"><source>Save</source><target state="needs-l10n">Save</target></trans-unit>
<trans-unit id="4"><source>A cat</source></trans-unit>
<trans-unit id="5" translate="no"><source>Keras</source><target>Keras</target></trans-unit>
</body></file></xliff>"""
XLIFF_2 = """<xliff version="2.0" xmlns="urn:oasis:names:tc:xliff:document:2.0" srcLang="en"
 trgLang="de"><file id="f"><unit id="1"><segment><source>A dog</source>
<target>Ein Hund</target></segment></unit></file></xliff>"""
TS = """<?xml version="1.0"?><TS version="2.1" language="de"><context><name>x</name>
<message><source>Open</source><translation>Öffnen</translation></message>
<message><source>Close</source><translation type="unfinished">Auf</translation></message>
<message numerus="yes"><source>%n file(s)</source><translation>
<numerusform>%n Datei</numerusform><numerusform>%n Dateien</numerusform></translation></message>
</context></TS>"""


@pytest.mark.parametrize(
    "name, content, pairs",
    [
        ("de.po", PO, [(r"Open\tfile\n", r"Datei\töffnen\n"), *zip(
            ("%d file", "%d files"), ("%d Datei", "%d Dateien"), strict=True)]),
        ("memory.tmx", TMX, [("A <b>dog", "Ein Hund"), ("A cat", "Eine Katze")]),
        *(("memory.tmx", TMX.replace(' srclang="en"', header).replace("xml:lang", lang),
           [("A <b>dog", "Ein Hund"), ("A cat", "Eine Katze")])
          for header, lang in (("", "xml:lang"), (' srclang="*all*"', "lang"),
                               (' srclang="EN_us"', "xml:lang"))),
        ("memory.tmx", TMX.replace('="en"', '="de"', 1),
         [("Ein Hund", "A <b>dog"), ("Eine Katze", "A cat")]),
        ("app.xliff", XLIFF, [("A dog", "Ein Hund")]),
        ("app.xlf", XLIFF_2, [("A dog", "Ein Hund")]),
        ("app.ts", TS, [("Open", "Öffnen"), ("%n file(s)", "%n Datei"),
                        ("%n file(s)", "%n Dateien")]),
    ],
)  # fmt: skip
def test_finished_translations_are_pairs(tmp_path, name, content, pairs):
    path = tmp_path / name
    path.write_text(content, encoding="utf-8")
    assert read_pairs(path) == pairs


@pytest.mark.parametrize(
    "name, content, message",
    [
        ("de.po", 'msgid "Save"\nmsgstr ""\n', "none that is finished"),
        ("app.xliff", XLIFF.replace("<file", '<file target-language="fr"/><file'),
         "one target-language in all of its files, received de, fr. Export a"),
        ("app.xliff", "<xliff version='1.2'", "is not a .xliff file, or is damaged"),
        ("memory.tmx", TMX.replace("</body>", '<tu><tuv xml:lang="fr"><seg>x</seg></tuv></tu>'
                                   "</body>"), "two languages, received de, en, fr"),
        ("memory.tmx", TMX.replace('="en"', '="nl"', 1), "as srclang, received nl for de, en. Cor"),
        ("memory.tmx", '<tmx version="1.4"><header/><body/></tmx>', "none that is finished"),
    ],
)  # fmt: skip
def test_files_without_pairs_of_two_languages_are_refused(tmp_path, name, content, message):
    path = tmp_path / name
    path.write_text(content, encoding="utf-8")
    with pytest.raises(ValueError, match=message):
        read_pairs(path)


@pytest.mark.parametrize("is_source", [True, False])
@pytest.mark.parametrize("name, content", [("de.po", PO), ("memory.tmx", TMX), ("app.ts", TS),
                                           ("app.xliff.gz", XLIFF)])  # fmt: skip
def test_a_file_of_messages_is_no_side_of_aligned_files(tmp_path, name, content, is_source):
    catalog, other = tmp_path / name, tmp_path / "lines.de"
    data = content.encode()
    catalog.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    other.write_text("ein Hund\n" * content.count("\n"), encoding="utf-8")
    paths = (catalog, other) if is_source else (other, catalog)
    with pytest.raises(ValueError, match=f"{name} must have a sentence in each line, received a f"):
        read_pairs(*paths)


def test_a_compressed_file_of_messages_is_named(tmp_path):
    path = tmp_path / "de.po.gz"
    path.write_bytes(gzip.compress(PO.encode()))
    with pytest.raises(ValueError, match="must not be compressed, received .*po.gz. Decompress it"):
        read_pairs(path)


def test_several_files_become_one_text(tmp_path):
    for name, content in (("de.po", PO), ("memory.tmx", TMX)):
        (tmp_path / name).write_text(content, encoding="utf-8")
    sources = [tmp_path / "de.po", tmp_path / "memory.tmx"]
    found = split_text(sources, None, tmp_path / "text", valid=1, test=1)
    assert found.pairs == {"train": 3, "valid": 1, "test": 1}
    written = [pair for (file,) in found.files.values() for pair in read_pairs(file)]
    assert sorted(written) == sorted(pair for file in sources for pair in read_pairs(file))
    with pytest.raises(ValueError, match="one file, received 2 sources"):
        split_text(sources, tmp_path / "de.po", tmp_path / "again", valid=1, test=1)
