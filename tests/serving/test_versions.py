"""Versions that appear, break and disappear while the server runs."""

import json
import shutil
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import tensorflow as tf

from keras_transformer.export.warmup import Request, write_warmup
from tests.helpers.model_server import ModelServer
from tests.serving.conftest import connect, wait, wait_for_users

URL = "/v1/models/shout"
DAMAGED = r"^[^\n]*/1/[^\n]*{} is damaged: [^\n]+ Restore it, or export the model again\.$"


@pytest.fixture
def model(exports, tmp_path):
    shutil.copytree(exports[1], tmp_path / "shout" / "1")
    return tmp_path / "shout"


def publish(version, model, number):
    """Copy a version into a model's directory, where it appears at once."""
    shutil.copytree(version, model / "writing").rename(model / str(number))


def states(client):
    _, answer = client.get(URL)
    return {
        int(one["version"]): (one["state"], one["status"]["error_code"])
        for one in answer.get("model_version_status", ())
    }


def serving(model, **settings):
    return ModelServer(model, "shout", **{"poll_seconds": 0.05, "retry_seconds": 0.3, **settings})


@pytest.mark.parametrize("batching", [False, True])
def test_a_new_version_takes_over_under_load_without_a_failed_request(batching, model, exports):
    done = threading.Event()

    def ask(client, log):
        while not done.is_set():
            status, answer = client.post({"inputs": ["a"]})
            log.append(answer["outputs"] if status == 200 else answer)
            answer = client.predict({"text": ["a"]})["translation"]
            log.append([text.decode() for text in answer])

    logs = [[] for _ in range(4)]
    with serving(model, batching=batching) as server, ThreadPoolExecutor(4) as threads:
        client = connect(server)
        asking = [threads.submit(ask, client, log) for log in logs]
        wait(lambda: all(logs))
        publish(exports[2], model, 2)
        wait(lambda: states(client) == {1: ("END", "OK"), 2: ("AVAILABLE", "OK")})
        wait(lambda: all(["2:A"] in log for log in logs))
        done.set()
        for one in asking:
            one.result()
    for log in logs:
        assert log == sorted(log)
        assert {text for (text,) in log} == {"1:A", "2:A"}


def test_the_old_version_finishes_its_requests(model, exports, tmp_path):
    end = tmp_path / "end"
    with serving(model) as server, ThreadPoolExecutor(1) as threads:
        client = connect(server)
        slow = threads.submit(client.post, {"inputs": [str(end)], "signature_name": "wait"})
        wait_for_users(client, 1)
        publish(exports[2], model, 2)
        wait(lambda: states(client).get(2) == ("AVAILABLE", "OK"))
        assert states(client)[1] == ("UNLOADING", "OK")
        assert client.post({"inputs": ["a"]}) == (200, {"outputs": ["2:A"]})
        assert client.post({"inputs": ["a"]}, "shout/versions/1")[0] == 404
        end.touch()
        assert slow.result() == (200, {"outputs": [True]})
        wait(lambda: states(client)[1] == ("END", "OK"))


def test_removing_a_version_returns_to_the_one_before(model, exports):
    publish(exports[2], model, 10)
    with serving(model) as server:
        client = connect(server)
        assert client.post({"inputs": ["a"]}) == (200, {"outputs": ["2:A"]})
        shutil.rmtree(model / "10")
        wait(lambda: states(client).get(1) == ("AVAILABLE", "OK"))
        assert client.post({"inputs": ["a"]}) == (200, {"outputs": ["1:A"]})
        shutil.rmtree(model / "1")
        wait(lambda: client.post({"inputs": ["a"]})[0] == 404)
        publish(exports[2], model, 11)
        wait(lambda: client.post({"inputs": ["a"]}) == (200, {"outputs": ["2:A"]}))


def test_a_directory_that_is_away_changes_nothing(model):
    with serving(model) as server:
        client = connect(server)
        model.rename(model.with_name("away"))
        time.sleep(0.3)
        assert client.post({"inputs": ["a"]}) == (200, {"outputs": ["1:A"]})
        model.with_name("away").rename(model)


def test_a_version_that_does_not_load_is_reported_and_tried_again(model, exports):
    (model / "2").mkdir()  # As if someone copied it slowly.
    (model / "2" / "saved_model.pb").write_bytes(b"half")
    shutil.move(model / "2", model / "later")
    with serving(model) as server:
        client = connect(server)
        (model / "later").rename(model / "2")
        wait(lambda: states(client).get(2, ("", ""))[0] == "END")
        assert states(client)[2][1] != "OK"
        assert client.post({"inputs": ["a"]}) == (200, {"outputs": ["1:A"]})
        shutil.copytree(exports[2], model / "2", dirs_exist_ok=True)
        wait(lambda: states(client)[2] == ("AVAILABLE", "OK"))
        assert client.post({"inputs": ["a"]}) == (200, {"outputs": ["2:A"]})


def test_a_damaged_file_is_never_served(model):
    digest = "0" * 64
    (model / "1" / "SHA256SUMS").write_text(f"{digest}  saved_model.pb\n")
    with pytest.raises(ValueError, match="saved_model.pb is damaged"), serving(model):
        pass


@pytest.mark.parametrize("size", [0, 2, 1000])
def test_a_graph_that_is_not_whole_is_damaged(size, model):
    graph = model / "1" / "saved_model.pb"
    graph.write_bytes(graph.read_bytes()[:size])
    with pytest.raises(ValueError, match=DAMAGED.format("saved_model.pb")), serving(model):
        pass


@pytest.mark.parametrize(
    "signature, inputs",
    [
        ("other", {"text": [b"a"]}),
        ("serving_default", {"other": [b"a"]}),
        ("serving_default", {}),
        ("serving_default", {"text": [1]}),
    ],
)
def test_a_warm_up_request_for_another_model_is_damaged(signature, inputs, model):
    assets = model / "1" / "assets.extra"
    assets.mkdir()
    write_warmup(assets / "tf_serving_warmup_requests", [Request(signature, inputs)])
    with pytest.raises(ValueError, match=DAMAGED.format("warmup_requests")), serving(model):
        pass


def test_a_warm_up_file_that_is_not_whole_is_damaged(model):
    warm_up_with(model, b"good")
    path = model / "1" / "assets.extra" / "tf_serving_warmup_requests"
    path.write_bytes(path.read_bytes()[:-3])
    with pytest.raises(ValueError, match=DAMAGED.format(path.name)), serving(model):
        pass


def warm_up_with(model, text):
    assets = model / "1" / "assets.extra"
    assets.mkdir()
    requests = [
        Request("strict", {"text": [text]}),
        Request("serving_default", {"text": 3 * [b"x"]}),
    ]
    write_warmup(assets / "tf_serving_warmup_requests", requests)


def test_warm_up_requests_run_before_the_version_is_served(model):
    warm_up_with(model, b"good")
    with serving(model) as server:
        text = connect(server).get("/monitoring/prometheus/metrics")[1].decode()
    (line,) = [x for x in text.splitlines() if "model_warmup_latency_count" in x]
    assert line.endswith(" 1.0")
    (line,) = [x for x in text.splitlines() if "model_warmup_latency_sum" in x]
    assert float(line.split()[-1]) > 100  # Microseconds.


def test_a_warm_up_request_that_fails_keeps_the_version_from_being_served(model):
    warm_up_with(model, b"bad")
    with pytest.raises(ValueError, match="shout/1 does not load: .*bad text"), serving(model):
        pass


def test_a_model_must_exist(tmp_path):
    with pytest.raises(FileNotFoundError), serving(tmp_path):
        pass


def test_answers_are_those_of_the_saved_model(model):
    loaded = tf.saved_model.load(str(model / "1"))
    texts = ["", "zwölf", "😀 \x00", "a" * 10_000]
    expected = loaded.signatures["score"](text=tf.constant(texts))
    with serving(model) as server:
        client = connect(server)
        received = client.predict({"text": texts}, "score")
        _, answer = client.post({"inputs": texts, "signature_name": "score"})
    for name, values in expected.items():
        assert received[name] == values.numpy().tolist()
    assert np.float32(answer["outputs"]["score"]).tolist() == received["score"]
    assert json.dumps(answer["outputs"]["length"]) == json.dumps(received["length"])
