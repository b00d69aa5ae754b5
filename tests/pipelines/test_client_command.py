import functools
import gzip
import http.server
import io
import itertools
import re
import socket
import sys
import threading
import time
from types import SimpleNamespace

import pytest
import tensorflow as tf

from pipelines import client
from tests.helpers.model_server import ModelServer, write_certificate
from tests.helpers.tiny import run_python
from tests.serving.conftest import save

SENTENCES = ["one two 😀", "", "  red  ", "zwölf\tBoxkämpfer", "a\x0bb\x85c\u2028d", "\x07"]


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    base = tmp_path_factory.mktemp("models") / "shout"
    save(base / "3")
    with ModelServer(base, "shout") as server:
        yield server


@pytest.fixture
def server(served):
    served.on_predict = lambda: None
    return served


@pytest.fixture(params=["--url", "--grpc"])
def address(request, server):
    """The options for a server, over each of its APIs."""
    port = server.rest_port if request.param == "--url" else server.port
    return [request.param, f"localhost:{port}"]


@pytest.fixture
def raising(server):
    """Let the calls of a server fail with errors in turn, None for an answer; count the calls."""

    def errors(*errors):
        left, calls = iter(errors), []

        def on_predict():
            calls.append(None)
            if error := next(left, None):
                raise error

        server.on_predict = on_predict
        return calls

    return errors


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch):
    monkeypatch.setattr(client, "PAUSE", 0.01)


def ask(capsys, *arguments):
    """Run the command for the model `shout`, and return what it printed, by lines."""
    client.main(["--model", "shout", *arguments])
    out, err = capsys.readouterr()
    assert err == ""
    return out.split("\n")[:-1]


def failure(*arguments):
    """Run the command for the model `shout`, and return what it ended with."""
    with pytest.raises(SystemExit) as error:
        client.main(["--model", "shout", *arguments])
    return str(error.value)


def test_sentences_are_translated_in_order(address, capsys):
    assert ask(capsys, *address, *SENTENCES) == [text.upper() for text in SENTENCES]


def test_tls_trusts_the_certificate_it_is_given(served, tmp_path, capsys, monkeypatch):
    cert, key = write_certificate(tmp_path)
    base = served.settings.models[0].base
    with ModelServer(base, "shout", tls_cert=cert, tls_key=key) as server:
        addresses = {"--url": server.rest_port, "--grpc": server.port}
        for option, port in addresses.items():
            address = [option, f"https://localhost:{port}"]
            assert ask(capsys, *address, "--tls-ca", str(cert), "a") == ["A"]
            for wrong in (address, [option, f"localhost:{port}"]):
                message = failure(*wrong, "a")
                assert "is not available" in message and "begins with https://" in message
            message = failure(*address, "--tls-ca", str(key), "a")
            assert f"a file with certificates in PEM format, received {key}" in message
            message = failure(*address, "--tls-ca", "absent", "a")
            assert "in PEM format, received absent: No such file" in message
        with pytest.raises(SystemExit):
            client.main(["--model", "shout", "--tls-ca", str(cert), "a"])
        assert "--tls-ca needs --url or --grpc" in capsys.readouterr().err
        monkeypatch.setenv("SSL_CERT_FILE", str(cert))
        for option, port in addresses.items():
            assert ask(capsys, option, f"https://localhost:{port}", "a") == ["A"]


def test_requests_name_the_languages_of_their_rows(address, tmp_path, capsys):
    assert ask(capsys, *address, "--from", "en", "--to", "de", "a", "b") == ["en de a", "en de b"]
    (tmp_path / "lines").write_text("en\tde\ta dog\nde\tfr\t\nen\tde\tein\tTab\nen a\n")
    columns = [*address, "--columns", "--input", str(tmp_path / "lines"), "--batch-size", "3"]
    message = failure(*columns)
    assert capsys.readouterr().out == "en de a dog\nde fr \nen de ein\tTab\n"
    assert "separated by tabs; received 'en a'" in message
    assert "The first 3 lines are done." in message


@pytest.mark.parametrize("name", ["input.txt", "input.gz"])
def test_a_file_is_translated_line_by_line(name, address, tmp_path, capsys):
    content = ("\ufeff" + "".join(f"{text}\r\n" for text in SENTENCES)).encode() + b"last"
    compress = gzip.compress if name.endswith("gz") else bytes
    (tmp_path / name).write_bytes(compress(content))
    lines = ask(capsys, *address, "--input", str(tmp_path / name), "--batch-size", "4")
    assert lines == [text.upper() for text in [*SENTENCES, "last"]]


def test_a_file_that_is_not_utf8_is_refused(address, tmp_path):
    (tmp_path / "wide").write_text("A dog.\n", encoding="utf-16")
    message = failure(*address, "--input", str(tmp_path / "wide"))
    assert f"--input must be UTF-8 text, received {tmp_path / 'wide'}" in message


def test_invalid_utf8_is_replaced(address, capsys, monkeypatch):
    content = io.BytesIO(b"one\nno \xff text\r\nred\x0bblue\n")
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(content, encoding="ascii"))
    assert ask(capsys, *address) == ["ONE", "NO \ufffd TEXT", "RED\x0bBLUE"]
    # As Python gives an argument that is no UTF-8.
    assert ask(capsys, *address, "no \udcff text") == ["NO \ufffd TEXT"]


def test_nothing_to_translate_asks_nothing(server, address, capsys, monkeypatch):
    server.on_predict = pytest.fail
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO()))
    assert ask(capsys, *address) == []


def test_zero_rows_are_never_sent(server):
    server.on_predict = pytest.fail  # A server that batches would not answer them.
    options = {"version": None, "signature": None, "timeout": 60, "in_flight": 1}
    addresses = {"url": f"localhost:{server.rest_port}", "grpc": f"localhost:{server.port}"}
    args = SimpleNamespace(model="shout", tls_ca=None, **options, **addresses)
    assert client.over_rest(args)([]) == client.over_grpc(args)([]) == []


def test_several_outputs_are_lines_of_json(address, capsys):
    lines = ask(capsys, *address, "--signature", "score", "zwölf", "a\tb", "")
    assert lines == [
        '{"length": 5, "score": 0.5, "translation": "ZWÖLF"}',
        '{"length": 3, "score": 0.3, "translation": "A\\tB"}',
        '{"length": 0, "score": 0.0, "translation": ""}',
    ]


def test_a_translation_stays_on_its_line():
    assert client.as_line("a\r\nb") == "a  b"
    assert client.as_line(["a\nb", "ö"]) == '["a\\nb", "ö"]'
    assert client.as_line({"b": 1, "a": "x\ny"}) == '{"a": "x\\ny", "b": 1}'


def test_a_version_can_be_chosen(address, capsys):
    assert ask(capsys, *address, "--version", "3", "one") == ["ONE"]


def test_as_many_requests_as_allowed_are_at_work_and_no_more(server, address, capsys):
    at_work, most = [], []
    all_there = threading.Barrier(3)

    def on_predict():
        at_work.append(None)
        most.append(len(at_work))
        all_there.wait(timeout=20)  # Only three at a time come further.
        at_work.pop()

    server.on_predict = on_predict
    texts = [f"text {i}" for i in range(24)]
    lines = ask(capsys, *address, "--in-flight", "3", "--batch-size", "2", *texts)
    assert lines == [text.upper() for text in texts]
    assert len(most) == 12
    assert max(most) == 3


def test_answers_that_come_late_keep_their_place():
    def predict(batch):
        time.sleep(0.1 if batch[0] % 6 == 0 else 0)
        return [-number for number in batch]

    batches = client.in_order(predict, range(21), batch_size=2, in_flight=3)
    assert list(itertools.chain(*batches)) == [-number for number in range(21)]


def test_texts_without_end_are_translated_as_they_come():
    read = itertools.count()
    batches = client.in_order(lambda batch: batch, read, batch_size=5, in_flight=2)
    assert [next(batches), next(batches)] == [[0, 1, 2, 3, 4], [5, 6, 7, 8, 9]]
    assert next(read) <= 5 * (2 + 2 * 2)
    batches.close()


BUSY = tf.errors.UnavailableError(None, None, "The batch scheduling queue is full")
FULL = tf.errors.ResourceExhaustedError(None, None, "too many requests")


@pytest.mark.parametrize("error", [BUSY, FULL, ConnectionResetError()], ids=["503", "429", "reset"])
def test_a_request_to_a_busy_server_is_retried(error, raising, address, capsys):
    calls = raising(*[error] * (client.ATTEMPTS - 1))
    assert ask(capsys, *address, "one") == ["ONE"]
    assert len(calls) == client.ATTEMPTS


@pytest.mark.parametrize(
    "error, message",
    [
        (BUSY, "is not available: .*queue is full.* lower --in-flight"),
        (FULL, "is not available: .*too many requests.* lower --in-flight"),
        (ConnectionResetError(), "is not available: .*[Cc]onnection.* Start a server with python"),
    ],
    ids=["503", "429", "reset"],
)
def test_retries_end_if_a_server_stays_busy(error, message, raising, address):
    calls = raising(*[error] * 99)
    assert re.search(message, failure(*address, "one"))
    assert len(calls) == client.ATTEMPTS


@pytest.mark.parametrize(
    "error",
    [
        tf.errors.InternalError(None, None, "XLA compilation disabled"),
        tf.errors.DeadlineExceededError(None, None, "Timed out waiting for notification"),
    ],
)
def test_other_errors_are_not_retried(error, raising, address):
    calls = raising(error)
    assert error.message in failure(*address, "one")
    assert len(calls) == 1


def test_a_timeout_is_not_retried(server, address):
    calls, late = itertools.count(), threading.Event()

    def on_predict():
        next(calls)
        late.wait(timeout=20)

    server.on_predict = on_predict
    message = failure(*address, "--timeout", "1", "one")
    late.set()
    assert "did not answer within 1" in message
    assert "--timeout" in message
    assert next(calls) == 1


def test_an_error_says_how_many_lines_are_done(raising, address, capsys):
    raising(None, None, tf.errors.InternalError(None, None, "out of luck"))
    options = ["--in-flight", "1", "--batch-size", "2"]
    assert "out of luck. The first 4 lines are done." in failure(*address, *options, *"abcdef")
    assert capsys.readouterr().out == "A\nB\nC\nD\n"


@pytest.mark.parametrize(
    "options, message",
    [
        (["--model", "en_de"], "has no model 'en_de': .*Latest.en_de.* Give --model the name"),
        (["--version", "7"], "has no model 'shout' in version 7: .*Specific.shout, 7"),
        (["--signature", "best"], 'signature (name:|key) "best" not found'),
        (["--signature", "first"], "one prediction per sentence, received 1 for 2"),
    ],
)
def test_a_missing_model_version_or_signature_is_named(options, message, address):
    assert re.search(message, failure(*address, *options, "one", "two"))


@pytest.mark.parametrize("option", ["--url", "--grpc"])
def test_an_unreachable_server_is_named(option):
    with socket.socket() as taken:  # Bound and not listened to: connections are refused.
        taken.bind(("localhost", 0))
        address = f"localhost:{taken.getsockname()[1]}"
        message = failure(option, address, "one")
    assert message.startswith(f"error: {'http://' * (option == '--url')}{address} is not available")
    assert "efused" in message
    assert "python -m pipelines.serve" in message


def test_an_answer_from_another_server_is_shown(server, tmp_path):
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=tmp_path)
    with http.server.ThreadingHTTPServer(("localhost", 0), handler) as other:
        threading.Thread(target=other.serve_forever, daemon=True).start()
        message = failure("--url", f"localhost:{other.server_port}", "one")
        other.shutdown()
    assert "answered 501: <!DOCTYPE HTML>" in message


def test_grpc_says_what_to_install_before_tensorflow_is_imported(server):
    code = f"""
import sys
sys.modules["tensorflow_serving"] = None  # As if it were not installed.
from pipelines import client
try:
    client.main(["--model", "shout", "--grpc", "localhost:{server.port}", "one"])
except SystemExit as error:
    print(error)
print("tensorflow" in sys.modules)
"""
    assert run_python("-c", code).stdout.splitlines() == [f"error: {client.NO_GRPC}", "False"]
    assert "[serving] extra" in client.NO_GRPC


def test_a_file_must_exist(address):
    assert "No such file or directory: 'none.txt'" in failure(*address, "--input", "none.txt")


def test_a_url_may_have_a_scheme_and_a_path(server, capsys):
    server.paths.clear()
    answer = failure("--url", f"http://localhost:{server.rest_port}/x/", "one")
    assert "answered 404: <html>" in answer  # The answer of TensorFlow Serving outside /v1.
    assert ask(capsys, "--url", f"http://localhost:{server.rest_port}/", "one") == ["ONE"]
    assert server.paths == ["/x/v1/models/shout:predict", "/v1/models/shout:predict"]


def test_rest_needs_no_tensorflow(server):
    command = ["-X", "importtime", "-m", "pipelines.client", "--model", "shout"]
    process = run_python(*command, "--url", f"localhost:{server.rest_port}", "zwölf", input="")
    assert process.stdout == "ZWÖLF\n"
    assert "urllib3" in process.stderr
    for package in ("tensorflow", "keras", "numpy", "grpc"):
        assert not re.search(rf"\b{package}$", process.stderr, re.MULTILINE), package
