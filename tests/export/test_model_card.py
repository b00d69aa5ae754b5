import dataclasses
import json
import shlex

import pytest
import yaml
from markdown_it import MarkdownIt

from keras_transformer.config.record import ExportRecord
from keras_transformer.export.model_card import model_card


@pytest.fixture(scope="module")
def facts(described):
    return ExportRecord.read(described.version).to_dict()


@pytest.fixture(scope="module")
def tokens(described):
    return MarkdownIt().enable("table").parse((described.version / "README.md").read_text())


def test_export_json_says_how_the_model_was_made(described, facts):
    assert {key: facts[key] for key in described.facts} == described.facts
    assert facts["license"] == "MIT"
    assert facts["compiled"] is False
    assert facts["precision"] == "float32"
    assert facts["parameters"] == described.translator.model.count_params()
    assert facts["vocabulary"] == {
        "tokenizer": "SentencePieceTokenizer",
        "target_tokenizer": "SentencePieceTokenizer",
        "source": 380,
        "target": 380,
        "shared": True,
    }
    assert facts["decoding"]["beam_size"] == 3
    assert facts["decoding"]["num_hypotheses"] == 2
    assert facts["model"]["d_ff"] == 20
    assert {"keras", "tensorflow", "tensorflow-text"} <= set(facts["versions"])
    assert set(facts["signatures"]["score"]["inputs"]) == {"text", "translation"}
    assert facts["signatures"]["n_best"]["outputs"] == {
        "translations": "string [-1, 2]",
        "scores": "float32 [-1, 2]",
    }


def test_the_card_mentions_rounding_only_for_low_precision(described):
    record = ExportRecord.read(described.version)
    rounding = "up to rounding, which may change words with the number of rows"
    assert rounding not in model_card("toy", record)
    assert rounding in model_card("toy", dataclasses.replace(record, precision="bfloat16"))


def test_the_card_begins_with_the_description(facts, tokens):
    first = next(x.content for x in tokens[3:] if x.type == "inline")
    assert first == facts["description"] == "Letters, to be *spelled*."


def test_the_card_begins_with_license_and_attribution(described):
    record = ExportRecord.read(described.version)
    facts = {"license": "cc-by-4.0", "attribution": "OPUS-MT", "languages": ["en", "de"]}
    card = model_card("toy", dataclasses.replace(record, facts=facts, device="gpu"))
    assert ("device: gpu" in card, "device" in model_card("toy", record)) == (True, False)
    assert card.startswith("# toy\n\nLicense: cc-by-4.0\n\nAttribution: OPUS-MT\n\n")
    assert "languages:\n- en\n- de\n" in card


def test_the_card_has_the_content_of_the_record(facts, tokens):
    headings = [tokens[i + 1].content for i, x in enumerate(tokens) if x.type == "heading_open"]
    assert headings[:4] == ["toy model", "Signatures", "Export", "Scores"]
    sections = [yaml.safe_load(x.content) for x in tokens if x.info == "yaml"]
    assert dict(zip(headings[2:], sections, strict=True)) == {
        "Export": {key: facts[key] for key in ("command", "compiled", "precision", "parameters")},
        **{
            key.capitalize(): facts[key]
            for key in ("scores", "vocabulary", "model", "decoding", "versions")
        },
    }


def test_the_card_has_a_row_and_a_request_for_each_signature(facts, tokens):
    cells = [tokens[i + 1].content for i, x in enumerate(tokens) if x.type == "td_open"]
    assert [cell.strip("`") for cell in cells[::4]] == list(facts["signatures"])
    assert cells[:3] == ["`serving_default`", "`text` string [-1]", "`translation` string [-1]"]
    assert cells[3] == "Return the translations, string [B], of texts, string [B]."
    (commands,) = (x.content for x in tokens if x.info == "bash")
    for command, name in zip(commands.splitlines(), facts["signatures"], strict=True):
        curl, option, body, url = shlex.split(command)
        assert (curl, option) == ("curl", "-d")
        assert url == "localhost:8501/v1/models/toy%20model:predict"
        request = json.loads(body)
        assert request["signature_name"] == name
        (instance,) = request["instances"]
        inputs = set(instance) if isinstance(instance, dict) else {"text"}
        assert inputs == set(facts["signatures"][name]["inputs"])
