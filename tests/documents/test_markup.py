"""Pages of HTML: which of their text is translated, and that tags and code stay."""

import random
import re
from html.parser import HTMLParser

import pytest

from tests.helpers.documents import each, find_kept, kept_texts, texts_of, translated


def test_pages_keep_their_values_and_encoding(tmp_path):
    page = '<meta charset="iso-8859-1"><p>Caf\u00e9</p><input type="hidden" value="One">'
    content, add = page.encode("iso-8859-1"), each(lambda text: f"{text}\u0448")
    found, _ = translated(tmp_path, ".html", content, add)
    assert found == page.replace("</p>", "&#1096;</p>").encode("iso-8859-1")


@pytest.mark.parametrize("page", ["<p>One<p>Two", "<p>One</p><div>Two", "<p>One</p>\n<p>"])
def test_a_page_whose_end_would_be_lost_is_refused(page, tmp_path):
    with pytest.raises(ValueError, match="each element must have its end"):
        texts_of(tmp_path, ".html", page)


def test_text_after_the_last_element_of_a_page_is_not_lost(tmp_path):
    kept_texts(tmp_path, ".html", "<p>One</p>\nTwo")


ATTRIBUTES = (
    'value="{&quot;id&quot;: 5}" data-x=\'{"a": "&lt;b> &amp;amp; c"}\' onclick="f(&quot;>&quot;)"',
    "value='&quot;&gt;&lt;script&gt;alert(1)&lt;/script&gt;' href=\"?a=1&amp;b=2&c=3\" hidden",
    'alt="5 &lt; 6 &amp; &quot;x&quot;" title="a &amp;lt; b" DATA-y=a=b lang=en @click="x  \n y" '
    "data-z='\"<' hidden",
    'placeholder="7 &lt; 8" aria-label="a > b"',
)


PAGE = '<meta name="description" content="&lt;b&gt; &amp;quot;">\n' + "".join(
    f"<input {x}/><P {x}>One <IMG {x}> <b  {x}>two</b > x\n</P\n><div {x}>three</div>\n".replace(
        "x\n", "x"
    )
    for x in ATTRIBUTES
)


def test_tags_of_pages_stay_byte_for_byte(tmp_path):
    seen = kept_texts(tmp_path, ".html", PAGE)
    in_words = [re.sub("<[^<>]*>", "", text) for text in seen if "</b>" in text]
    assert in_words == 4 * ["One  two x"]  # Each tag ends at its first >.
    change = lambda text: re.sub("One|two", "x", text)  # noqa: E731
    assert translated(tmp_path, ".html", PAGE, each(change))[0] == change(PAGE)


def test_a_translation_with_quotes_and_brackets_stays_in_its_attribute(tmp_path):
    found, _ = translated(tmp_path, ".html", PAGE, each(lambda text: f'{text}"<'))
    assert _Tags(found).tags == [
        (
            tag,
            [
                (name, f'{value}"<')
                if name in ("alt", "title", "placeholder", "aria-label")
                or (tag == "meta" and name == "content")
                else (name, value)
                for name, value in attributes
            ],
        )
        for tag, attributes in _Tags(PAGE).tags
    ]


class _Tags(HTMLParser):
    """The tags that a browser finds, with their attributes."""

    def __init__(self, page):
        super().__init__()
        self.tags = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, attrs))


HOSTILE = [
    "<script>alert(1)</script>",
    '<a href="https://evil.example">',
    "<a href=x onclick=y>",
    *("</p>", "<b", "<", ">", '"', "'", "&lt;", "&#60;", "&amp", "& ", "<!--", "-->", "<?", "]]>"),
    *('" onclick="x', "<b>", "</b>", '<i title="a &gt; b">', "</i>", "dog", "&amp;", "\n"),
]


@pytest.mark.parametrize("seed", range(30))
def test_a_translation_adds_no_tags_to_a_page(seed, tmp_path):
    choose = random.Random(seed)
    page = '<p title="t">&lt;u> <b>One</b> &amp; <i title="a > b">two</i></p><p>end</p>'
    before = _Tags(page).tags

    hostile = each(lambda _: "".join(choose.choices(HOSTILE, k=choose.randrange(12))))
    found = _Tags(translated(tmp_path, ".html", page, hostile)[0]).tags
    assert [tag for tag in found if tag[0] == "p"][1:] == [("p", [])]
    assert [name for name, _ in found[0][1]] == ["title"]
    for tag in found[1:]:
        assert found.count(tag) <= before.count(tag)


def test_signs_in_a_translation_are_text(tmp_path):
    found, _ = translated(tmp_path, ".html", "<p>1 < 2, AT&T</p>", each(lambda _: "<b & x"))
    assert found == "<p>&lt;b &amp; x</p>"


def test_code_and_entities_of_pages_stay(tmp_path):
    page = (
        '<div>One <script>if (a<b && c) x("</b>")</script> two<style>a > b {}</style></div>'
        "<div><script>var x = 'word'</script></div><p>a <?php if ($a->b) echo '<b>'; ?> c</p>"
        "<p>AT&T &foo; &lt;b&gt; &lt;i&gt; \u00e9</p>"
    )
    written = page.replace("&lt;b&gt; &lt;i&gt; \u00e9", "&#60;b&#x3E; &LT;i&gt &eacute;")
    seen = ["One", "two", "AT&T &foo; &lt;b&gt; &lt;i&gt; \u00e9"]
    assert texts_of(tmp_path, ".html", written) == (seen, page)


def test_code_of_pages_stays(tmp_path):
    page = (
        '<p>Run <code class="a">app</code> now.</p><pre>app <span>two</span>\n  three</pre>'
        '<p>Call <code><b class="pre">get item</b></code> in <span><code>x y</code></span>.</p>'
        '<ul><li><code>npm install</code></li><li> <code id="b">one</code>\n</li></ul>'
        "<table><tr><th><code>x</code></th><td><code>y</code> or</td></tr></table>"
        '<p><a href="x"><b><code>git push</code></b></a></p><summary><code>z</code></summary>'
    )
    seen = kept_texts(tmp_path, ".html", page)
    assert seen == [
        'Run <code class="a">app</code> now.',
        'Call <code><b class="pre">get item</b></code> in <span><code>x y</code></span>.',
        "<code>y</code> or",
    ]
    assert [find_kept(text) for text in seen] == [
        ['<code class="a">app</code>'],
        ['<code><b class="pre">get item</b></code>', "<code>x y</code>"],
        ["<code>y</code>"],
    ]


@pytest.mark.parametrize(
    ("page", "texts"),
    [
        ('<div translate="NO"><div>a</div> b <p title="x">c</p></div><p>One</p>', ["One"]),
        ('<div>One <div class="a notranslate"><div>a</div>b</div> two</div>', ["One", "two"]),
        ("<p>One <b translate=no>a <B>b</B ><script>c<d</script><br> e</b> two</p>", ["One . two"]),
        ('<p><span class="notranslate">a</span> one</p><p><i translate="no">b</i></p>', [". one"]),
        (
            '<p>One <img translate="no" alt="a"> two</p><p translate="no" title="b">c</p>',
            ["One  two"],
        ),
        ('<div translate=no><b class="notranslate">a</b> b</div><p class>One</p>', ["One"]),
        ("<p><b>One</b> <i translate=no><B>a</B ></i> <b>two</b></p>", ["One . two"]),
        ('<html lang="en"><style title="a">b</style><p>One</p></html>', ["One"]),
        ("<div data-translate-ignore><p>a</p></div><p>One</p>", ["One"]),
        ('<p>One <IMG  id="a"\n/> two <b>three</b x></p>', ["One  two three"]),
        ("<p>One <!-- a>--> two<![CDATA[b>]]></p>", ["One . two"]),
        ('<ul class="notranslate"><li>a</li></ul><p translate="yes">One</p>', ["One"]),
        ("<p>One <i translate=no>&eacute;&#233; &copy b</i></p><pre>&eacute;</pre>", ["One ."]),
        (
            "<p translate=no>&lt;&nbsp;&#x41;</p>&eacute;<p><code>&eacute;</code></p><p>One</p>",
            ["One"],
        ),
        ("<summary>One</summary><fieldset><legend>one</legend></fieldset>", ["One", "one"]),
        ("<p>One <![CDATA[a<b]]> two<![CDATA[]]></p><![CDATA[b]]>", ["One . two"]),
        ("<!-- a --><p><!-- b -->One <!-- c > d --> two<!x><!-- e --></p>", ["One . two"]),
        ("<p>One <!--[if IE]><b>a</b><![endif]--> two <![if b]>x<![endif]></p>", ["One . two .x"]),
        ("<p>10\xa0km\u2003or \u20095</p>", ["10\xa0km\u2003or \u20095"]),
    ],
)
def test_what_a_page_does_not_show_or_translate_stays(page, texts, tmp_path):
    seen = kept_texts(tmp_path, ".html", page)
    shown = [re.sub('<X id="[0-9]+"/>', ".", text) for text in seen]
    assert [re.sub("<[^<>]*>", "", text) for text in shown] == texts
    found, _ = translated(tmp_path, ".html", page, each(lambda text: text.replace("ne", "NE")))
    assert found == page.replace("One", "ONE").replace("one", "oNE")


def test_what_html_says_is_not_to_be_translated_is_protected_in_a_text():
    kept = ['<b translate="no">a b</b>', "<i class='a notranslate'>b</i>"]
    assert find_kept(f"a {' '.join(kept)} <i data-translate=no>c</i>") == kept
