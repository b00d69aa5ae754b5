"""The queues in front of a model: alone, with a model that needs no TensorFlow, and in a server."""

import asyncio
import math
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from keras_transformer.serving import session
from keras_transformer.serving.errors import Code, ServingError
from keras_transformer.serving.model import Model
from keras_transformer.serving.parts import Pace
from keras_transformer.serving.queues import Batcher, Batching, Call, FairQueue, Turn, Workers
from keras_transformer.serving.tensors import config_pb2
from tests.serving.conftest import grpc_error, in_event_loop, save, serving


def joining(**settings):
    """Return a decorator for `test(ask, sizes, gate)`; `sizes` are the rows of each run."""

    async def run(test):
        sizes, gate = [], asyncio.Event()
        gate.set()

        async def double(inputs, clients):
            sizes.append(len(inputs["x"]))
            await gate.wait()
            if (inputs["x"] < 0).any():
                raise ServingError(Code.INVALID_ARGUMENT, "negative")
            return {"y": 2 * inputs["x"]}

        batching = Batching(**{"num_batch_threads": 1, "batch_timeout_micros": 20_000, **settings})
        batcher = Batcher(double, batching, asyncio.Semaphore(batching.num_batch_threads))

        def ask(*values, client=None):
            return batcher.submit({"x": np.array(values)}, client or str(values))

        await asyncio.wait_for(test(ask, sizes, gate), 20)

    return lambda test: lambda: asyncio.run(run(test))


def taking_turns(test):
    """Decorate `test(ask, workers, log, gate)`, whose one thread waits for the gate first.

    `ask(name, parts, client)` runs a request whose parts write its name into the log.
    """

    async def run():
        workers, log, gate = Workers(1, 100), [], threading.Event()

        async def ask(name, parts, client="", estimate=0.0, seconds=0.0):
            def part():
                time.sleep(seconds)
                log.append(name)

            turn = Turn([client], estimate=estimate)
            for _ in range(parts):
                await workers.run(part, turn=turn)

        waiting = asyncio.create_task(workers.run(gate.wait))
        try:
            await asyncio.wait_for(test(ask, workers, log, gate), 20)
        finally:
            gate.set()
            await asyncio.gather(waiting, return_exceptions=True)
            workers.stop()

    return lambda: asyncio.run(run())


async def begin(*requests):
    """Return tasks that wait for their first turn."""
    tasks = [asyncio.create_task(request) for request in requests]
    await asyncio.sleep(0.01)
    return tasks


@taking_turns
async def test_a_short_request_waits_for_no_more_than_a_part_of_long_ones(ask, workers, log, gate):
    tasks = await begin(ask("long", 9, estimate=1), ask("long", 9, estimate=1), ask("short", 1))
    gate.set()
    await asyncio.gather(*tasks)
    assert log.index("short") <= 1


@taking_turns
async def test_a_long_request_has_its_turn_among_many_short_ones(ask, workers, log, gate):
    tasks = await begin(ask("long", 1, estimate=9), *(ask("short", 1) for _ in range(20)))
    gate.set()
    await asyncio.gather(*tasks)
    assert log.index("long") < 4


@pytest.mark.parametrize("seconds, order", [(7, "abcd"), (9, "bcda")])
def test_requests_come_in_order_but_for_those_that_take_much_longer(seconds, order):
    @taking_turns
    async def scenario(ask, workers, log, gate):
        requests = {"a": seconds, "b": 1, "c": 2, "d": 1}
        tasks = await begin(*(ask(name, 1, estimate=each) for name, each in requests.items()))
        gate.set()
        await asyncio.gather(*tasks)
        assert "".join(log) == order

    scenario()


@pytest.mark.parametrize("parts", [1, 10])
def test_a_client_owes_nothing_for_the_time_when_nobody_waited(parts):
    @taking_turns
    async def scenario(ask, workers, log, gate):
        gate.set()
        while workers.pending:
            await asyncio.sleep(0.001)
        await ask("before", parts, "early", seconds=0.1 / parts)
        gate.clear()
        waiting = asyncio.create_task(workers.run(gate.wait))
        late = (ask("late", 1, "late", estimate=0.01, seconds=0.005) for _ in range(20))
        tasks = await begin(*late, ask("early", 1, "early", estimate=0.01))
        gate.set()
        await asyncio.gather(waiting, *tasks)
        assert log.index("early") <= parts + 2

    scenario()


def served(arrivals, calls, seconds=0.25):
    """Return whose calls are run, by one thread, each in some seconds.

    `arrivals` has the clients whose calls come before each. A name that ends in * calls again.
    """
    queue, log = FairQueue(), []

    def wait(client):
        queue.waiting.append(Call(Turn([client], estimate=seconds), function=None, answer=None))

    for number in range(calls):
        for client in arrivals(number):
            wait(client)
        call = queue.begin()
        [client] = call.turn.clients
        log.append(client)
        if client.endswith("*"):
            wait(client)
        queue.end(call, seconds)
    return log


def test_a_client_saves_no_time_while_it_is_away():
    # With the time of all that it let pass, it would have the next 30 turns.
    log = served(lambda number: ["a*"] * (number == 0) + ["b*"] * (number == 30), 60)
    assert log[:30] == 30 * ["a*"]
    assert 14 <= log[30:].count("b*") <= 16


@pytest.mark.parametrize("rate", [1, 2])
def test_new_clients_do_not_keep_an_old_one_from_its_turns(rate):
    log = served(
        lambda number: ["a*"] * (number == 0) + [f"{number}-{i}" for i in range(rate)], 400
    )
    turns = [number for number, client in enumerate(log) if client == "a*"]
    assert len(turns) >= 5


@taking_turns
async def test_a_client_that_had_little_time_precedes_one_that_had_much(ask, workers, log, gate):
    gate.set()
    await ask("first", 1, "greedy", seconds=0.02)
    gate.clear()
    waiting = asyncio.create_task(workers.run(gate.wait))
    greedy = (ask("greedy", 1, "greedy") for _ in range(9))
    tasks = await begin(*greedy, ask("modest", 2, "modest", estimate=1))
    gate.set()
    await asyncio.gather(waiting, *tasks)
    assert log.index("modest") <= 2
    assert len(log) == 12


@taking_turns
async def test_a_client_may_have_half_of_the_places(ask, workers, log, gate):
    tasks = await begin(*(ask("greedy", 1, "greedy") for _ in range(50)))
    with pytest.raises(ServingError, match="Threadpool Exhausted"):
        await ask("greedy", 1, "greedy")
    tasks += await begin(*(ask(f"{i}", 1, f"{i}") for i in range(49)))
    with pytest.raises(ServingError, match="Threadpool Exhausted") as error:
        await ask("late", 1, "late")
    assert (error.value.code, error.value.http_status) == (Code.RESOURCE_EXHAUSTED, 503)
    gate.set()
    await asyncio.gather(*tasks)
    assert len(log) == 99


@taking_turns
async def test_clients_that_have_gone_are_forgotten(ask, workers, log, gate):
    tasks = await begin(*(ask(f"{i}", 1, f"{i}", seconds=0.001) for i in range(40)))
    gate.set()
    await asyncio.gather(*tasks)
    while workers.pending:
        await asyncio.sleep(0.001)
    assert not workers._queue._seconds
    assert workers._queue._clock == 0


@taking_turns
async def test_the_rest_of_a_request_is_dropped_when_its_client_leaves(ask, workers, log, gate):
    tasks = await begin(ask("left", 50, seconds=0.01), ask("gone", 1), ask("here", 1))
    tasks[1].cancel()
    await asyncio.wait(tasks[1:2])
    gate.set()
    await tasks[2]
    tasks[0].cancel()
    await asyncio.wait(tasks)
    parts = len(log)
    while workers.pending:
        await asyncio.sleep(0.01)
    assert "gone" not in log
    assert len(log) <= parts + 1 < 50


@in_event_loop
async def test_threads_are_replaced_and_never_more_run_than_were_asked_for():
    workers, threads, running, most = Workers(2, 1000), set(), [], []

    def note():
        running.append(None)
        most.append(len(running))
        threads.add(threading.current_thread())
        time.sleep(0.001)
        running.pop()

    for _ in range(3):
        await asyncio.gather(*(workers.run(note) for _ in range(150)))
    assert max(most) == 2
    assert len(threads) >= 2 * 3  # Replaced after 128 calls, before the next one.
    workers.stop()


@in_event_loop
async def test_a_client_that_leaves_replaces_no_thread():
    workers, gate, before = Workers(2, 1000), threading.Event(), {*threading.enumerate()}
    stuck = [asyncio.create_task(workers.run(gate.wait)) for _ in range(2)]
    for _ in range(3):
        tasks = await begin(*(workers.run(gate.wait) for _ in range(150)))
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
    assert len({*threading.enumerate()} - before) == 2
    gate.set()
    assert await asyncio.gather(*stuck) == [True, True]
    workers.stop()


@in_event_loop
async def test_without_a_new_thread_the_old_ones_go_on(monkeypatch):
    def refuse(self):
        raise RuntimeError("can't start new thread")

    workers = Workers(1, 8)
    for _ in range(64):
        await workers.run(int)
    monkeypatch.setattr(threading.Thread, "start", refuse)
    assert [await workers.run(int) for _ in range(20)] == 20 * [0]
    with pytest.raises(RuntimeError, match="start new thread"):
        await Workers(1, 8).run(int)
    workers.stop()


@in_event_loop
async def test_a_call_that_no_thread_could_run_takes_no_place(monkeypatch):
    workers = Workers(1, 8)
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", lambda self: 1 / 0)
        for _ in range(9):
            with pytest.raises(ZeroDivisionError):
                await workers.run(int)
    assert workers.pending == 0
    assert await workers.run(int) == 0
    workers.stop()


@taking_turns
async def test_requests_that_wait_and_run_are_answered_when_the_workers_stop(
    ask, workers, log, gate
):
    tasks = await begin(workers.run(gate.wait), ask("waits", 1))
    workers.stop()
    answers = await asyncio.gather(*tasks, ask("comes", 1), return_exceptions=True)
    assert [answer.code for answer in answers] == [Code.UNAVAILABLE] * 3
    assert log == []


@in_event_loop
async def test_a_batch_is_no_longer_than_a_part():
    sizes = []

    async def count(inputs, clients):
        sizes.append((len(inputs["x"]), sorted(clients)))
        return {"y": inputs["x"]}

    settings = Batching(batch_timeout_micros=20_000)
    batcher = Batcher(
        count, settings, asyncio.Semaphore(1), is_slow=lambda *units: math.prod(units) > 3
    )
    requests = (batcher.submit({"x": np.arange(rows)}, f"c{rows}") for rows in (2, 1, 3))
    await asyncio.gather(*requests)
    assert sizes == [(3, ["c1", "c2"]), (3, ["c3"])]


def test_a_gpu_is_given_large_batches_after_single_rows():
    """Although each of them took nearly the time of a batch."""
    paces = Pace(), Pace(on_gpu=True)
    for pace in paces:
        for _ in range(50):
            pace.add(rows=1, longest_bytes=80, seconds=0.13)
    assert [pace.is_slow(2, 80) for pace in paces] == [True, False]
    assert not paces[1].is_slow(256, 80)
    assert paces[1].is_slow(256, 800) and paces[1].is_slow(1, 800)


async def occupy(ask, sizes, gate):
    """Return a request that runs until the gate opens."""
    gate.clear()
    first = asyncio.create_task(ask(0))
    while not sizes:
        await asyncio.sleep(0.01)
    return first


def values(answers):
    return [answer["y"].tolist() for answer in answers]


@joining()
async def test_requests_are_joined_in_order_and_answered_apart(ask, sizes, gate):
    answers = await asyncio.gather(ask(1, 2), ask(3), ask(4, 5, 6))
    assert values(answers) == [[2, 4], [6], [8, 10, 12]]
    assert sizes == [6]


@joining(max_batch_size=3)
async def test_a_full_batch_does_not_wait(ask, sizes, gate):
    answers = await asyncio.gather(*map(ask, range(7)))
    assert values(answers) == [[2 * i] for i in range(7)]
    assert sizes == [3, 3, 1]  # The last waits for others, in vain.


@joining(max_batch_size=3)
async def test_a_request_is_never_split(ask, sizes, gate):
    await asyncio.gather(ask(1, 2), ask(3, 4), ask(5))
    assert sizes == [2, 3]


@joining()
async def test_one_bad_request_fails_alone(ask, sizes, gate):
    answers = await asyncio.gather(ask(1), ask(-2, 3), ask(4), return_exceptions=True)
    assert values([answers[0], answers[2]]) == [[2], [8]]
    assert answers[1].message == "negative"
    assert sizes == [4, 1, 2, 1]


@joining()
async def test_requests_of_other_shapes_do_not_disturb(ask, sizes, gate):
    answers = await asyncio.gather(ask(1), ask([1, 2]), ask(3))
    assert values(answers) == [[2], [[2, 4]], [6]]


@joining(max_batch_size=3, max_enqueued_batches=2)
async def test_a_client_may_have_half_of_the_queue(ask, sizes, gate):
    first = await occupy(ask, sizes, gate)
    waiting = [asyncio.create_task(ask(i, client="greedy")) for i in range(3)]
    await asyncio.sleep(0)
    with pytest.raises(ServingError, match="queue .* is full"):
        await ask(7, client="greedy")
    other = asyncio.create_task(ask(8))
    await asyncio.sleep(0)
    gate.set()
    assert values(await asyncio.gather(first, *waiting, other))[-1] == [16]


@joining(max_batch_size=3, max_enqueued_batches=2)
async def test_a_full_queue_refuses_and_recovers(ask, sizes, gate):
    first = await occupy(ask, sizes, gate)
    waiting = [asyncio.create_task(ask(i)) for i in range(6)]
    await asyncio.sleep(0)
    with pytest.raises(ServingError, match="queue .* is full") as error:
        await ask(7)
    assert (error.value.code, error.value.http_status) == (Code.UNAVAILABLE, 503)
    gate.set()
    assert values(await asyncio.gather(first, *waiting)) == [[0], *([2 * i] for i in range(6))]
    assert values([await ask(8)]) == [[16]]


@joining(max_batch_size=1, max_enqueued_batches=1)
async def test_a_client_that_leaves_frees_its_place(ask, sizes, gate):
    first = await occupy(ask, sizes, gate)
    gone = asyncio.create_task(ask(1))
    await asyncio.sleep(0)
    gone.cancel()
    await asyncio.sleep(0)
    last = asyncio.create_task(ask(2))
    await asyncio.sleep(0.05)
    gate.set()
    assert values(await asyncio.gather(first, last)) == [[0], [4]]
    assert sizes == [1, 1]


@joining(batch_timeout_micros=10**9)
async def test_zero_rows_need_no_companion(ask, sizes, gate):
    assert values([await ask()]) == [[]]


@pytest.mark.parametrize("name", ["max_batch_size", "max_enqueued_batches", "num_batch_threads"])
def test_sizes_must_be_positive(name):
    with pytest.raises(ValueError, match=f"{name} must be positive, received 0"):
        Batching(**{name: 0})


def test_a_versions_file_precedes_the_shared_one(tmp_path):
    (tmp_path / "1").mkdir()
    (tmp_path / "serving").mkdir()
    assert Batching.read(tmp_path / "1") == Batching()
    (tmp_path / "serving/batching.config").write_text(
        "# max_batch_size { value: 1 }\nmax_batch_size { value: 9 }\nnum_batch_threads {value:3}\n"
    )
    (tmp_path / "1/batching_params.pbtxt").write_text("max_batch_size { value: 32 }\n")
    assert Batching.read(tmp_path / "1") == Batching(max_batch_size=32, num_batch_threads=3)


@pytest.mark.parametrize(
    "text",
    [
        "max_batch_size { value: -1 }",
        "max_batch_size 8",
        "allowed_batch_sizes: 8",
        "batch_size { value: 8 }",
    ],
)
def test_a_file_with_anything_else_is_refused(text, tmp_path):
    path = tmp_path / "batching_params.pbtxt"
    path.write_text(f"batch_timeout_micros {{ value: 0 }} # at once\n{text}\n")
    with pytest.raises(ValueError, match="must be positive, received -1|received '[a-z_]*batch"):
        Batching.read(tmp_path)


def test_settings_may_share_a_line(tmp_path):
    path = tmp_path / "batching_params.pbtxt"
    path.write_text("max_batch_size { value: 8 } batch_timeout_micros: { value: 0; }")
    assert Batching.read(tmp_path) == Batching(max_batch_size=8, batch_timeout_micros=0)


@pytest.fixture(scope="module")
def batched(tmp_path_factory):
    """A client of a server whose batches have up to 8 rows and wait for a fifth of a second."""
    base = tmp_path_factory.mktemp("batched") / "shout"
    version = save(base / "1")
    (version / "batching_params.pbtxt").write_text(
        "max_batch_size { value: 8 }\nbatch_timeout_micros { value: 200000 }\n"
        "max_enqueued_batches { value: 2 }\nnum_batch_threads { value: 1 }\n"
    )
    with serving(base, batching=True) as client:
        yield client


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


def test_what_fits_no_batch_is_refused(batched):
    status, answer = batched.post({"inputs": 9 * ["a"]})
    assert (status, "Task size 9 is larger than maximum" in answer["error"]) == (400, True)
    assert batched.post({"inputs": 8 * ["a"]})[0] == 200


def test_inputs_of_different_lengths_are_refused(batched):
    body = {"inputs": {"text": ["a"], "translation": ["b", "c"]}, "signature_name": "pair"}
    assert batched.post(body)[0] == 400


def test_an_output_of_other_length_is_still_answered(batched):
    def first(text):
        return batched.predict({"text": [text, "x"]}, "first")["translation"]

    assert at_once(first, ["a", "b"]) == [[b"a"], [b"b"]]


@pytest.fixture
def gpu(monkeypatch):
    """A GPU with 64 MiB, as far as the server sees. It yields the settings of each session."""
    start, configs = session.Session.__init__, []

    def started(self, graph=b""):
        configs.append(config_pb2.ConfigProto.FromString(session._config.SerializeToString()))
        start(self, graph)
        self.gpus = [64 << 20]

    monkeypatch.setattr(session.Session, "__init__", started)
    monkeypatch.setattr(session, "_gpu_name", lambda: "NVIDIA H200")
    session.has_gpu.cache_clear()
    yield configs
    session.has_gpu.cache_clear()


def test_a_gpu_has_large_parts_and_its_own_memory(gpu, tmp_path, monkeypatch):
    save(tmp_path / "1", row_wise=("score", "heads"))
    run, rows = Model.run, []

    def count(self, signature, inputs):
        rows.append(len(inputs["text"]))
        return run(self, signature, inputs)

    monkeypatch.setattr(Model, "run", count)
    with serving(tmp_path, gpu_memory_fraction=0.25) as client:
        assert str(client.server.server).endswith(", serving on GPU:0 (NVIDIA H200)")
        client.predict({"text": 600 * ["a"]}, "score")
        assert rows == [256, 256, 88]
        # A quarter of the GPU's memory is for two runs.
        _, message = grpc_error(client.predict, {"text": ["a" * 300]}, "heads")
        assert "may need 11 MiB for heads, and a request may take 8 MiB here" in message
    assert {each.gpu_options.per_process_gpu_memory_fraction for each in gpu} == {0.25}


def test_small_batches_on_a_gpu_are_reported(gpu, tmp_path, caplog):
    version = save(tmp_path / "1")
    for text, messages in {
        "": [],
        "max_batch_size { value: 64 }": [
            "max_batch_size of shout is 64; a GPU answers more requests with 256"
        ],
    }.items():
        (version / "batching_params.pbtxt").write_text(text)
        with serving(tmp_path, batching=True) as client:
            client.predict({"text": 64 * ["a"]})
        warnings = [each.message for each in caplog.records if each.levelname == "WARNING"]
        assert warnings == messages
