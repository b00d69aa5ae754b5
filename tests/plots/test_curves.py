import numpy as np
import pytest

from keras_transformer.plots import learning_rate_curve, training_curves
from keras_transformer.schedules import NoamSchedule

HISTORY = {
    "loss": [5.0, 3.0, 2.5, 2.4],
    "val_nll": [4.0, 2.0, 1.5, 1.6],
    "val_bleu": [1.0, 20.0, 33.25, 32.0],
    "learning_rate": [1e-3, 2e-3, 1.5e-3, 1e-3],
    "tokens_per_second": [9000.0, 9100.0, 9200.0, 9300.0],
}


def without(key):
    return {other: values for other, values in HISTORY.items() if other != key}


def test_loss_and_nll_share_a_panel_and_bleu_has_its_own():
    figure = training_curves(without("learning_rate"))
    nats, bleu = figure.axes
    assert (nats.get_xlabel(), nats.get_ylabel()) == ("epoch", "nats per token")
    assert (bleu.get_xlabel(), bleu.get_ylabel()) == ("epoch", "sacreBLEU")
    lines = {line.get_label(): line.get_xydata().tolist() for line in nats.get_lines()}
    assert lines == {
        "training loss": [[1, 5.0], [2, 3.0], [3, 2.5], [4, 2.4]],
        "validation NLL": [[1, 4.0], [2, 2.0], [3, 1.5], [4, 1.6]],
    }
    assert [text.get_text() for text in nats.get_legend().get_texts()] == list(lines)


def test_the_best_epoch_is_marked():
    figure = training_curves({"val_bleu": HISTORY["val_bleu"]})
    curve, best = figure.axes[0].get_lines()
    assert curve.get_ydata().tolist() == HISTORY["val_bleu"]
    assert best.get_xydata().tolist() == [[3, 33.25]]
    assert best.get_label() == "best: 33.2, epoch 3"


def test_the_learning_rate_has_a_third_panel():
    figure = training_curves(HISTORY)
    assert [axes.get_ylabel() for axes in figure.axes][2:] == ["learning rate"]
    assert figure.axes[2].get_lines()[0].get_ydata().tolist() == HISTORY["learning_rate"]


def test_epochs_are_whole_numbers_on_the_axis():
    for epochs in (1, 2, 4):
        history = {"loss": HISTORY["loss"][:epochs]}
        ticks = training_curves(history).axes[0].get_xticks()
        assert all(tick == int(tick) for tick in ticks)


@pytest.mark.parametrize(
    ("history", "message"),
    [
        ({"accuracy": [0.5]}, "one of loss, val_nll, val_bleu, learning_rate, received accuracy"),
        ({}, "received nothing. Train for at least one epoch"),
        ({"loss": []}, "needs an epoch"),
        ({"loss": [3.0, 2.0], "val_bleu": [9.0]}, "received {'loss': 2, 'val_bleu': 1} values"),
    ],
)
def test_a_history_that_cannot_be_drawn_is_an_error(history, message):
    with pytest.raises(ValueError, match=message):
        training_curves(history)


def test_the_learning_rate_is_the_schedule_with_its_peak():
    axes = learning_rate_curve(NoamSchedule(d_model=16, warmup_steps=100), steps=2000).axes[0]
    curve, peak = axes.get_lines()
    steps, rates = curve.get_data()
    assert (steps[0], steps[-1]) == (1, 2000)
    expected = 16**-0.5 * np.minimum(steps**-0.5, steps * 100**-1.5)
    np.testing.assert_allclose(rates, expected, rtol=1e-5)
    # 16^-0.5 * 100^-0.5 = 1 / 40, the highest of all.
    assert peak.get_xydata() == pytest.approx(np.array([[100, 1 / 40]]))
    assert rates.max() == pytest.approx(1 / 40)
    assert [text.get_text() for text in axes.texts] == ["warm-up to step 100, peak 0.025"]
    (shaded,) = axes.patches
    assert (shaded.get_x(), shaded.get_width()) == (0, 100)


def test_a_training_may_end_in_its_warm_up():
    axes = learning_rate_curve(NoamSchedule(d_model=16, warmup_steps=100), steps=50).axes[0]
    (curve,) = axes.get_lines()
    assert curve.get_xdata()[-1] == 50
    assert axes.patches[0].get_width() == 50
    assert [text.get_text() for text in axes.texts] == ["warm-up to step 100, peak 0.025"]


def test_a_single_step_makes_no_curve():
    with pytest.raises(ValueError, match="steps must be at least 2, received 1"):
        learning_rate_curve(NoamSchedule(16), steps=1)
