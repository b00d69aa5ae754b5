"""Vocabularies of SentencePiece and WordPiece, trained on a few lines."""

import functools

import pytest
import sentencepiece

from keras_transformer.config.data import SYMBOL_KINDS
from keras_transformer.text import (
    SentencePieceTokenizer,
    WordPieceTokenizer,
    train_sentencepiece,
    train_word_piece,
)
from keras_transformer.text.patterns import PATTERNS
from keras_transformer.text.symbols import choose_symbols
from tests.helpers.invented import LINES

UNIGRAM = functools.partial(train_sentencepiece, model_type="unigram")

every_kind = pytest.mark.parametrize(
    "train", [train_sentencepiece, UNIGRAM, train_word_piece], ids=["bpe", "unigram", "wordpiece"]
)
every_function = pytest.mark.parametrize("train", [train_sentencepiece, train_word_piece])


def pieces(model):
    """Return the pieces of a vocabulary of either kind, as the file has them."""
    if model.startswith(b"<pad>"):
        return model.decode().split("\n")[:-1]
    processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    return [processor.id_to_piece(i) for i in range(processor.get_piece_size())]


@every_kind
@pytest.mark.parametrize("size", [284, 287, 291])
def test_the_vocabulary_has_the_size_special_ids_and_bytes_requested(train, size):
    names = pieces(train(LINES, size))
    assert len(names) == len(set(names)) == size
    assert names[:5] == ["<pad>", "<unk>", "<s>", "</s>", "<0x00>"]
    assert names[259] == "<0xFF>"


@every_kind
def test_the_same_lines_give_the_same_bytes(train):
    assert train(iter(LINES), 285) == train(LINES, 285)


@every_function
def test_character_coverage_omits_rare_characters(train):
    lines = ["abab" * 100] * 10 + ["abж"]
    assert "ж" in pieces(train(lines, 264))
    assert "ж" not in "".join(pieces(train(lines, 263, character_coverage=0.999)))
    with pytest.raises(ValueError, match="between 0.98 and 1, received 0.5"):
        train(LINES, 290, character_coverage=0.5)


@every_function
@pytest.mark.parametrize("lines", [[], [""], [" ", "\t"]])
def test_lines_without_text_are_rejected(train, lines):
    with pytest.raises(ValueError, match="lines must contain text .* received no text"):
        train(lines, 290)


@every_kind
def test_the_error_names_the_largest_vocab_size_which_works(train):
    with pytest.raises(
        ValueError, match=r"at most \d+ .* received 9000.*model\.vocab_size"
    ) as error:
        train(LINES, 9000)
    largest = int(str(error.value).split("at most ")[1].split()[0])
    assert len(pieces(train(LINES, largest))) == largest


@every_function
def test_the_error_names_the_smallest_vocab_size_which_works(train):
    # 4 control pieces, 256 bytes, and the characters a, b and the word mark.
    with pytest.raises(ValueError, match="at least 263 .* received 262.*data.character_coverage"):
        train(["ab ab", "ba"], 262)
    assert len(pieces(train(["ab ab", "ba"], 263))) == 263


def test_frequent_words_become_word_pieces_before_rare_ones():
    names = pieces(train_word_piece(["often often often seldom"] * 9 + ["often never"], 274))
    assert "▁often" in names
    assert "▁never" not in names


def test_word_marks_and_control_characters_of_the_text_are_no_word_pieces():
    names = pieces(train_word_piece(["a ▁ b▁c \0d\x07 ▁a"] * 9, 266))
    assert [name for name in names[260:] if len(name) == 1] == ["▁", "a", "b", "c", "d"]
    assert not [name for name in names if "▁" in name[1:]]


def test_word_pieces_spell_a_rare_character_in_bytes():
    covered = train_word_piece(["abab" * 10] * 100 + ["abж"], 263, character_coverage=0.999)
    assert WordPieceTokenizer(covered).tokenize(["ж"]).row_lengths().numpy() == [3]


def test_byte_fallback_spells_unseen_characters():
    def encoded(text, **options):
        model = train_sentencepiece(LINES, **options)
        return sentencepiece.SentencePieceProcessor(model_proto=model).encode(text)

    assert pieces(train_sentencepiece(LINES, 290))[4 + 0xD0] == "<0xD0>"
    assert encoded("ж", vocab_size=290)[-2:] == [4 + 0xD0, 4 + 0xB6]
    assert encoded("ж", vocab_size=40, byte_fallback=False)[-1] == 1


@pytest.mark.parametrize("joint", [" ", "\r"])
def test_a_long_line_teaches_what_its_sentences_do(joint):
    lines = LINES * 99
    assert pieces(train_sentencepiece([joint.join(lines)], 290)) == pieces(
        train_sentencepiece(lines, 290)
    )


def test_a_long_line_without_spaces_is_learned_too():
    assert "猫猫" in pieces(train_sentencepiece(["猫" * 100_000], 263))


def test_training_is_quiet(capfd):
    train_sentencepiece(LINES, 290)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"model_type": "word"}, "must be 'bpe' or 'unigram', received 'word'"),
        ({"vocab_size": 0}, "vocab_size must be positive, received 0"),
        *(
            ({"language_tags": [tag]}, f"must be such as >>de<<, received '{tag}'")
            for tag in ("de", ">>de", ">>d e<<", ">><<")
        ),
        *(
            ({"user_symbols": ["%s", symbol]}, "user_symbols must be printable, .* Leave it out")
            for symbol in ("", "a b", "▁", "</s>", "<0x41>", ">>de<<", "\t", "\u00a0")
        ),
        ({"normalization": "nfd"}, "one of nfkc, nfc, identity, received 'nfd'"),
        ({"normalization": "identity", "byte_fallback": False}, "must have byte_fallback"),
    ],
)
def test_wrong_arguments_of_sentencepiece_are_rejected(arguments, message):
    with pytest.raises(ValueError, match=message):
        train_sentencepiece(LINES, **{"vocab_size": 290} | arguments)


def test_an_error_while_reading_the_lines_is_passed_on():
    def lines():
        yield "the dog"
        raise OSError("disk on fire")

    with pytest.raises(RuntimeError, match="disk on fire"):
        train_sentencepiece(lines(), 290)


@pytest.mark.parametrize("model_type", ["bpe", "unigram"])
def test_language_tags_come_after_eos_and_are_never_a_part_of_text(model_type):
    tags = [">>fr<<", ">>de<<", ">>fr<<"]
    lines = [*LINES, ">>de<< the dog"]
    model = train_sentencepiece(lines, 285, model_type=model_type, language_tags=tags)
    tokenizer = SentencePieceTokenizer(model)
    assert tokenizer.vocab_size == 285
    assert tokenizer.language_tags == [">>fr<<", ">>de<<"]
    assert tokenizer.id_to_piece([4, 5]) == [">>fr<<", ">>de<<"]
    ids = tokenizer.tokenize(
        ["the cat", ">>de<< the cat", "the >>de<< cat", ">>de<< >>fr<< the cat"]
    )
    plain, first, inside, twice = ids.to_list()
    assert first == [5, *plain]
    assert not {4, 5} & set(inside)
    assert twice[0] == 5 and not {4, 5} & set(twice[1:])
    assert [text.decode() for text in tokenizer.detokenize(ids).numpy()] == [
        *("the cat", "the cat", "the >>de<< cat", ">>fr<< the cat")
    ]


SYMBOLS = ["%s", "%", "<b>", "</b>", "{name}", "_", "&", "…"]


@pytest.mark.parametrize("normalization", ["nfkc", "nfc", "identity"])
@pytest.mark.parametrize("model_type", ["bpe", "unigram"])
def test_user_symbols_are_single_tokens_and_all_other_placeholders_come_back(
    model_type, normalization
):
    lines = [*LINES, "copy %s to <b>{name}</b>", "_file &open"] * 3
    model = train_sentencepiece(
        lines, 300, model_type=model_type, user_symbols=SYMBOLS, normalization=normalization
    )
    tokenizer = SentencePieceTokenizer(model)
    assert tokenizer.user_symbols == SYMBOLS
    assert tokenizer.id_to_piece(range(4, 4 + len(SYMBOLS))) == SYMBOLS
    text = "the%scat <b>{name}</b> _f&o%d %-5.2f {other:>{w}} <c> …"
    pieces = tokenizer.id_to_piece(tokenizer.tokenize([text])[0].numpy())
    assert [piece for piece in pieces if piece in SYMBOLS] == [
        *("%s", "<b>", "{name}", "</b>", "_", "&", "%", "%", "…")
    ]
    assert not [p for p in pieces if p not in SYMBOLS and set(p) & set("%_&")]
    assert tokenizer.detokenize(tokenizer.tokenize([text])).numpy()[0].decode() == text
    if model_type == "bpe":
        [again] = tokenizer.drop_merges(tokenizer.tokenize([text]).to_list(), rate=1, seed=1)
        assert {i for i in again if i < 12} == {
            SYMBOLS.index(p) + 4 for p in pieces if p in SYMBOLS
        }
        assert tokenizer.decode([again]) == [text]


def test_symbols_that_the_text_does_not_have_are_named(caplog):
    choose_symbols(["~Save %s", "%s"], ["~", "__", "printf", "html", "re:%.", "re:[A-Z]{2}"], 9)
    assert [record.getMessage() for record in caplog.records] == [
        "the text has none of these user symbols: __, re:[A-Z]{2}"
    ]


def test_the_most_frequent_matches_become_symbols():
    lines = ["%s of %s: %d", "~Save <b>%s</b>, %5.2f --long", "%d <s>a</s> {0, number}"] * 2
    kinds = ["~", "printf", "html", "icu", "re:--[a-z]+", "__"]
    assert choose_symbols(lines, kinds, most=100) == {
        **{"~": 2, "__": 0},
        **{"%s": 6, "%d": 4, "<b>": 2, "</b>": 2, "%5.2f": 2, "--long": 2},
    }
    assert list(choose_symbols(lines, kinds, most=2)) == ["~", "__", "%s", "%d"]
    assert choose_symbols(lines[:3], ["html"], most=100) == {}  # Each occurs once.
    assert choose_symbols([f"<a href='{'x' * 40}'>"] * 2, ["html"], most=100) == {}
    assert set(SYMBOL_KINDS) == set(PATTERNS)
