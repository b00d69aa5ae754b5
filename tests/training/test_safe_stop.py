"""Signals end training after a step that is saved."""

import signal
import threading

import pytest

from keras_transformer.training.stopping import SafeStop


class Ended(Exception):
    pass


def end(number, frame):
    raise Ended(number)


@pytest.fixture(params=[signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def number(request):
    before = signal.signal(request.param, end)
    yield request.param
    signal.signal(request.param, before)


@pytest.fixture
def saved():
    return []


@pytest.fixture
def stop(saved):
    """The callback in an epoch of three steps, which has begun."""
    stop = SafeStop(lambda: saved.append(True))
    stop.set_params({"steps": 3})
    stop.on_epoch_begin(0)
    return stop


def test_a_signal_waits_for_the_end_of_the_step_which_is_saved(number, stop, saved, caplog):
    with pytest.raises(Ended, match=str(int(number))), stop.installed():
        stop.on_train_batch_end(0)
        signal.raise_signal(number)
        assert caplog.messages[0].startswith(f"{number.name}: the run ends after this step, and ")
        assert saved == []
        stop.on_train_batch_end(1)
    assert saved == [True]
    assert signal.getsignal(number) is end


def test_a_second_signal_ends_the_step(number, stop, saved):
    with pytest.raises(Ended), stop.installed():
        signal.raise_signal(number)
        signal.raise_signal(number)
    assert saved == []


def test_the_last_step_of_an_epoch_has_no_checkpoint_and_validation_ends_at_once(
    number, stop, saved
):
    with pytest.raises(Ended), stop.installed():
        signal.raise_signal(number)
        stop.on_train_batch_end(2)
    with pytest.raises(Ended), stop.installed():
        signal.raise_signal(number)
    assert saved == []


def test_before_the_first_step_a_signal_ends_the_run_at_once(number):
    with pytest.raises(Ended), SafeStop(pytest.fail).installed():
        signal.raise_signal(number)


@pytest.mark.parametrize("default", [signal.SIG_DFL, signal.SIG_IGN])
def test_a_signal_without_a_handler_stays_as_it_is(number, stop, default):
    signal.signal(number, default)
    with stop.installed():
        assert signal.getsignal(number) is default


def test_without_a_signal_the_handlers_come_back(number, stop, saved):
    with stop.installed():
        assert signal.getsignal(number) is not end
        stop.on_train_batch_end(0)
    assert signal.getsignal(number) is end
    assert saved == []


def test_another_thread_changes_nothing(number, stop):
    seen = []

    def work():
        with stop.installed():
            seen.append(signal.getsignal(number))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [end]
