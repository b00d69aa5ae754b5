import dataclasses
import json

import pytest

from keras_transformer.config.record import ExportRecord
from tests.helpers.tiny import ROOT

RECORD = ExportRecord(
    facts={"command": "export", "scores": {"bleu": 37.7}},
    signatures={"serving_default": {"does": "x", "inputs": {"text": "s"}, "outputs": {}}},
    compiled=True,
    precision="bfloat16",
    parameters=11,
    vocabulary={"source": 380},
    model={"d_model": 12},
    decoding={"beam_size": 3},
    versions={"keras": "3"},
)


def test_what_is_written_is_read(tmp_path):
    path = RECORD.write(tmp_path)
    assert path == tmp_path / "assets.extra" / "export.json"
    assert ExportRecord.read(tmp_path) == RECORD


def test_the_facts_come_first_at_the_same_level(tmp_path):
    keys = list(json.loads(RECORD.write(tmp_path).read_text(encoding="utf-8")))
    fields = [field.name for field in dataclasses.fields(ExportRecord) if field.name != "facts"]
    assert keys == ["command", "scores", *fields]


@pytest.mark.parametrize(
    "version",
    ["saved_models/multi30k_en_de/1", "tests/export/golden/1"],
    ids=lambda path: path.split("/")[-2],
)
def test_records_of_earlier_exports_are_read_whole(version):
    record = ExportRecord.read(ROOT / version)
    written = json.loads((ROOT / version / ExportRecord.FILE).read_text(encoding="utf-8"))
    assert written.items() <= record.to_dict().items()
    assert not record.compiled
    assert record.precision == "float32"  # The golden model's does not say so.


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'{"compiled": tru', "export.json is damaged: Expecting value"),
        (b"[]", "export.json is damaged: expected an object, received list"),
        (b"\xff", "export.json is damaged: .*utf-8"),
        (b'{"compiled": "yes"}', "is damaged: compiled must be of type bool, received 'yes'"),
    ],
)
def test_a_damaged_record_is_named(content, message, tmp_path):
    RECORD.write(tmp_path).write_bytes(content)
    with pytest.raises(ValueError, match=message):
        ExportRecord.read(tmp_path)


def test_a_missing_record_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="export.json does not exist: .* Export it again"):
        ExportRecord.read(tmp_path)
