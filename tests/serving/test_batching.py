"""Requests of several clients in one batch."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.helpers.model_server import ModelServer
from tests.serving.conftest import connect, grpc_error, save, wait_for_users


@pytest.fixture(scope="module")
def batched(tmp_path_factory):
    """A client of a server whose batches have up to 8 rows and wait for a fifth of a second."""
    base = tmp_path_factory.mktemp("batched") / "shout"
    version = save(base / "1")
    (version / "batching_params.pbtxt").write_text(
        "max_batch_size { value: 8 }\nbatch_timeout_micros { value: 200000 }\n"
        "max_enqueued_batches { value: 2 }\nnum_batch_threads { value: 1 }\n"
    )
    with ModelServer(base, "shout", batching=True) as server:
        yield connect(server)


def at_once(function, arguments):
    with ThreadPoolExecutor(len(arguments)) as threads:
        return list(threads.map(function, arguments))


def test_concurrent_requests_of_one_sentence_share_a_batch(batched):
    texts = [f"sentence {i}" for i in range(8)]
    answers = at_once(lambda text: batched.post({"inputs": [text]}), texts)
    assert answers == [(200, {"outputs": [text.upper()]}) for text in texts]
    sizes = at_once(lambda text: batched.predict({"text": [text]}, "strict")["rows"], texts)
    assert sum(1 / size for (size,) in sizes) < 8  # 8 if each ran alone.
    assert max(sizes)[0] <= 8


def test_the_attention_of_a_text_has_its_own_size(batched):
    def keys(text):
        _, answer = batched.post({"inputs": [text], "signature_name": "heads"})
        return len(answer["outputs"][0][0][0])

    assert at_once(keys, ["a", 30 * "a"]) == [1, 30]


def test_a_malformed_request_fails_alone(batched):
    bodies = [
        {"inputs": ["a"], "signature_name": "strict"},
        {"inputs": ["bad"], "signature_name": "strict"},
        {"inputs": [["a", "b"]], "signature_name": "strict"},
        {"inputs": "a", "signature_name": "strict"},
        {"inputs": ["b", "c"], "signature_name": "strict"},
    ]
    statuses = [status for status, _ in at_once(batched.post, bodies)]
    assert statuses == [200, 400, 400, 400, 200]


def test_zero_rows_are_answered_at_once(batched):
    assert batched.post({"inputs": []}) == (200, {"outputs": []})


def test_what_does_not_fit_a_batch_is_refused(batched):
    status, answer = batched.post({"inputs": 9 * ["a"]})
    assert (status, answer["error"]) == (
        400,
        "Task size 9 is larger than maximum input batch size 8",
    )
    assert batched.post({"inputs": 8 * ["a"]}) == (200, {"outputs": 8 * ["A"]})
    body = {"inputs": {"text": ["a"], "translation": ["b", "c"]}, "signature_name": "pair"}
    assert batched.post(body)[0] == 400


def test_an_output_of_other_length_is_still_answered(batched):
    def first(text):
        return batched.predict({"text": [text, "x"]}, "first")["translation"]

    assert at_once(first, ["a", "b"]) == [[b"a"], [b"b"]]


def test_a_full_queue_answers_503_and_unavailable(batched):
    slow = {"inputs": ["300000"], "signature_name": "slow"}
    with ThreadPoolExecutor(5) as threads:
        running = threads.submit(batched.post, slow)
        wait_for_users(batched, 1)  # It has the only thread.
        # Two batches of eight rows may wait.
        waiting = [threads.submit(batched.post, {"inputs": 4 * ["a"]}) for _ in range(4)]
        wait_for_users(batched, 5)
        status, answer = batched.post({"inputs": ["a"]})
        assert (status, "is full" in answer["error"]) == (503, True)
        code, details = grpc_error(batched.predict, {"text": ["a"]})
        assert (code, "is full" in details) == ("UNAVAILABLE", True)
        assert running.result() == (200, {"outputs": [300000]})
        assert [one.result() for one in waiting] == 4 * [(200, {"outputs": 4 * ["A"]})]
    assert batched.post({"inputs": ["a"]}) == (200, {"outputs": ["A"]})  # It recovers.
