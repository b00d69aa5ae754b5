"""Answering a Predict request over either protocol."""

import asyncio
import functools
from collections.abc import Mapping, Sequence

import numpy as np

from keras_transformer.serving.errors import Code, ServingError, invalid
from keras_transformer.serving.metrics import Metrics
from keras_transformer.serving.queues import Batcher, Workers
from keras_transformer.serving.settings import Limits, Settings
from keras_transformer.serving.versions import Served, Versions


class Predictor:
    """Runs requests on the version that they ask for.

    Attributes:
        versions: The versions of all models.

    Args:
        settings: The server's settings.
        metrics: The server's metrics.
        threads: Runs of models at a time.
    """

    def __init__(self, settings: Settings, metrics: Metrics, threads: int):
        self.settings, self._metrics = settings, metrics
        self.versions = Versions(settings, metrics)
        self._workers = Workers(threads, settings.limits.waiting)
        metrics.watch_pending(lambda: self._workers.pending)

    async def run(
        self,
        served: Served,
        signature: str,
        inputs: Mapping[str, np.ndarray],
        seconds: float | None = None,
        output_filter: Sequence[str] = (),
    ) -> dict[str, np.ndarray]:
        """Return the outputs of a signature.

        Args:
            served: The version.
            signature: One of its signatures.
            inputs: The signature's inputs.
            seconds: Timeout in seconds; None for no limit.
            output_filter: The outputs to return; empty for all.

        Raises:
            ServingError: If the request does not fit the signature, the server is busy, the model
                fails, or the request times out.
        """
        if signature not in served.model:
            raise ServingError(
                Code.FAILED_PRECONDITION, f'Serving signature key "{signature}" not found.'
            )
        self._check_outputs(served, signature, output_filter)
        fitted = served.model.fit(signature, inputs, flatten=served.batching is None)
        rows = max((len(array) for array in fitted.values() if array.ndim), default=1)
        heads = served.model.heads(signature)
        check_rows(rows, max(self.settings.limits.rows // heads, 1))
        try:
            async with asyncio.timeout(seconds):
                # The attention of a short text would have the size of the longest in the batch.
                if served.batching is None or heads > 1:
                    outputs = await self._call(served, signature, fitted)
                else:
                    outputs = await self._batcher(served, signature).submit(fitted)
        except TimeoutError as error:
            raise ServingError(
                Code.DEADLINE_EXCEEDED, "Timed out waiting for notification"
            ) from error
        return {name: outputs[name] for name in output_filter or outputs}

    async def _call(
        self, served: Served, signature: str, inputs: Mapping[str, np.ndarray]
    ) -> Mapping[str, np.ndarray]:
        with self._metrics.runtime(served.name):
            return await self._workers.run(served.model.run, signature, inputs)

    def _batcher(self, served: Served, signature: str) -> Batcher:
        if signature not in served.batchers:
            assert served.batching is not None
            run = functools.partial(self._call, served, signature)
            served.batchers[signature] = Batcher(
                run, served.batching, served.free, self._metrics.batch
            )
        return served.batchers[signature]

    def _check_outputs(self, served: Served, signature: str, names: Sequence[str]) -> None:
        known = served.model.outputs(signature)
        for name in names:
            if name not in known:
                raise invalid(
                    f"output tensor alias not found in signature: {name} Outputs expected to be in "
                    f"the set {{{','.join(sorted(known))}}}."
                )
            if list(names).count(name) > 1:
                raise invalid(f"duplicate output tensor alias: {name}")

    def stop(self) -> None:
        """Drop requests that have not begun."""
        self._workers.stop()


def check_rows(rows: int, limit: int) -> None:
    """Check the number of rows of a request.

    Raises:
        ServingError: If there are too many.
    """
    if rows > limit:
        raise invalid(f"Task size {rows} is larger than maximum input batch size {limit}")


def check_values(outputs: Mapping[str, np.ndarray], limits: Limits) -> None:
    """Check the size of an answer before it becomes text.

    Raises:
        ServingError: If it has too many numbers and strings.
    """
    values = sum(array.size for array in outputs.values())
    if values > limits.answer_values:
        raise invalid(
            f"An answer must have at most {limits.answer_values} values, and this one has "
            f"{values}. Ask for fewer or shorter rows, or use gRPC."
        )
