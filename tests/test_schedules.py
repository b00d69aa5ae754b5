import keras
import numpy as np
import pytest

from keras_transformer.schedules import NoamSchedule


@pytest.mark.parametrize("step", [1, 2, 3999, 4000, 4001, 100_000])
def test_equals_equation_3(step):
    # The optimizer's step counts from 0, the paper's from 1.
    expected = 512**-0.5 * min(step**-0.5, step * 4000**-1.5)
    assert float(NoamSchedule(512, 4000)(step - 1)) == pytest.approx(expected, rel=1e-6)


def test_peaks_at_warmup_steps():
    schedule = NoamSchedule(d_model=8, warmup_steps=7)
    rates = [float(schedule(step)) for step in range(30)]
    assert int(np.argmax(rates)) == 7 - 1
    assert rates[:7] == sorted(rates[:7])
    assert rates[6:] == sorted(rates[6:], reverse=True)
    assert rates[6] == pytest.approx((8 * 7) ** -0.5)


def test_scale_is_a_factor():
    once, twice = NoamSchedule(8, 7), NoamSchedule(8, 7, scale=2.0)
    assert float(twice(11)) == pytest.approx(2 * float(once(11)))


@pytest.mark.parametrize("dtype", ["int32", "int64", "float32"])
def test_step_may_be_a_tensor_of_any_type(dtype):
    schedule = NoamSchedule(8, 7)
    rate = schedule(keras.ops.cast(12, dtype))
    assert keras.backend.standardize_dtype(rate.dtype) == "float32"
    assert float(rate) == pytest.approx(float(schedule(12)))


def test_serialization():
    schedule = NoamSchedule(d_model=8, warmup_steps=7, scale=1.5)
    config = keras.saving.serialize_keras_object(schedule)
    copy = keras.saving.deserialize_keras_object(config)
    assert copy.get_config() == schedule.get_config()
    assert float(copy(12)) == float(schedule(12))


def test_the_optimizer_follows_it_in_fit():
    schedule = NoamSchedule(d_model=8, warmup_steps=2)
    model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1, use_bias=False)])
    # With a gradient of 1 the weight falls by the rate of each of the three steps.
    model.compile(keras.optimizers.SGD(schedule), loss=lambda y_true, y_pred: y_pred)
    before = model.get_weights()[0].item()
    model.fit(np.ones((3, 1)), np.ones((3, 1)), batch_size=1, verbose=0)
    fall = before - model.get_weights()[0].item()
    assert fall == pytest.approx(sum(float(schedule(step)) for step in range(3)), rel=1e-5)
    assert float(model.optimizer.learning_rate) == pytest.approx(float(schedule(3)))


@pytest.mark.parametrize("argument", ["d_model", "warmup_steps", "scale"])
def test_arguments_that_are_not_positive_are_refused(argument):
    with pytest.raises(ValueError, match=f"{argument} must be above 0, received 0"):
        NoamSchedule(**{"d_model": 8, argument: 0})
