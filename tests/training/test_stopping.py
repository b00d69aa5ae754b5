"""What stops training before its last epoch."""

import math
import signal
import threading
import types

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_transformer.data import TokenBatches, encode_pairs
from keras_transformer.training import train
from keras_transformer.training.checkpoints import Checkpoints
from keras_transformer.training.resume import EpochState
from keras_transformer.training.stopping import FiniteLoss, SafeStop
from tests.helpers.tiny import tiny_tokenizer, toy_experiment, toy_pairs, write_toy_text


@pytest.fixture
def guard(tmp_path):
    """The guard of a small model in the third of its epochs, which have six batches."""
    batches = TokenBatches(encode_pairs(toy_pairs(60), tiny_tokenizer()), 60, seed=1)
    state = EpochState(batches, Checkpoints(tmp_path, keep=1))
    guard = FiniteLoss(state, tiny_tokenizer())
    model = keras.Sequential([keras.Input([1]), keras.layers.Dense(1, name="dense")])
    model.compile("adam", "mse")
    model.optimizer.build(model.trainable_variables)
    for callback in (state, guard):
        callback.set_model(model)
    state.on_epoch_begin(2)
    return guard


@pytest.mark.parametrize("loss", [math.nan, math.inf])
def test_a_loss_that_is_not_finite_ends_training_and_names_the_batch(guard, loss):
    guard.on_train_batch_end(3, {"loss": 5.0})
    inputs = list(guard.state.batches.dataset())[4][0]
    first, *rest = guard.tokenizer.detokenize(inputs["source"]).numpy()
    with pytest.raises(FloatingPointError) as error:
        guard.on_train_batch_end(4, {"loss": loss})
    message = str(error.value)
    assert message.startswith(
        f"The loss must be finite, received {loss}, in epoch 3 after step 5 of 6, whose batch has "
        f"the sentences {first.decode()!r}, "
    )
    assert f" and {len(rest) - 2} more. No checkpoint has this step." in message


@pytest.mark.parametrize(("place", "step"), [("weight", 6), ("optimizer", 4)])
def test_weights_that_are_not_finite_end_training_with_the_epoch(guard, place, step):
    """A limit may end an epoch early."""
    guard.state.on_train_batch_end(step - 1)
    guard.on_epoch_end(2, {"loss": 5.0})
    model = guard.model
    variable = model.layers[0].kernel if place == "weight" else model.optimizer.variables[-1]
    variable.assign(np.full(variable.shape, np.nan))
    message = f"NaN or infinity in {variable.path}, in epoch 3 after step {step} of 6"
    with pytest.raises(FloatingPointError, match=message):
        guard.on_epoch_end(2, {"loss": 5.0})


def test_a_run_that_diverges_saves_nothing_and_ends(tmp_path):
    data = write_toy_text(tmp_path, train=60)
    with pytest.raises(FloatingPointError, match="The loss must be .*, in epoch 1 "):
        train(toy_experiment(data, learning_rate_scale=1e30), tmp_path / "run")
    names = {path.name for path in (tmp_path / "run").iterdir()}
    assert names <= {
        *("SHA256SUMS", "config.yaml", "inputs.json", "metrics.csv", "tensorboard", "text"),
        "vocabulary.model",
    }


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
    """The callback in an epoch that has begun."""
    stop = SafeStop(types.SimpleNamespace(is_over=False), lambda: saved.append(True))
    stop.on_epoch_begin(0)
    return stop


def make_last_step(stop):
    stop.state.is_over = True
    stop.on_train_batch_end(2)


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


def test_validation_ends_at_once_and_the_steps_before_it_are_saved(number, stop, saved):
    with pytest.raises(Ended), stop.installed():
        signal.raise_signal(number)
        make_last_step(stop)
    with pytest.raises(Ended), stop.installed():
        make_last_step(stop)
        signal.raise_signal(number)
    assert saved == [True, True]


def test_a_signal_while_validation_is_traced_saves_outside_the_graph(number, stop):
    graphs = []
    stop.save = lambda: graphs.append(tf.inside_function())
    with pytest.raises(Ended), stop.installed():
        make_last_step(stop)
        tf.function(lambda: signal.raise_signal(number))()
    assert graphs == [False]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_signal_in_a_destructor_is_not_lost(number, stop, saved):
    class Destroyed:
        def __del__(self):
            signal.raise_signal(number)  # Python ignores what this raises.

    with pytest.raises(Ended), stop.installed():
        make_last_step(stop)
        Destroyed()
        stop.begin_saving()
        stop.on_epoch_end(0)
        pytest.fail("The run goes on.")
    assert saved == []


def test_a_signal_waits_until_an_epoch_is_saved_and_reported(number, stop, saved, caplog):
    reported = []
    with pytest.raises(Ended, match=str(int(number))), stop.installed():
        make_last_step(stop)
        stop.begin_saving()
        signal.raise_signal(number)
        reported.append(True)
        stop.on_epoch_end(0)
    assert caplog.messages[0].startswith(f"{number.name}: the run ends with this epoch; a second")
    assert (reported, saved) == ([True], [])


def test_before_the_first_step_a_signal_ends_the_run_at_once(number):
    with pytest.raises(Ended), SafeStop(None, pytest.fail).installed():
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
