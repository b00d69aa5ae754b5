import pytest

from keras_transformer.text import WordPieceTokenizer, train_word_piece

LINES = ["the dog sees the cat .", "the cat sees 20 small dogs .", "a small house (new) stands ."]


def pieces(model):
    return model.decode().split("\n")[:-1]


@pytest.mark.parametrize("size", [284, 290, 293])
def test_the_vocabulary_has_the_size_and_special_ids_requested(size):
    names = pieces(train_word_piece(LINES, size))
    assert len(names) == len(set(names)) == size
    assert names[:5] == ["<pad>", "<unk>", "<s>", "</s>", "<0x00>"]
    assert names[259:261] == ["<0xFF>", "▁"]


def test_frequent_words_become_pieces_before_rare_ones():
    names = pieces(train_word_piece(["often often often seldom"] * 9 + ["often never"], 274))
    assert "▁often" in names
    assert "▁never" not in names


def test_the_same_lines_give_the_same_bytes():
    assert train_word_piece(iter(LINES), 290) == train_word_piece(LINES, 290)


def test_character_coverage_omits_rare_characters():
    lines = ["abab" * 10] * 100 + ["abж"]
    assert "ж" in pieces(train_word_piece(lines, 264))
    covered = train_word_piece(lines, 263, character_coverage=0.999)
    assert "ж" not in "".join(pieces(covered))
    assert WordPieceTokenizer(covered).tokenize(["ж"]).row_lengths().numpy() == [3]


def test_word_marks_and_control_characters_of_the_text_are_spelled_in_bytes():
    names = pieces(train_word_piece(["a ▁ b▁c \0d\x07 ▁a"] * 9, 266))
    assert [name for name in names[260:] if len(name) == 1] == ["▁", "a", "b", "c", "d"]
    assert not [name for name in names if "▁" in name[1:]]


@pytest.mark.parametrize("lines", [[], [""], [" ", "\t"]])
def test_lines_without_text_are_rejected(lines):
    with pytest.raises(ValueError, match="lines must contain text .* received none"):
        train_word_piece(lines, 290)


def test_the_error_names_the_largest_vocab_size_which_works():
    with pytest.raises(
        ValueError, match=r"at most \d+ .* received 9000.*model\.vocab_size"
    ) as error:
        train_word_piece(LINES, 9000)
    largest = int(str(error.value).split("at most ")[1].split()[0])
    assert len(pieces(train_word_piece(LINES, largest))) == largest


def test_the_error_names_the_smallest_vocab_size_which_works():
    # 4 control pieces, 256 bytes, the word mark, a and b.
    with pytest.raises(ValueError, match="at least 263 .* received 262.*data.character_coverage"):
        train_word_piece(["ab ab", "ba"], 262)
    assert len(pieces(train_word_piece(["ab ab", "ba"], 263))) == 263


def test_a_wrong_character_coverage_is_rejected():
    with pytest.raises(ValueError, match="between 0.98 and 1, received 0.5"):
        train_word_piece(LINES, 290, character_coverage=0.5)
