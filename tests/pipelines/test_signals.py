"""Signals that end a command."""

import signal
import threading

import pytest

from pipelines.cli.errors import Stopped, stop_on_signals


def ignore(number, frame):
    pytest.fail("a test's handler was called")


@pytest.fixture(params=[signal.SIGTERM, signal.SIGHUP])
def number(request):
    before = signal.signal(request.param, ignore)
    yield request.param
    signal.signal(request.param, before)


def test_a_signal_raises_and_its_handler_comes_back_at_once(number):
    with pytest.raises(Stopped, match=signal.Signals(number).name) as error, stop_on_signals():
        try:
            signal.raise_signal(number)
        finally:
            assert signal.getsignal(number) is ignore
    assert error.value.number == number
    assert signal.getsignal(number) is ignore


def test_without_a_signal_the_handlers_come_back(number):
    with stop_on_signals():
        assert signal.getsignal(number) is not ignore
    assert signal.getsignal(number) is ignore


def test_an_ignored_signal_stays_ignored(number):
    signal.signal(number, signal.SIG_IGN)
    with stop_on_signals():
        signal.raise_signal(number)


def test_another_thread_changes_nothing(number):
    seen = []

    def work():
        with stop_on_signals():
            seen.append(signal.getsignal(number))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [ignore]
