import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keras_transformer.pretrained.vocabulary_file import read_vocabulary

PIECES = st.lists(st.text(st.characters(exclude_categories=["Cs"])), min_size=1, unique=True)


def read(tmp_path, name, text):
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode("utf-8"))
    return read_vocabulary(path)


def test_keys_of_yaml_stay_text(tmp_path):
    keys = ["yes", "~", "null", "1e3", "0x1F", "2001-01-01", "▁the", "-", "::", "a b", "No", "1"]
    text = "".join(f"{key}: {number}\n" for number, key in enumerate(keys))
    assert read(tmp_path, "v.yml", text) == keys


def test_quotes_escapes_and_long_keys(tmp_path):
    text = '"": 0\n"\\"\\\\": 1\n\'it\'\'s: #\': 2\n? "long"\n: 3\n"\\xe4\\u2581\\U0001f600": 4\n'
    expected = ["", '"\\', "it's: #", "long", "ä▁😀"]
    assert read(tmp_path, "v.yml", text) == expected
    assert read(tmp_path, "w.yml", text.replace("\n", "\r\n")) == expected


@given(PIECES)
def test_json_and_yaml_give_the_pieces_back(tmp_path_factory, pieces):
    folder = tmp_path_factory.mktemp("vocabulary")
    ids = {piece: number for number, piece in enumerate(pieces)}
    assert read(folder, "v.json", json.dumps(ids)) == pieces
    assert read(folder, "w.json", json.dumps(ids, ensure_ascii=False, indent=1)) == pieces
    lines = "".join(f"{json.dumps(piece)}: {number}\n" for piece, number in ids.items())
    assert read(folder, "v.yml", lines) == pieces


def test_text_with_and_without_scores(tmp_path):
    assert read(tmp_path, "v.vocab", "<unk>\t0\n▁a\t-3.5\n") == ["<unk>", "▁a"]
    assert read(tmp_path, "v.txt", "[PAD]\n#\u2028\n") == ["[PAD]", "#\u2028"]


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("v.yml", "a: 0\nb: 2\n", "line 2: must follow id 1"),
        ("v.yml", "a: 0\nb: 0\n", "line 2: must have its own id"),
        ("v.yml", "a: 0\na: 1\n", "line 2: must have its own piece"),
        ("v.yml", "a: 0\nb: 1.5\n", "line 2: must have an integer id"),
        ("v.yml", "a: 0\nb\n", "line 2: must be `PIECE: ID`"),
        ("v.yml", "a: 0\n*b: 1\n", "line 2: must have quotes"),
        ("v.yml", '"\\q": 0\n', "line 1: must hold escapes"),
        ("v.yml", '"\\Uffffffff": 0\n', "line 1: must hold escapes"),
        ("v.yml", "a" + " " * 300_000 + "b\n", "line 1: must be `PIECE: ID`"),  # Not in minutes.
        ("v.yml", '? "a"\nb: 0\n', "line 2: must be `: ID`"),
        ("v.yml", '? "a"', "line 1: must be `: ID`"),
        ("v.yml", b"a: 0\n\xff: 1\n", "line 2: must be UTF-8"),
        ("v.yml", "", "line 1: must hold a piece"),
        ("v.json", '{"a": 0,\n"a": 1}', "line 2: must have its own piece"),
        ("v.json", '{"a": 0,\n"b": 2}', "line 2: must follow id 1"),
        ("v.json", '{"a": 0,\n"b": true}', "line 2: must have an integer id"),
        ("v.json", '{"a": 0,\n', "line 2: must be JSON"),
        ("v.json", '["a"]', "line 1: must map"),
        ("v.json", '{"\\ud800": 0}', "line 1: must hold Unicode"),
        ("v.vocab", "a\t0\nb\n", "line 2: must be a piece, a tab"),
        ("v.txt", "a\n\nb\n", "line 2: must hold a piece"),
        ("v.txt", "a\na\n", "line 2: must have its own piece"),
    ],
)
def test_errors_name_file_line_and_rule(tmp_path, name, text, message):
    with pytest.raises(ValueError) as error:
        read(tmp_path, name, text)
    assert f"{name}, {message}" in str(error.value)
