"""Metrics for Prometheus, under the names of TensorFlow Serving, and the access log."""

import collections
import contextlib
import dataclasses
import json
import logging
import time
from collections.abc import Callable, Iterator

from prometheus_client import CollectorRegistry, Gauge, Histogram, generate_latest
from prometheus_client.core import UnknownMetricFamily

access_log = logging.getLogger("keras_transformer.serving.access")

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_PREFIX = ":tensorflow:serving:"
_MICROSECONDS = [10 * 1.8**i for i in range(33)]  # The buckets of TensorFlow Serving.
_ROWS = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024]


@dataclasses.dataclass
class Entry:
    """A request in the access log; the server fills it in as it learns more."""

    api: str
    method: str
    path: str
    client: str
    status: str = "OK"
    http: int | None = None
    rows: int | None = None
    bytes: int | None = None


class Metrics:
    """The metrics of one server.

    Args:
        model: The model's name.
    """

    def __init__(self, model: str):
        self._model = model
        self.registry = CollectorRegistry()
        self._counts: collections.Counter[str] = collections.Counter()
        self.registry.register(self)
        latency = _histogram("request_latency", ["model_name", "API", "entrypoint"], self.registry)
        self._latency = {
            api: latency.labels(model, "predict" if api == "REST" else "Predict", api)
            for api in ("REST", "GRPC")
        }
        self._runtime = _histogram("runtime_latency", ["model_name"], self.registry).labels(model)
        self._warmup = _histogram("model_warmup_latency", ["model_name"], self.registry).labels(
            model
        )
        self._queuing = _histogram("batching_session:queuing_latency", [], self.registry)
        self._rows = Histogram(
            f"{_PREFIX}batching_session:processed_batch_size",
            "Rows of a batch.",
            buckets=_ROWS,
            registry=self.registry,
        )
        self._pending = Gauge(
            f"{_PREFIX}pending_runs", "Runs of the model that run or wait.", registry=self.registry
        )

    def collect(self) -> Iterator[UnknownMetricFamily]:
        """Yield the count of requests, whose name has no `_total` in TensorFlow Serving."""
        family = UnknownMetricFamily(
            f"{_PREFIX}request_count", "Requests by status.", labels=["model_name", "status"]
        )
        for status, count in sorted(self._counts.items()):
            family.add_metric([self._model, status], count)
        yield family

    def text(self) -> bytes:
        """Return all metrics, as Prometheus reads them."""
        return generate_latest(self.registry)

    def warmup(self, seconds: float) -> None:
        """Record the time of a warm-up."""
        self._warmup.observe(seconds * 1e6)

    def batch(self, rows: int, seconds: float) -> None:
        """Record the size of a batch, and how long its first request waited."""
        self._rows.observe(rows)
        self._queuing.observe(seconds * 1e6)

    def watch_pending(self, count: Callable[[], int]) -> None:
        """Report what `count` returns as the number of runs that run or wait."""
        self._pending.set_function(count)

    @contextlib.contextmanager
    def runtime(self) -> Iterator[None]:
        """Record the time of a run that succeeds."""
        started = time.monotonic()
        yield
        self._runtime.observe((time.monotonic() - started) * 1e6)

    @contextlib.contextmanager
    def request(self, entry: Entry) -> Iterator[Entry]:
        """Count and log the request that the block answers.

        Args:
            entry: What is known of the request.
        """
        started = time.monotonic()
        try:
            yield entry
        except BaseException:
            entry.status = "CANCELLED" if entry.status == "OK" else entry.status
            raise
        finally:
            seconds = time.monotonic() - started
            if entry.method == "Predict":
                self._counts[entry.status] += 1
                self._latency[entry.api].observe(seconds * 1e6)
            if access_log.isEnabledFor(logging.INFO):
                fields = {k: v for k, v in dataclasses.asdict(entry).items() if v is not None}
                now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
                milliseconds = round(seconds * 1e3, 1)
                access_log.info(json.dumps({"time": now, **fields, "ms": milliseconds}))


def _histogram(name: str, labels: list[str], registry: CollectorRegistry) -> Histogram:
    return Histogram(
        f"{_PREFIX}{name}", "Microseconds.", labels, buckets=_MICROSECONDS, registry=registry
    )
