import itertools

import pytest
import tensorflow as tf

from benchmarks.native_host import serve


def as_number(text):
    """Fail the whole request if a text is not a number."""
    return tf.strings.as_string(tf.strings.to_number(text, tf.int32) + 1)


@pytest.mark.slow
def test_an_error_answers_only_its_own_request(saved):
    path = saved(as_number)
    one, two, three = sorted(serve(path, [[b"1", b"41"], [b"1", b"me"], []]))
    assert (one.number, one.error, one.texts) == (0, None, [b"2", b"42"])
    assert (two.number, two.texts) == (1, [])
    assert "could not correctly convert string: me" in two.error
    assert (three.number, three.error, three.texts) == (2, None, [])
    assert 0 < one.seconds < 60
    assert 1e7 < one.resident < 1e11


@pytest.mark.slow
def test_the_host_frees_requests(saved):
    answers = serve(saved(tf.strings.upper), [[b"a" * 2**20]] * 400, threads=2)
    resident = [answer.resident for answer in answers if answer.texts == [b"A" * 2**20]]
    assert len(resident) == 400
    assert max(resident) < resident[0] + 100 * 2**20


def test_compiled_functions_run_only_if_the_server_allows_them(saved):
    @tf.function(jit_compile=True)
    def plus_one(numbers):
        return numbers + 1

    def compiled(text):
        return tf.strings.as_string(plus_one(tf.strings.to_number(text, tf.int32)))

    path = saved(compiled)
    (answer,) = serve(path, [[b"41"]], xla=True)
    assert (answer.error, answer.texts) == (None, [b"42"])
    (answer,) = serve(path, [[b"41"]])
    assert "XLA compilation disabled" in answer.error


def test_a_caller_may_stop_before_the_end(saved):
    answers = serve(saved(as_number), itertools.repeat([b"1"]), threads=2)
    assert [next(answers).texts for _ in range(3)] == [[b"2"]] * 3
    answers.close()


def test_a_failure_of_the_host_is_reported(saved):
    with pytest.raises(RuntimeError, match="(?s)code 1.*0: expected a number of threads"):
        list(serve(saved(as_number), [[b"1"]], threads=0))


def test_a_failure_of_the_requests_is_reported(saved):
    def requests():
        yield [b"1"]
        raise OSError("disk on fire")

    with pytest.raises(OSError, match="disk on fire"):
        list(serve(saved(as_number), requests()))
