import sys

import pytest

from keras_transformer.evaluation import published_bleu, published_tokenizer, score

# Each text is followed by the output of Moses' Perl scripts, which papers have used: first
# tokenizer.perl with words split at hyphens; then, in lower case, normalize-punctuation.perl and
# tokenizer.perl.
BY_THE_SCRIPTS = {
    "de": [
        (
            'Ein Kind mit der Nummer "93" streicht seinen Bart.',
            "Ein Kind mit der Nummer &quot; 93 &quot; streicht seinen Bart.",  # As if short.
            "ein kind mit der nummer &quot; 93 &quot; streicht seinen bart .",
        ),
        (
            "Auf dem Schild steht: „Heute geschlossen.“",
            "Auf dem Schild steht : „ Heute geschlossen . “",
            "auf dem schild steht : &quot; heute geschlossen &quot; .",
        ),
        (
            'Ihr Imbiss\'s-Menü, z.B. Pommes & Cola -- 1,50 € –  für "Kinder", usw.',
            "Ihr Imbiss &apos; s ##AT##-##AT## Menü , z.B. Pommes &amp; Cola -- 1,50 € – für "
            "&quot; Kinder &quot; , usw.",
            "ihr imbiss &apos; s-menü , z.b. pommes &amp; cola -- 1,50 € - für "
            "&quot; kinder &quot; , usw.",
        ),
        (
            "  Der Mann...  trägt ein T-Shirt (rot); er läuft 10 % schneller!",
            "Der Mann ... trägt ein T ##AT##-##AT## Shirt ( rot ) ; er läuft 10 % schneller !",
            "der mann ... trägt ein t-shirt ( rot ) ; er läuft 10 % schneller !",
        ),
        (
            # A match uses up its letters, and ä is two bytes.
            "Nord-Süd-Bahn und a-ä-b sowie x-y-z - Ende",
            "Nord ##AT##-##AT## Süd ##AT##-##AT## Bahn und a ##AT##-##AT## ä ##AT##-##AT## b sowie "
            "x ##AT##-##AT## y-z - Ende",
            "nord-süd-bahn und a-ä-b sowie x-y-z - ende",
        ),
        (
            "Dr. Meier wohnt am 3. Mai-Platz 1-2-3.",
            "Dr. Meier wohnt am 3. Mai ##AT##-##AT## Platz 1 ##AT##-##AT## 2-3 .",
            "dr. meier wohnt am 3. mai-platz 1-2-3 .",
        ),
        ("Sie ruft: ’Los!’", "Sie ruft : ’ Los ! ’", "sie ruft : &quot; los ! &quot;"),
        (
            "Leute <b> | [x]",
            "Leute &lt; b &gt; &#124; &#91; x &#93;",
            "leute &lt; b &gt; &#124; &#91; x &#93;",
        ),
    ],
    "fr": [
        (
            "L'homme dit : « Aujourd'hui, il pleut. »",
            "L&apos; homme dit : « Aujourd&apos; hui , il pleut . »",
            "l&apos; homme dit : &quot; aujourd&apos; hui , il pleut . &quot;",
        ),
        (
            "Un enfant de l'école qui s'appelle \"Le Petit.\"",
            "Un enfant de l&apos; école qui s&apos; appelle &quot; Le Petit . &quot;",
            "un enfant de l&apos; école qui s&apos; appelle &quot; le petit &quot; .",
        ),
        (
            " Est-ce qu'elle l’a vu ?",
            "Est ##AT##-##AT## ce qu&apos; elle l ’ a vu ?",
            "est-ce qu&apos; elle l&apos; a vu ?",
        ),
    ],
    "en": [
        (
            "A man's cafe' is called \"The Sea.\"",
            "A man &apos;s cafe &apos; is called &quot; The Sea . &quot;",
            "a man &apos;s cafe &apos; is called &quot; the sea . &quot;",
        ),
        (
            "It costs $1,000.50, doesn't it?",
            "It costs $ 1,000.50 , doesn &apos;t it ?",
            "it costs $ 1,000.50 , doesn &apos;t it ?",
        ),
    ],
}
CASES = [(language, *case) for language, cases in BY_THE_SCRIPTS.items() for case in cases]


@pytest.mark.parametrize(("language", "text", "paper", "multi30k"), CASES)
def test_tokens_equal_those_of_the_moses_scripts(language, text, paper, multi30k):
    assert published_tokenizer("paper", language)(text) == paper
    assert published_tokenizer("multi30k", language)(text) == multi30k


def test_the_parts_of_a_compound_count_as_words():
    # "Ein T ##AT##-##AT## Shirt liegt hier ." has 7 tokens, of which all but "hier" are right; in
    # a row 4 of 6, 3 of 5 and 2 of 4.
    hypotheses, references = ["Ein T-Shirt liegt hier."], ["Ein T-Shirt liegt dort."]
    expected = 100 * (6 / 7 * 4 / 6 * 3 / 5 * 2 / 4) ** 0.25
    assert published_bleu(hypotheses, references, "paper", "de").bleu == pytest.approx(expected)


def test_only_the_score_of_the_paper_is_cased():
    hypotheses, references = ["ein hund rennt jetzt weg ."], ["Ein Hund rennt jetzt weg."]
    assert published_bleu(hypotheses, references, "multi30k", "de").bleu == pytest.approx(100)
    # Of "ein hund rennt jetzt weg ." 4 of 6 are right; in a row 3 of 5, 2 of 4 and 1 of 3.
    expected = 100 * (4 / 6 * 3 / 5 * 2 / 4 * 1 / 3) ** 0.25
    assert published_bleu(hypotheses, references, "paper", "de").bleu == pytest.approx(expected)


def test_published_scores_are_not_smoothed():
    hypotheses, references = ["a b c x d e"], ["a b c y d e"]
    assert published_bleu(hypotheses, references, "paper", "en").bleu == 0
    assert score(hypotheses, references).bleu > 0


def test_signatures_have_the_name_and_the_versions():
    texts = ["Ein Hund rennt sehr schnell."]
    signature = published_bleu(texts, texts, "paper", "de").signature
    assert signature.startswith("nrefs:1|case:mixed|eff:no|tok:paper.de|smooth:none|version:2.")
    assert "|sacremoses:0." in signature
    signature = published_bleu(texts, texts, "multi30k", "fr").signature
    assert signature.startswith("nrefs:1|case:lc|eff:no|tok:multi30k.fr|smooth:none|version:2.")


def test_sacrebleu_comes_first_and_does_not_depend_on_published_scores():
    texts = ["Ein T-Shirt liegt hier.", "Zwei Hunde."], ["Ein T-Shirt lag hier.", "Zwei Hunde."]
    alone, scores = score(*texts), score(*texts, ["multi30k", "paper"], "de")
    first, *others = str(scores).split("\n")
    assert first == str(alone)
    assert alone.published == {}
    for line, name in zip(others, ("multi30k", "paper"), strict=True):
        expected = published_bleu(*texts, name, "de")
        assert scores.published[name] == expected
        assert line == f"BLEU as {name} {expected.bleu:.2f} ({expected.signature})"
    assert scores.to_dict()["published"]["paper"].keys() == {"bleu", "signature"}


def test_unknown_names_a_missing_language_and_a_missing_package_are_errors(monkeypatch):
    with pytest.raises(ValueError, match="are paper and multi30k, received wmt. Choose one"):
        published_bleu(["a"], ["a"], "wmt", "de")
    with pytest.raises(ValueError, match="need the language of the text, which is missing"):
        score(["a"], ["a"], ["paper"])
    monkeypatch.setitem(sys.modules, "sacremoses", None)
    with pytest.raises(ImportError, match=r"pip install 'keras-transformer-mt\[published\]'"):
        published_bleu(["a"], ["a"], "paper", "de")
