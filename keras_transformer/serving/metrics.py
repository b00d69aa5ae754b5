"""Metrics for Prometheus, under the names of TensorFlow Serving, and the access log."""

import collections
import contextlib
import dataclasses
import json
import logging
import time
from collections.abc import Callable, Container, Iterator
from pathlib import Path

from prometheus_client import (
    CollectorRegistry,
    Gauge,
    Histogram,
    ProcessCollector,
    generate_latest,
)
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
    model: str | None = None
    version: int | None = None
    status: str = "OK"
    http: int | None = None
    rows: int | None = None
    bytes: int | None = None


class Metrics:
    """The metrics of one server."""

    def __init__(self) -> None:
        self.models: Container[str] = ()
        """The models that requests are counted for; other names are counted together as ""."""
        self.registry = CollectorRegistry()
        self._requests: collections.Counter[tuple[str, ...]] = collections.Counter()
        self._loads: collections.Counter[tuple[str, ...]] = collections.Counter()
        self.registry.register(self)
        ProcessCollector(registry=self.registry)
        labels = ["model_name", "API", "entrypoint"]
        self._latency = _histogram("request_latency", labels, self.registry)
        self._runtime = _histogram("runtime_latency", ["model_name"], self.registry)
        self._warmup = _histogram("model_warmup_latency", ["model_name"], self.registry)
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
        """Yield the counts, whose names have no `_total` in TensorFlow Serving."""
        requests = UnknownMetricFamily(
            f"{_PREFIX}request_count",
            "Predict requests.",
            labels=["model_name", "status", "entrypoint", "version"],
        )
        loads = UnknownMetricFamily(
            ":tensorflow:cc:saved_model:load_attempt_count",
            "Versions that were loaded, or failed to.",
            labels=["model_path", "status"],
        )
        for family, counts in ((requests, self._requests), (loads, self._loads)):
            for values, count in sorted(counts.items()):
                family.add_metric(values, count)
            yield family

    def text(self) -> bytes:
        """Return all metrics, as Prometheus reads them."""
        return generate_latest(self.registry)

    @contextlib.contextmanager
    def load(self, path: Path) -> Iterator[None]:
        """Count the loading of a version."""
        status = "fail"
        try:
            yield
            status = "success"
        finally:
            self._loads[str(path), status] += 1

    def warmup(self, model: str, seconds: float) -> None:
        """Record the time of a warm-up."""
        self._warmup.labels(model).observe(seconds * 1e6)

    def batch(self, rows: int, seconds: float) -> None:
        """Record the size of a batch, and how long its first request waited."""
        self._rows.observe(rows)
        self._queuing.observe(seconds * 1e6)

    def watch_pending(self, count: Callable[[], int]) -> None:
        """Report what `count` returns as the number of runs that run or wait."""
        self._pending.set_function(count)

    @contextlib.contextmanager
    def runtime(self, model: str) -> Iterator[None]:
        """Record the time of a run that succeeds."""
        started = time.monotonic()
        yield
        self._runtime.labels(model).observe((time.monotonic() - started) * 1e6)

    @contextlib.contextmanager
    def request(self, entry: Entry) -> Iterator[None]:
        """Count and log the request that the block answers."""
        started = time.monotonic()
        try:
            yield
        except BaseException:
            entry.status = "CANCELLED" if entry.status == "OK" else entry.status
            raise
        finally:
            seconds = time.monotonic() - started
            if entry.method == "Predict":
                self._count(entry, seconds)
            if access_log.isEnabledFor(logging.INFO):
                fields = {k: v for k, v in dataclasses.asdict(entry).items() if v is not None}
                now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
                milliseconds = round(seconds * 1e3, 1)
                access_log.info(json.dumps({"time": now, **fields, "ms": milliseconds}))

    def _count(self, entry: Entry, seconds: float) -> None:
        model = entry.model if entry.model and entry.model in self.models else ""
        version = "" if entry.version is None else str(entry.version)
        self._requests[model, entry.status, entry.api, version] += 1
        point = "predict" if entry.api == "REST" else "Predict"
        self._latency.labels(model, point, entry.api).observe(seconds * 1e6)


def _histogram(name: str, labels: list[str], registry: CollectorRegistry) -> Histogram:
    return Histogram(
        f"{_PREFIX}{name}", "Microseconds.", labels, buckets=_MICROSECONDS, registry=registry
    )
