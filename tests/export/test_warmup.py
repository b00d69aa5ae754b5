import numpy as np
import pytest
import tensorflow as tf
from tensorflow_serving.apis import prediction_log_pb2

from keras_transformer.export.serving_files import batching_parameters
from keras_transformer.export.warmup import Request, replay, warmup_requests, write_warmup
from keras_transformer.serving.queues import Batching
from keras_transformer.translation.translator import Translator
from keras_transformer.utils import progress
from tests.helpers.tiny import tiny_tokenizer

pytestmark = pytest.mark.slow  # Each export traces and optimizes every signature.


def read(path):
    """Read requests as the model server does."""
    logs = [
        prediction_log_pb2.PredictionLog.FromString(record.numpy())
        for record in tf.data.TFRecordDataset(str(path))
    ]
    for log in logs:
        assert log.WhichOneof("log_type") == "predict_log"
    return [log.predict_log.request for log in logs]


@pytest.fixture(scope="module")
def requests(exported):
    return read(exported.version / "assets.extra" / "tf_serving_warmup_requests")


def test_every_signature_is_warmed_up_with_every_size(requests, graph):
    sizes = {}
    for request in requests:
        sizes.setdefault(request.model_spec.signature_name, []).append(
            [tuple(tf.make_ndarray(value).shape) for value in request.inputs.values()]
        )
    served = {name: x for name, x in graph.signatures.items() if not name.startswith("__")}
    assert sizes.keys() == served.keys()
    for name, signature in served.items():
        batches = {"inspect": (1,), "serving_default": (1, 8, 1)}.get(name, (1, 8))
        assert sizes[name] == [len(signature.inputs) * [(rows,)] for rows in batches]
    assert len(requests) < 1000  # A server refuses more.


@pytest.mark.parametrize(
    ("compiled", "device", "most"), [(False, "cpu", 8), (True, "cpu", 64), (True, "gpu", 256)]
)
def test_no_request_exceeds_the_maximum_batch_size(compiled, device, most, exported, tmp_path):
    translator = exported.translator
    parts = (translator.model, translator.tokenizer, None, translator.decoding)
    translator = Translator(*parts, compiled, device)
    requests = warmup_requests(translator, {"n": {"inputs": {"text": "string"}}})
    rows = {len(request.inputs["text"]) for request in requests}
    assert max(rows) == most
    (tmp_path / "batching_params.pbtxt").write_text(batching_parameters(device))
    assert max(rows) <= Batching.read(tmp_path).max_batch_size


def test_the_requests_are_answered(requests, serve):
    for request in requests:
        inputs = {key: tf.make_ndarray(value) for key, value in request.inputs.items()}
        for output in serve(request.model_spec.signature_name, **inputs).values():
            assert len(output) == len(inputs["text"])
            if output.dtype != object:
                assert np.isfinite(output).all()


def test_texts_have_the_expected_lengths(requests):
    (text,) = tf.make_ndarray(requests[0].inputs["text"])
    assert 4 <= len(tiny_tokenizer().tokenize([text])[0]) <= 12
    (long,) = tf.make_ndarray(requests[-1].inputs["text"])
    assert len(tiny_tokenizer().tokenize([long])[0]) >= 20  # The model truncates it to 24.


def test_what_is_written_is_read(tmp_path):
    given = [
        Request("serving_default", {"text": [b"a", b"", "ä".encode() * 200]}),
        Request("score", {"text": [b"\xff"], "translation": [b"x" * 100_000]}),
    ]
    write_warmup(tmp_path / "requests", given)
    received = read(tmp_path / "requests")
    assert [request.model_spec.signature_name for request in received] == [x[0] for x in given]
    for request, (_, inputs) in zip(received, given, strict=True):
        values = {k: tf.make_ndarray(v).tolist() for k, v in request.inputs.items()}
        assert values == inputs


def test_a_failing_request_is_an_error(exported):
    bad = Request("score", {"text": [b"one"], "translation": [b"eins", b"zwei"]})
    with pytest.raises(tf.errors.InvalidArgumentError, match="Shapes of all inputs must match"):
        replay(exported.version, [bad])


def test_progress_is_logged(exported, caplog, monkeypatch):
    monkeypatch.setattr(progress, "_SECONDS_BETWEEN_LINES", 0)
    with caplog.at_level("INFO", logger="keras_transformer"):
        replay(exported.version, 2 * [Request("serving_default", {"text": [b"one"]})])
    assert caplog.messages == [f"checking the export: {i} requests" for i in (1, 2)]
