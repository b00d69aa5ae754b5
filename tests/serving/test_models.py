"""Several models in a server, as a file for TensorFlow Serving lists them."""

import shutil
import time
from pathlib import Path

import pytest
from grpc_health.v1.health_pb2 import HealthCheckResponse
from tensorflow_serving.apis import get_model_metadata_pb2, get_model_status_pb2

from keras_transformer.export.serving_files import write_serving_files
from keras_transformer.serving.settings import parse_model_config
from tests.serving.conftest import grpc_error, samples, serving, wait

SERVING, NOT_SERVING = HealthCheckResponse.SERVING, HealthCheckResponse.NOT_SERVING
LATEST = "model_version_policy { latest { num_versions: 2 } }"


def entry(name, base, more=""):
    return f'config {{ name: "{name}" base_path: "{base}" model_platform: "tensorflow" {more} }}'


def write(path, *entries):
    """Write a file of models as an editor does."""
    temporary = path.with_suffix(".new")
    temporary.write_text(f"model_config_list {{ {' '.join(entries)} }}")
    temporary.rename(path)


def start(path, **settings):
    models = parse_model_config(path.read_bytes(), path)
    timing = {"poll_seconds": 0.05, "retry_seconds": 0.3}
    return serving(models=models, model_config_file=path, **timing, **settings)


@pytest.fixture
def folder(exports, tmp_path):
    """A directory of the models `one`, with versions 1 and 2, and `two`, with 1."""
    for name, number in (("one", 1), ("one", 2), ("two", 1)):
        shutil.copytree(exports[number], tmp_path / name / str(number))
    return tmp_path


def answer(client, model):
    status, body = client.post({"inputs": ["a"]}, model)
    return body["outputs"][0] if status == 200 else status


def over_grpc(client, **options):
    return client.predict({"text": ["a"]}, **options)["translation"][0].decode()


@pytest.mark.parametrize("batching", [False, True])
def test_each_model_has_its_versions_and_labels(batching, folder):
    labels = 'version_labels { key: "stable" value: 1 } version_labels { key: "next" value: 7 }'
    path = folder / "models.config"
    write(path, entry("one", folder / "one", f"{LATEST} {labels}"), entry("two", folder / "two"))
    with start(path, batching=batching) as client:
        for model, text in {
            "one": "2:A",
            "one/versions/1": "1:A",
            "one/labels/stable": "1:A",
            "one/labels/next": 404,  # It has no such version yet.
            "one/labels/none": 400,
            "two": "1:A",
            "two/labels/stable": 400,
            "two/versions/2": 404,
        }.items():
            assert answer(client, model) == text, model
        assert over_grpc(client, name="one") == "2:A"
        assert over_grpc(client, name="one", version_label="stable") == "1:A"
        assert over_grpc(client, name="two", version=1) == "1:A"
        wrong = grpc_error(over_grpc, client, name="one", version_label="none")
        assert wrong == ("INVALID_ARGUMENT", "Unrecognized servable version label: none")
        absent = grpc_error(over_grpc, client, name="one", version_label="next")
        assert absent == ("NOT_FOUND", "Servable not found for request: Specific(one, 7)")

        stable = {"name": "one", "version_label": "stable"}
        request = get_model_status_pb2.GetModelStatusRequest(model_spec=stable)
        (state,) = client.models.GetModelStatus(request).model_version_status
        assert (state.version, state.state) == (1, state.AVAILABLE)
        _, states = client.get("/v1/models/one")
        assert [one["version"] for one in states["model_version_status"]] == ["2", "1"]
        request = get_model_metadata_pb2.GetModelMetadataRequest(
            model_spec=stable, metadata_field=["signature_def"]
        )
        assert client.stub.GetModelMetadata(request).model_spec.version.value == 1
        _, metadata = client.get("/v1/models/one/labels/stable/metadata")
        assert metadata["model_spec"] == {"name": "one", "signature_name": "", "version": "1"}
        about = {"name": "one", "version": "2", "models": ["one", "two"]}  # The first.
        assert client.get("/page/model.json")[1] == about
        assert client.get("/page/model.json?name=two")[1]["name"] == "two"
        assert client.get("/page/model.json?name=three")[0] == 404
        counts = samples(client, "tensorflow:serving:request_count")
        assert counts["REST", "one", "OK", "1"] == 2
        assert counts["GRPC", "two", "OK", "1"] == 1


@pytest.mark.parametrize(
    "policy, served",
    [
        ("", [2]),
        ("latest {}", [2]),
        ("latest { num_versions: 5 }", [2, 1]),
        ("all {}", [2, 1]),
        ("specific { versions: 1 }", [1]),
        ("specific { versions: 1 versions: 7 }", [1]),
    ],
)
def test_a_policy_chooses_the_versions(policy, served, folder):
    path = folder / "models.config"
    write(path, entry("one", folder / "one", f"model_version_policy {{ {policy} }}"))
    with start(path) as client:
        found = [number for number in (3, 2, 1) if answer(client, f"one/versions/{number}") != 404]
    assert found == served


def test_the_file_is_followed(folder, exports):
    path, label = folder / "models.config", 'version_labels {{ key: "stable" value: {} }}'
    specific = "model_version_policy {{ specific {{ versions: {} }} }}"
    write(path, entry("one", folder / "one", specific.format(1) + label.format(1)))
    with start(path) as client:
        assert answer(client, "one/labels/stable") == "1:A"
        write(
            path,
            entry("one", folder / "one", specific.format(2) + label.format(2)),
            entry("two", folder / "two"),
        )
        wait(lambda: answer(client, "two") == "1:A")
        assert answer(client, "one/labels/stable") == "2:A"
        assert answer(client, "one/versions/1") == 404
        wait(lambda: client.health("two") == SERVING)

        path.write_text("model_config_list { config { name: 'one' }")  # Changes nothing.
        time.sleep(0.3)
        assert (answer(client, "one"), answer(client, "two")) == ("2:A", "1:A")

        shutil.copytree(exports[2], folder / "elsewhere" / "1")
        write(path, entry("two", folder / "elsewhere"))
        wait(lambda: answer(client, "two") == "2:A")
        assert answer(client, "one") == 404
        assert client.get("/v1/models/one")[0] == 404
        wait(lambda: client.health("one") == NOT_SERVING)
        assert client.health("") == SERVING


def test_a_server_without_a_version_is_alive_but_not_ready(folder):
    path = folder / "models.config"
    write(path, entry("one", folder / "one"), entry("two", folder / "two"))
    with start(path) as client:
        health = lambda: [client.health(name) for name in ("", "one", "two")]  # noqa: E731
        assert client.get("/readyz") == (200, {"ready": True, "models": {"one": True, "two": True}})
        assert health() == 3 * [SERVING]
        shutil.rmtree(folder / "two" / "1")
        wait(lambda: client.get("/readyz")[0] == 503)
        assert client.get("/readyz")[1] == {"ready": False, "models": {"one": True, "two": False}}
        assert client.get("/livez") == (200, b"ok")
        status, states = client.get("/v1/models/two")
        assert (status, states["model_version_status"][0]["state"]) == (503, "END")
        assert client.get("/v1/models/two/versions/1")[0] == 200  # Its state is known.
        assert client.get("/v1/models/one")[0] == 200
        wait(lambda: health() == [NOT_SERVING, SERVING, NOT_SERVING])


def test_versions_that_fail_to_load_are_counted(folder):
    (folder / "one" / "3").mkdir()
    (folder / "one" / "3" / "saved_model.pb").write_bytes(b"half")
    write(folder / "models.config", entry("one", folder / "one", LATEST))
    with start(folder / "models.config") as client:  # As version 2 loads.
        assert answer(client, "one") == "2:A"
        loads = samples(client, "tensorflow:cc:saved_model:load_attempt_count")
    assert loads[str(folder / "one" / "2"), "success"] == 1
    assert loads[str(folder / "one" / "3"), "fail"] >= 1


def test_the_file_of_an_export_is_served_as_it_is(folder):
    write_serving_files(folder / "one", "cpu")
    with start(folder / "one" / "serving" / "models.config") as client:
        assert answer(client, "one") == "2:A"


@pytest.mark.parametrize(
    "model, message",
    [
        ("x", "no directory .*/x for the model x. Correct its path."),
        ("one/1", "no version of a model in .*/one/1."),
    ],
)
def test_a_directory_must_exist_and_have_a_version(model, message, folder):
    write(folder / "models.config", entry("x", folder / model))
    with pytest.raises(FileNotFoundError, match=message), start(folder / "models.config"):
        pass


GOOD = 'name: "a" base_path: "/a" model_platform: "tensorflow" '


@pytest.mark.parametrize(
    "text, message",
    [
        ("nonsense", "must be a ModelServerConfig of TensorFlow Serving in text format: 1:1"),
        (b"\xff", "must be a ModelServerConfig"),
        ("", "must list at least one model"),
        ("custom_model_config {}", "custom_model_config is not supported"),
        (f"model_config_list {{ config {{ {GOOD} }} config {{ {GOOD} }} }}", "a is listed 2 times"),
        (
            'model_config_list { config { name: "a:b" base_path: "gs://a" model_type: TENSORFLOW'
            ' logging_config {} version_labels { key: "a b" value: 1 }'
            " model_version_policy { specific {} } } }",
            r"without colon and slash, received 'a:b'; base_path of a:b must be an absolute path, "
            r"received 'gs://a'; model_platform of a:b must be 'tensorflow', received ''; .*no "
            r"specific version; labels of a:b .* received 'a b'; model_type of a:b is not "
            "supported; logging_config of a:b is not supported. Correct it.$",
        ),
    ],
)
def test_mistakes_in_the_file_are_named(text, message):
    content = text if isinstance(text, bytes) else text.encode()
    with pytest.raises(ValueError, match=message):
        parse_model_config(content, Path("models.config"))
