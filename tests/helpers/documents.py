"""Files that are translated in a test, and the texts that are found in them."""

import io
import re

from keras_transformer.documents.files import KEPT, translate_file

PO = r"""# A header.
msgid ""
msgstr ""
"Content-Type: text/plain; charset=UTF-8\n"
"Plural-Forms: nplurals=3; plural=(n > 2);\n"

# A note.
#. extracted
#: src/a.c:10
#, c-format
msgid "Copied %s files. Done."
msgstr ""

#: src/a.c:20
msgid "%d file"
msgid_plural "%d files"
msgstr[0] ""
msgstr[1] ""
msgstr[2] ""

msgctxt "menu"
msgid "Open"
msgstr "Auf"

#~ msgid "Obsolete"
#~ msgstr "Alt"
"""
XLIFF = """<?xml version="1.0" encoding="UTF-8"?>
<xliff xmlns="urn:oasis:names:tc:xliff:document:1.1" version="1.1">
  <file original="x" source-language="en" target-language="de" datatype="plaintext">
    <body>
      <trans-unit id="1">
        <note>A note.</note>
        <source>Plain &amp; simple.</source>
      </trans-unit>
      <trans-unit id="2">
        <source>Some <g id="1">bold</g> text.</source>
      </trans-unit>
    </body>
  </file>
</xliff>
"""
XLIFF_2 = """<?xml version="1.0" encoding="UTF-8"?>
<xliff xmlns="urn:oasis:names:tc:xliff:document:2.0" version="2.0" srcLang="en" trgLang="de">
  <file id="f1">
    <unit id="1">
      <segment><source>Plain &amp; simple.</source></segment>
      <ignorable><source> </source></ignorable>
      <segment><source>Some <pc id="1">bold</pc> text.</source></segment>
    </unit>
  </file>
</xliff>
"""


def each(change):
    """Return a translation of texts, which changes each of them alone."""
    return lambda texts: [*map(change, texts)]


def translated(folder, suffix, content, translate, **options):
    """Return a translated file, as text or as bytes like `content`, and what failed."""
    path = folder / f"file{suffix}"
    is_text = isinstance(content, str)
    path.write_bytes(content.encode() if is_text else content)
    output = io.BytesIO()
    failures = translate_file(path, output, translate, **options)
    found = output.getvalue()
    return found.decode() if is_text else found, failures


def texts_of(folder, suffix, content, **options):
    """Return the texts of a file, and what it becomes if they stay as they are."""
    texts = []

    def keep(found):
        texts.extend(found)
        return found

    written, failures = translated(folder, suffix, content, keep, **options)
    assert failures == []
    return texts, written


def kept_texts(folder, suffix, content):
    """Return the texts of a file, which does not change if they stay as they are."""
    texts, written = texts_of(folder, suffix, content)
    assert written == content
    return texts


def find_kept(text):
    """Return what a translation keeps in a text of a file that is no plain text."""
    return re.findall(KEPT.partition("re:")[2], text)
