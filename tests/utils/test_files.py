"""Files are written as a whole; what would take forever to read is refused."""

import os
from pathlib import Path

import pytest

from keras_transformer.utils.files import parse_yaml, read_json, whole_file


def test_a_whole_file_is_written_to_what_links_and_pipes_lead_to(tmp_path):
    link = tmp_path / "link.txt"
    link.symlink_to("data")
    reader, writer = os.pipe()
    with os.fdopen(reader) as pipe:
        for path in (link, Path(f"/dev/fd/{writer}")):
            with whole_file(path) as temporary:
                assert temporary.suffix == path.suffix
                temporary.write_text(path.name)
        os.close(writer)
        assert pipe.read() == path.name
    assert link.is_symlink() and (tmp_path / "data").read_text() == link.name
    assert {each.name for each in tmp_path.iterdir()} == {"link.txt", "data"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"a: &a [1]\nb: *a", "x.yml is not YAML, .* has aliases"),
        (b"a: " + b"[" * 30_000, "nested too deeply"),
        (b"a: " + b"[" * 30 + b"]" * 30, "nested too deeply"),
        (b"a: !!int ''", "is not YAML, or is damaged"),
        (b"a: !!python/object:os.system x", "could not determine a constructor"),
        (b"\xff", "is not YAML, or is damaged"),
        (b"[1]", "must hold options by name, received list"),
        (b"a: " + b"1" * 200_000, "must have at most 100,000 bytes"),
    ],
    ids=lambda value: str(value)[:20],
)
def test_yaml_that_is_no_plain_mapping_is_refused(text, message):
    with pytest.raises(ValueError, match=message):
        parse_yaml(text, "x.yml")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b'{"a":' * 100_000, "x.json is not JSON, .*recursion"),
        (b'{"a": ' + b"9" * 5000 + b"}", "is not JSON, .* integer string"),
        (b"{\xff}", "is not JSON, or is damaged"),
        (b"[1]", "must hold an object, received list"),
    ],
    ids=lambda value: str(value)[:20],
)
def test_json_that_is_no_object_is_refused(text, message, tmp_path):
    path = tmp_path / "x.json"
    path.write_bytes(text)
    with pytest.raises(ValueError, match=message):
        read_json(path)
    with pytest.raises(FileNotFoundError, match="missing.json does not exist"):
        read_json(tmp_path / "missing.json")
