"""Answering a Predict request over either protocol."""

import asyncio
import functools
import math
from collections.abc import Mapping, Sequence

import numpy as np

from keras_transformer.serving.errors import Code, ServingError, invalid
from keras_transformer.serving.metrics import Metrics
from keras_transformer.serving.model import DOCUMENT, Model
from keras_transformer.serving.parts import Arrays, join, lengths
from keras_transformer.serving.queues import Batcher, Turn, Workers
from keras_transformer.serving.session import usual_batch_size
from keras_transformer.serving.settings import Settings
from keras_transformer.serving.versions import Served, Versions
from keras_transformer.utils.memory import available_memory

_BYTES_PER_VALUE = 64  # Of an answer, while it becomes a message.
_MOST_STRETCH = 1.5  # How much longer than other parts the last one may take.


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
        check_document(model, signature, fitted)
        heads = model.heads(signature)
        most = self.settings.limits.rows // heads
        if heads > 1:  # A short text's attention would have the size of the longest in the batch.
            batching = None
        elif batching is not None:
            most = min(most, batching.max_batch_size)
        sizes = model.lengths(signature, fitted)
        check_rows(len(sizes), max(most, 1))
        longest = int(max(sizes, default=0))
        is_slow = model.paces[signature].is_slow(len(sizes), longest)
        try:
            async with asyncio.timeout(seconds):
                if batching is None or is_slow:  # It would delay other requests.
                    outputs = await self._call(
                        served, signature, fitted, [client], output_filter, most_values
                    )
                else:
                    batcher = self._batcher(served, signature)
                    outputs = await batcher.submit(fitted, client, longest)
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
        sizes = model.lengths(signature, inputs)
        pace = model.paces[signature]
        is_row_wise = model.is_row_wise(signature, inputs)
        parts: list[Arrays] = []
        start = values = 0
        while start < len(sizes) or not parts:
            rows, part = len(sizes), inputs
            if rows and is_row_wise:
                left = {name: array[start:] for name, array in inputs.items()}
                rows = self._next_rows(model, signature, left, sizes[start:])
                part = {name: array[start : start + rows] for name, array in inputs.items()}
            longest = int(max(sizes[start : start + rows], default=0))
            before, turn.estimate = turn.seconds, pace.seconds(rows, longest)
            with self._metrics.runtime(served.name):
                outputs = await self._workers.run(model.run, signature, part, turn=turn)
            if rows:
                pace.add(rows, longest, turn.seconds - before)
            # A run of fewer outputs would be compiled for each choice.
            outputs = {name: outputs[name] for name in output_filter or outputs}
            values = self._check_values(outputs, most_values, values)
            parts.append(outputs)
            start += rows
        return join(parts)

    def _next_rows(self, model: Model, signature: str, inputs: Arrays, sizes: np.ndarray) -> int:
        """Return how many rows the next part has.

        Raises:
            ServingError: If even one row needs too much memory.
        """
        pace = model.paces[signature]
        # A small part after a large one would take longer than both together.
        stretch = 1 if pace.is_slow(len(sizes) / _MOST_STRETCH, max(sizes)) else _MOST_STRETCH
        longest = rows = 0
        searched = longest_searched = 0  # Of a document, its sentences.
        most = self._memory
        if model.gpu_memory is not None:
            most = min(most, model.gpu_memory // (4 * self._threads))
        for row, size in enumerate(sizes[: self._most_rows].tolist()):
            longest = max(longest, size)
            is_document = signature == DOCUMENT
            count, length = model.sentences(inputs["text"][row]) if is_document else (1, size)
            searched, longest_searched = searched + count, max(longest_searched, length)
            needed = model.memory(signature, longest_searched, searched)
            is_slow = pace.is_slow((rows + 1) / stretch, longest)
            if rows and (is_slow or needed > most):
                break
            if needed > most:
                raise invalid(
                    f"A text of {size} bytes may need {needed >> 20} MiB for {signature}, and a "
                    f"request may take {most >> 20} MiB here. Send a shorter text."
                )
            rows += 1
        return rows

    def _check_values(self, outputs: Arrays, most: float, before: int = 0) -> int:
        """Return the number of values with those of a part."""
        values = before + sum(array.size for array in outputs.values())
        most = min(most, self._memory // _BYTES_PER_VALUE)
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
            pace = served.model.paces[signature]
            served.batchers[signature] = Batcher(
                run, served.batching, served.free, self._metrics.batch, pace.is_slow
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


def check_document(model: Model, signature: str, inputs: Arrays) -> None:
    """Check that no document keeps others waiting for long.

    Raises:
        ServingError: If one is too long.
    """
    if signature != DOCUMENT:
        return
    longest, most = max(lengths(inputs), default=0), model.most_bytes(signature)
    if longest > most:
        raise invalid(
            f"A text of {signature} may have {most} bytes, received {longest}. Break it between "
            "sentences."
        )


def check_rows(rows: int, limit: int) -> None:
    """Check the number of rows of a request.

    Raises:
        ServingError: If there are too many.
    """
    if rows > limit:
        raise invalid(f"Task size {rows} is larger than maximum input batch size {limit}")
