import pytest
import sentencepiece

from keras_transformer.text import SentencePieceTokenizer, train_sentencepiece

LINES = ["the dog sees the cat .", "the cat sees a small dog .", "a small house stands here ."]


def processor(model):
    return sentencepiece.SentencePieceProcessor(model_proto=model)


@pytest.mark.parametrize("model_type", ["bpe", "unigram"])
def test_the_vocabulary_has_the_size_and_special_ids_requested(model_type):
    trained = processor(train_sentencepiece(LINES, 280, model_type=model_type))
    assert trained.get_piece_size() == 280
    assert [trained.id_to_piece(i) for i in range(4)] == ["<pad>", "<unk>", "<s>", "</s>"]
    assert trained.decode(trained.encode("the cat .")) == "the cat ."


def test_byte_fallback_spells_unseen_characters():
    assert processor(train_sentencepiece(LINES, 290)).encode("ж", out_type=str) == [
        *("▁", "<0xD0>", "<0xB6>")
    ]
    without = processor(train_sentencepiece(LINES, 40, byte_fallback=False))
    assert without.encode("ж")[-1] == without.unk_id() == 1


def test_character_coverage_omits_rare_characters():
    lines = ["abab" * 100] * 10 + ["abж"]
    assert "ж" in processor(train_sentencepiece(lines, 264)).encode("ж", out_type=str)
    covered = processor(train_sentencepiece(lines, 263, character_coverage=0.999))
    assert "ж" not in covered.encode("ж", out_type=str)


@pytest.mark.parametrize("model_type", ["bpe", "unigram"])
def test_the_same_lines_give_the_same_bytes(model_type):
    first = train_sentencepiece(LINES, 280, model_type=model_type)
    assert train_sentencepiece(iter(LINES), 280, model_type=model_type) == first


def test_training_is_quiet(capfd):
    train_sentencepiece(LINES, 290)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("lines", [[], [""], [" ", "\t"]])
def test_lines_without_text_are_rejected(lines):
    with pytest.raises(ValueError, match="lines must contain text .* received none"):
        train_sentencepiece(lines, 290)


@pytest.mark.parametrize("model_type", ["bpe", "unigram"])
def test_the_error_names_the_largest_vocab_size_which_works(model_type):
    with pytest.raises(
        ValueError, match=r"at most \d+ .* received 9000.*model\.vocab_size"
    ) as error:
        train_sentencepiece(LINES, 9000, model_type=model_type)
    largest = int(str(error.value).split("at most ")[1].split()[0])
    model = train_sentencepiece(LINES, largest, model_type=model_type)
    assert processor(model).get_piece_size() == largest


def test_the_error_names_the_smallest_vocab_size_which_works():
    # 4 control pieces, 256 bytes, and the characters a, b and the word mark.
    with pytest.raises(ValueError, match="at least 263 .* received 262.*data.character_coverage"):
        train_sentencepiece(["ab ab", "ba"], 262)
    assert processor(train_sentencepiece(["ab ab", "ba"], 263)).get_piece_size() == 263


def test_wrong_arguments_are_rejected():
    with pytest.raises(ValueError, match="must be 'bpe' or 'unigram', received 'word'"):
        train_sentencepiece(LINES, 290, model_type="word")
    with pytest.raises(ValueError, match="between 0.98 and 1, received 0.5"):
        train_sentencepiece(LINES, 290, character_coverage=0.5)
    with pytest.raises(ValueError, match="vocab_size must be positive, received 0"):
        train_sentencepiece(LINES, 0)


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
    model = train_sentencepiece(lines, 280, model_type=model_type, language_tags=tags)
    tokenizer = SentencePieceTokenizer(model)
    assert tokenizer.vocab_size == 280
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


@pytest.mark.parametrize("tag", ["de", ">>de", ">>d e<<", ">><<"])
def test_other_tags_are_refused(tag):
    with pytest.raises(ValueError, match=f"must be such as >>de<<, received '{tag}'"):
        train_sentencepiece(LINES, 290, language_tags=[tag])
