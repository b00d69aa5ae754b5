"""Load-test the server of `pipelines.serve --engine python`, by REST and gRPC at the same time.

Several clients send batches of sentences, half of them random strings, to a server in a process of
its own. After a third of the time a new version of the model appears, and after two thirds the old
one goes. Each request must be answered, each sentence must always have the same translation, and
memory must stop growing. `benchmarks.load` measures the same model without a server. With
`--hostile`, clients of single sentences then measure how long they wait next to hostile ones.

Usage:
    python -m benchmarks.server_load --model saved_models/en_de --text test.en
"""

import contextlib
import json
import random
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from benchmarks.hostile_clients import measure
from benchmarks.load import Sample, report
from benchmarks.machine import free_ports
from benchmarks.report import new_parser
from pipelines.cli.errors import plain_errors

Send = Callable[[list[str]], list[str]]
"""Translates a batch with a server."""

_START_SECONDS = 300
_LONGEST = 10  # Characters of a random string.


def main(argv: Sequence[str] | None = None) -> None:
    parser = new_parser(__doc__)
    parser.add_argument("--model", required=True, type=Path, help="an exported SavedModel")
    parser.add_argument("--text", required=True, help="file of sentences to draw from")
    parser.add_argument("--seconds", type=float, default=600, help="default 600")
    parser.add_argument("--clients", type=int, default=4, help="half of them by gRPC (default 4)")
    parser.add_argument("--max-batch", type=int, default=32, help="largest batch (default 32)")
    parser.add_argument(
        "--hostile",
        type=float,
        default=0,
        metavar="SECONDS",
        help="for each kind of hostile client",
    )
    parser.add_argument("--batching", action="store_true", help="the server joins requests")
    args = parser.parse_args(argv)
    from keras_transformer.data import read_lines
    from keras_transformer.utils.versions import find_saved_model

    with plain_errors():
        sentences = list(read_lines(args.text))
        version = find_saved_model(args.model)
        if version is None:
            raise FileNotFoundError(f"There is no SavedModel in {args.model}: export one there.")
    with tempfile.TemporaryDirectory() as folder:
        model = Path(folder, "model")
        shutil.copytree(version, model / "1")
        with serving(model, args.batching) as (process, ports):
            load = Load(sentences, process.pid, args.seconds, args.max_batch)
            load.run(ports, args.clients, model)
            memory = load.memory("RssAnon"), load.memory("VmRSS"), load.memory("VmHWM")
            if args.hostile:
                sends = [over_rest(ports), over_grpc(ports)]
                print(measure(ports, sends, sentences, args.hostile))
    print("private memory, MiB     {:.0f}; resident {:.0f}, at most {:.0f}".format(*memory))
    print(f"random strings          {len(load.random_strings):,}, no two alike")
    if load.samples:
        print(report(load.samples, len(load.errors), load.changed))
    if load.errors:
        sys.exit(f"error: {load.errors[0]}")


class Load:
    """The clients and what they measure.

    Args:
        sentences: Sentences to draw from.
        pid: The process of the server.
        seconds: For how long requests are sent.
        max_batch: The most sentences of a request.

    Attributes:
        samples: The measurements of answers.
        errors: What went wrong.
        changed: How many translations differ from earlier ones of the same sentence.
        random_strings: The strings that are no sentences.
    """

    def __init__(self, sentences: Sequence[str], pid: int, seconds: float, max_batch: int):
        self.samples: list[Sample] = []
        self.errors: list[str] = []
        self.changed = 0
        self.random_strings: set[str] = set()
        self._sentences = sentences
        self._status = Path(f"/proc/{pid}/status")
        self._seconds, self._max_batch = seconds, max_batch
        self._translations: dict[str, str] = {}
        self._lock = threading.Lock()

    def run(self, ports: tuple[int, int], clients: int, model: Path) -> None:
        """Send requests from several threads, and change versions meanwhile."""
        self._start = time.monotonic()
        threads = [
            threading.Thread(target=self._client, args=(number, ports)) for number in range(clients)
        ]
        for thread in threads:
            thread.start()
        time.sleep(self._seconds / 3)
        shutil.copytree(model / "1", model / "new")
        (model / "new").rename(model / "2")
        time.sleep(self._seconds / 3)
        (model / "1").rename(model / "old")
        for thread in threads:
            thread.join()

    def memory(self, kind: str) -> float:
        """Return a figure of the server's memory in MiB, such as `RssAnon`."""
        return int(self._status.read_text().split(f"{kind}:")[1].split()[0]) / 1024

    def _client(self, number: int, ports: tuple[int, int]) -> None:
        draw = random.Random(number)
        send = (over_grpc, over_rest)[number % 2](ports)
        while time.monotonic() < self._start + self._seconds:
            batch = draw.choices(self._sentences, k=draw.randint(1, self._max_batch))
            strange = [_random_string(draw) for _ in batch[::2]]
            batch[::2] = strange
            before = time.monotonic()
            try:
                answer = send(batch)
            except Exception as error:
                with self._lock:
                    self.errors.append(f"{type(error).__name__}: {error}")
                continue
            now = time.monotonic()
            resident = int(self.memory("VmRSS") * 2**20)
            with self._lock:
                self.samples.append(Sample(now - self._start, now - before, resident, len(batch)))
                self.random_strings.update(strange)
                if len(answer) != len(batch):
                    self.errors.append(f"{len(answer)} translations of {len(batch)} sentences")
                for sentence, translation in zip(batch, answer, strict=False):
                    known = self._translations.setdefault(sentence, translation)
                    self.changed += known != translation


def _random_string(draw: random.Random) -> str:
    """Return characters of all planes, without the halves of surrogate pairs."""
    limit = draw.choice([0x80, 0x800, 0x10000, 0x110000])
    characters = (chr(draw.randrange(limit)) for _ in range(draw.randrange(_LONGEST)))
    return "".join(each for each in characters if not "\ud800" <= each <= "\udfff")


def over_rest(ports: tuple[int, int]) -> Send:
    """Return a client of the REST port."""

    def send(batch: list[str]) -> list[str]:
        request = urllib.request.Request(
            f"http://127.0.0.1:{ports[1]}/v1/models/model:predict",
            json.dumps({"inputs": batch}).encode(),
        )
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return json.load(answer)["outputs"]
        except urllib.error.HTTPError as error:
            raise RuntimeError(error.read().decode("utf-8", "replace")) from error

    return send


def over_grpc(ports: tuple[int, int]) -> Send:
    """Return a client of the gRPC port."""
    import grpc
    import tensorflow as tf
    from tensorflow_serving.apis import predict_pb2, prediction_service_pb2_grpc

    channel = grpc.insecure_channel(f"127.0.0.1:{ports[0]}")
    stub = prediction_service_pb2_grpc.PredictionServiceStub(channel)

    def send(batch: list[str]) -> list[str]:
        request = predict_pb2.PredictRequest()
        request.model_spec.name = "model"
        request.inputs["text"].CopyFrom(tf.make_tensor_proto([text.encode() for text in batch]))
        [output] = stub.Predict(request, timeout=60).outputs.values()
        return [text.decode() for text in output.string_val]

    return send


@contextlib.contextmanager
def serving(
    model: Path, batching: bool
) -> Iterator[tuple["subprocess.Popen[bytes]", tuple[int, int]]]:
    """Run a server, and yield its process and its gRPC and REST ports."""
    grpc_port, rest_port = free_ports(2)
    options = ["--port", str(grpc_port), "--rest-port", str(rest_port), *["--batching"][:batching]]
    program = [sys.executable, "-m", "pipelines.serve", "--engine", "python", "--model", str(model)]
    with (
        tempfile.TemporaryFile() as log,
        subprocess.Popen([*program, *options], stdout=log, stderr=log) as process,
    ):
        try:
            _wait_until_ready(process, rest_port, log)
            yield process, (grpc_port, rest_port)
        finally:
            process.terminate()


def _wait_until_ready(process, port, log):
    deadline = time.monotonic() + _START_SECONDS
    while True:
        with contextlib.suppress(OSError):
            url = f"http://127.0.0.1:{port}/v1/models/model"
            with urllib.request.urlopen(url, timeout=5) as answer:
                if b'"AVAILABLE"' in answer.read():
                    return
        if process.poll() is not None or time.monotonic() > deadline:
            log.seek(0)
            raise RuntimeError(f"The server did not start: {log.read().decode()[-2000:]}")
        time.sleep(0.2)


if __name__ == "__main__":
    main()
