"""Versions that appear, break and disappear while the server runs."""

import asyncio
import json
import shutil
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import tensorflow as tf

from keras_transformer.export.warmup import Request, write_warmup
from keras_transformer.serving.errors import Code, ServingError
from keras_transformer.serving.model import Model
from keras_transformer.serving.settings import ModelConfig
from keras_transformer.serving.versions import ModelVersions, Served
from tests.helpers.tiny import run_python
from tests.serving.conftest import in_event_loop, samples, serving, wait, wait_for_users

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


def watching(model, **settings):
    return serving(model, poll_seconds=0.05, retry_seconds=0.3, **settings)


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
    with watching(model, batching=batching) as client, ThreadPoolExecutor(4) as threads:
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
    with watching(model) as client, ThreadPoolExecutor(1) as threads:
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
    with watching(model) as client:
        assert client.post({"inputs": ["a"]}) == (200, {"outputs": ["2:A"]})
        shutil.rmtree(model / "10")
        wait(lambda: states(client).get(1) == ("AVAILABLE", "OK"))
        assert client.post({"inputs": ["a"]}) == (200, {"outputs": ["1:A"]})
        shutil.rmtree(model / "1")
        wait(lambda: client.post({"inputs": ["a"]})[0] == 404)
        publish(exports[2], model, 11)
        wait(lambda: client.post({"inputs": ["a"]}) == (200, {"outputs": ["2:A"]}))


def versions_of(free=list, **settings):
    """Return versions that need no model."""

    async def load(name, number, path):
        return Served(name, number, path, None, None, None)

    return ModelVersions(ModelConfig(name="m", **settings), load, free, retry_seconds=60)


@in_event_loop
async def test_a_version_that_is_replaced_under_its_number_is_freed(tmp_path, monkeypatch):
    monkeypatch.setattr("keras_transformer.serving.versions._FREE_SECONDS", 0)
    for path in ("a/1", "b/1"):
        (tmp_path / path).mkdir(parents=True)
    freed = []
    versions = versions_of(lambda: freed.append(1), base=tmp_path / "a")
    await versions.look()
    versions.take(ModelConfig(name="m", base=tmp_path / "b"))
    with versions.use():
        await versions.look()
        assert (versions.served[1].path, len(freed)) == (tmp_path / "b/1", 1)
    await asyncio.sleep(0.01)
    assert (versions.states()[1].state, len(freed)) == ("AVAILABLE", 2)


@in_event_loop
async def test_new_labels_are_known_before_their_versions_are_loaded(tmp_path):
    for number in (1, 2):
        (tmp_path / str(number)).mkdir()

    def code(label):
        with pytest.raises(ServingError) as error, versions.use(label):
            pass
        return error.value.code

    versions = versions_of(base=tmp_path, specific=frozenset([1]), labels={"stable": 1})
    assert code("stable") == Code.NOT_FOUND
    await versions.look()
    labels = {"stable": 2, "canary": 2}
    both = frozenset([1, 2])
    versions.take(ModelConfig(name="m", base=tmp_path, specific=both, labels=labels))
    with versions.use("stable") as served:  # It moves once the version is loaded.
        assert served.number == 1
    assert code("canary") == Code.NOT_FOUND
    assert code("other") == Code.INVALID_ARGUMENT
    await versions.look()
    with versions.use("stable") as stable, versions.use("canary") as canary:
        assert stable.number == canary.number == 2
    versions.take(ModelConfig(name="m", base=tmp_path, labels={"canary": 2}))
    assert code("stable") == Code.INVALID_ARGUMENT


@in_event_loop
async def test_missing_versions_are_reported_once(tmp_path, caplog):
    versions = versions_of(base=tmp_path, specific=frozenset(range(1, 13)))
    for _ in range(3):
        await versions.look()
    assert len(versions.states()) == len(caplog.messages) == 12


def test_a_directory_that_is_away_changes_nothing(model):
    with watching(model) as client:
        model.rename(model.with_name("away"))
        time.sleep(0.3)
        assert client.post({"inputs": ["a"]}) == (200, {"outputs": ["1:A"]})
        model.with_name("away").rename(model)


def test_a_version_that_does_not_load_is_reported_and_tried_again(model, exports):
    (model / "2").mkdir()  # As if someone copied it slowly.
    (model / "2" / "saved_model.pb").write_bytes(b"half")
    shutil.move(model / "2", model / "later")
    with watching(model) as client:
        (model / "later").rename(model / "2")
        wait(lambda: states(client).get(2, ("", ""))[0] == "END")
        assert states(client)[2][1] != "OK"
        assert client.post({"inputs": ["a"]}) == (200, {"outputs": ["1:A"]})
        shutil.copytree(exports[2], model / "2", dirs_exist_ok=True)
        wait(lambda: states(client)[2] == ("AVAILABLE", "OK"))
        assert client.post({"inputs": ["a"]}) == (200, {"outputs": ["2:A"]})


def check_damaged(model, name):
    """Check that a file keeps the model from being served, and that the error is about it."""
    with pytest.raises(ValueError, match=DAMAGED.format(name)), serving(model):
        pass


def test_a_file_with_another_checksum_is_damaged(model):
    digest = "0" * 64
    (model / "1" / "SHA256SUMS").write_text(f"{digest}  saved_model.pb\n")
    with pytest.raises(ValueError, match="saved_model.pb is damaged"), serving(model):
        pass


@pytest.mark.parametrize(
    "name, size",
    [
        *(("saved_model.pb", size) for size in (0, 2, 1000)),
        ("assets.extra/tf_serving_warmup_requests", -3),
    ],
)
def test_a_file_that_is_not_whole_is_damaged(name, size, model):
    warm_up_with(model, b"good")
    path = model / "1" / name
    path.write_bytes(path.read_bytes()[:size])
    check_damaged(model, path.name)


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
    warm_up(model, Request(signature, inputs))
    check_damaged(model, "warmup_requests")


def warm_up(model, *requests):
    assets = model / "1" / "assets.extra"
    assets.mkdir()
    write_warmup(assets / "tf_serving_warmup_requests", requests)


def warm_up_with(model, text):
    requests = {"strict": [text], "serving_default": 3 * [b"x"]}
    warm_up(model, *(Request(name, {"text": texts}) for name, texts in requests.items()))


def test_warm_up_requests_run_before_the_version_is_served(model):
    warm_up_with(model, b"good")
    with serving(model) as client:
        [count], [microseconds] = (
            samples(client, f"tensorflow:serving:model_warmup_latency_{kind}").values()
            for kind in ("count", "sum")
        )
    assert count == 1 and microseconds > 100


def test_a_warm_up_request_that_fails_keeps_the_version_from_being_served(model):
    warm_up_with(model, b"bad")
    with pytest.raises(ValueError, match="shout/1 does not load: .*bad text"), serving(model):
        pass


def write_graphs(version, *tags):
    """Write a model of TensorFlow 1 whose table is filled by an operation; a graph for each tag."""
    tf1 = tf.compat.v1
    builder = tf1.saved_model.Builder(str(version))
    for i, tag in enumerate(tags):
        with tf.Graph().as_default(), tf1.Session() as session:
            text = tf1.placeholder(tf.string, [None])
            values = tf.lookup.KeyValueTensorInitializer(["a"], [tag])
            answer = tf.lookup.StaticHashTable(values, "").lookup(text)
            weights = tf.zeros([1, 4, 8, 8, 3])
            signature = tf1.saved_model.predict_signature_def(
                {"x": text}, {tag: answer, "w": weights}
            )
            tf1.Variable(0)
            session.run(tf1.global_variables_initializer())
            add = builder.add_meta_graph if i else builder.add_meta_graph_and_variables
            session = () if i else (session,)
            signatures = {"serving_default": signature}
            add(*session, [tag], signatures, main_op=tf1.tables_initializer())
    builder.save()


def test_the_graph_for_serving_is_served(tmp_path):
    write_graphs(tmp_path / "1", "train", "serve")
    model = Model(tmp_path / "1")
    answer = model.run("serving_default", {"x": np.array([b"a"], object)})
    assert answer["serve"].tolist() == [b"serve"]
    heads = model.estimates["serving_default"].heads
    assert heads == 1  # Five dimensions, and not those of attention.
    write_graphs(tmp_path / "2", "train")
    with pytest.raises(ValueError, match=r"must have a graph with the tag serve, received \[\["):
        Model(tmp_path / "2")


def test_answers_are_those_of_the_saved_model(model):
    loaded = tf.saved_model.load(str(model / "1"))
    texts = ["", "zwölf", "😀 \x00", "a" * 10_000]
    expected = loaded.signatures["score"](text=tf.constant(texts))
    with watching(model) as client:
        received = client.predict({"text": texts}, "score")
        _, answer = client.post({"inputs": texts, "signature_name": "score"})
    for name, values in expected.items():
        assert received[name] == values.numpy().tolist()
    assert np.float32(answer["outputs"]["score"]).tolist() == received["score"]
    assert json.dumps(answer["outputs"]["length"]) == json.dumps(received["length"])


def test_requests_need_no_tensorflow_for_python_and_leave_no_memory(model):
    code = r"""
import re, sys
from pathlib import Path
import numpy as np
import keras_transformer.serving.server
from keras_transformer.serving.errors import ServingError
from keras_transformer.serving.model import Model
from keras_transformer.serving.session import _kept

def private():
    return int(re.search(r"RssAnon:\s+(\d+)", Path("/proc/self/status").read_text())[1])

model = Model(Path(sys.argv[1]))
texts, pairs = np.array([b"a" * 50_000, b"b"], object), np.ones([20_000, 2], np.float32)
for i in range(600):
    if i == 100:
        before = private()
    model.run("score", {"text": texts})
    model.run("double", {"x": pairs})
    try:
        model.run("strict", {"text": np.array([b"bad", b"c" * 50_000], object)})
    except ServingError as error:
        assert "bad text" in error.message and "Graph execution" not in error.message
print(len(_kept), private() - before < 5_000, {"tensorflow", "keras", "jax"} & sys.modules.keys())
import tensorflow
print(tensorflow.constant(1).numpy())
"""
    assert run_python("-c", code, str(model / "1")).stdout.split() == ["0", "True", "set()", "1"]
