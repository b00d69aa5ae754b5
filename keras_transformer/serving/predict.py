"""Answering a Predict request over either protocol."""

import asyncio
import functools
import math
from collections.abc import Mapping, Sequence

import numpy as np

from keras_transformer.serving.errors import Code, ServingError, invalid
from keras_transformer.serving.metrics import Metrics
from keras_transformer.serving.parts import Arrays, join
from keras_transformer.serving.queues import Batcher, Turn, Workers
from keras_transformer.serving.session import usual_batch_size
from keras_transformer.serving.settings import Settings
from keras_transformer.serving.versions import Served, Versions
from keras_transformer.utils.memory import available_memory

_MESSAGE_BYTES = 64  # Of a value of an answer, while it becomes a message.


class Predictor:
    """Runs requests on the version that they ask for, as many at a time as there are threads."""

    def __init__(self, settings: Settings, metrics: Metrics, threads: int):
        self.settings, self._metrics = settings, metrics
        self.versions = Versions(settings, metrics)
        self._workers = Workers(threads, settings.limits.waiting)
        self._threads, self._memory = threads, available_memory() // (4 * threads)
        self._most_rows = usual_batch_size()  # Of a part; more are no faster.
        metrics.watch_pending(lambda: self._workers.pending)

    async def run(
        self,
        served: Served,
        signature: str,
        inputs: Mapping[str, np.ndarray],
        seconds: float | None = None,
        output_filter: Sequence[str] = (),
        client: str = "",
        most_values: float = math.inf,
    ) -> dict[str, np.ndarray]:
        """Return the outputs of a signature.

        Args:
            served: The version.
            signature: One of its signatures.
            inputs: The signature's inputs.
            seconds: Timeout in seconds; None for no limit.
            output_filter: The outputs to return; empty for all.
            client: The client's address.
            most_values: Values that the answer may have, if memory allows as many.

        Raises:
            ServingError: If the request does not fit the signature, the server is busy, the model
                fails, or the request times out.
        """
        if signature not in served.model:
            raise ServingError(
                Code.FAILED_PRECONDITION, f'Serving signature key "{signature}" not found.'
            )
        self._check_outputs(served, signature, output_filter)
        model, batching = served.model, served.batching
        fitted = model.fit(signature, inputs, flatten=batching is None)
        estimate = model.estimates[signature]
        most = self.settings.limits.rows // estimate.heads
        if estimate.heads > 1:  # A short text's attention would be as large as a batch's longest.
            batching = None
        elif batching is not None:
            most = min(most, batching.max_batch_size)
        read_bytes = estimate.read_bytes(fitted)
        check_rows(len(read_bytes), max(most, 1))
        longest_bytes = int(max(read_bytes, default=0))
        is_slow = estimate.pace.is_slow(len(read_bytes), longest_bytes)
        try:
            async with asyncio.timeout(seconds):
                if batching is None or is_slow:  # It would delay other requests.
                    outputs = await self._call(
                        served, signature, fitted, [client], output_filter, most_values
                    )
                else:
                    batcher = self._batcher(served, signature)
                    outputs = await batcher.submit(fitted, client, longest_bytes)
        except TimeoutError as error:
            raise ServingError(
                Code.DEADLINE_EXCEEDED, "Timed out waiting for notification"
            ) from error
        outputs = {name: outputs[name] for name in output_filter or outputs}
        self._check_values(outputs, most_values)
        return outputs

    async def _call(
        self,
        served: Served,
        signature: str,
        inputs: Arrays,
        clients: Sequence[str],
        output_filter: Sequence[str] = (),
        most_values: float = math.inf,
    ) -> Arrays:
        """Run a signature in parts, which take turns with those of other requests."""
        model, turn = served.model, Turn(clients)
        estimate = model.estimates[signature]
        read_bytes = estimate.read_bytes(inputs)
        is_row_wise = estimate.is_row_wise(inputs)
        most_memory = self._memory
        if model.gpu_memory is not None:
            most_memory = min(most_memory, model.gpu_memory // (4 * self._threads))
        parts: list[Arrays] = []
        start = values = 0
        while start < len(read_bytes) or not parts:
            rows, part = len(read_bytes), inputs
            if rows and is_row_wise:
                left = {name: array[start:] for name, array in inputs.items()}
                rows = estimate.next_rows(left, read_bytes[start:], self._most_rows, most_memory)
                part = {name: array[start : start + rows] for name, array in inputs.items()}
            longest_bytes = int(max(read_bytes[start : start + rows], default=0))
            before, turn.estimate = turn.seconds, estimate.pace.seconds(rows, longest_bytes)
            with self._metrics.runtime(served.name):
                outputs = await self._workers.run(model.run, signature, part, turn=turn)
            if rows:
                estimate.pace.add(rows, longest_bytes, turn.seconds - before)
            # A run of fewer outputs would be compiled for each choice.
            outputs = {name: outputs[name] for name in output_filter or outputs}
            values = self._check_values(outputs, most_values, values)
            parts.append(outputs)
            start += rows
        return join(parts)

    def _check_values(self, outputs: Arrays, most: float, before: int = 0) -> int:
        """Return the number of values with those of a part."""
        values = before + sum(array.size for array in outputs.values())
        most = min(most, self._memory // _MESSAGE_BYTES)
        if values > most:
            raise invalid(
                f"An answer must have at most {most} values, and this one has {values} or more. "
                "Ask for fewer or shorter rows."
            )
        return values

    def _batcher(self, served: Served, signature: str) -> Batcher:
        if signature not in served.batchers:
            assert served.batching is not None
            run = functools.partial(self._call, served, signature)
            is_slow = served.model.estimates[signature].pace.is_slow
            served.batchers[signature] = Batcher(
                run, served.batching, served.free, self._metrics.batch, is_slow
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
        """Drop all requests."""
        self._workers.stop()


def check_rows(rows: int, limit: int) -> None:
    """Check the number of rows of a request.

    Raises:
        ServingError: If there are too many.
    """
    if rows > limit:
        raise invalid(f"Task size {rows} is larger than maximum input batch size {limit}")
