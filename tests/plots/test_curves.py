import numpy as np
import pytest

from keras_transformer.plots import training_curves
from keras_transformer.plots.curves import learning_rate_curve, step_curves
from keras_transformer.schedules import NoamSchedule

HISTORY = {
    "loss": [5.0, 3.0, 2.5, 2.4],
    "val_nll": [4.0, 2.0, 1.5, 1.6],
    "val_bleu": [1.0, 20.0, 33.25, 32.0],
    "learning_rate": [1e-3, 2e-3, 1.5e-3, 1e-3],
    "tokens_per_second": [9000.0, 9100.0, 9200.0, 9300.0],
}


def history_without(key):
    return {other: values for other, values in HISTORY.items() if other != key}


def test_loss_and_nll_share_a_panel_and_bleu_has_its_own():
    figure = training_curves(history_without("learning_rate"))
    nats, bleu = figure.axes
    assert (nats.get_xlabel(), nats.get_ylabel()) == ("epoch", "nats per token")
    assert (bleu.get_xlabel(), bleu.get_ylabel()) == ("epoch", "sacreBLEU")
    lines = {line.get_label(): line.get_xydata().tolist() for line in nats.get_lines()}
    assert lines == {
        "training loss\n(label-smoothed)": [[1, 5.0], [2, 3.0], [3, 2.5], [4, 2.4]],
        "validation NLL": [[1, 4.0], [2, 2.0], [3, 1.5], [4, 1.6]],
    }
    assert [text.get_text() for text in nats.get_legend().get_texts()] == list(lines)


def test_without_label_smoothing_the_loss_is_not_called_smoothed():
    figure = training_curves({"loss": HISTORY["loss"]}, label_smoothing=0)
    assert figure.axes[0].get_lines()[0].get_label() == "training loss"


def test_the_bleu_of_validation_is_labeled_as_that_of_greedy_search_and_the_best_is_marked():
    figure = training_curves({"val_bleu": HISTORY["val_bleu"]})
    curve, best = figure.axes[0].get_lines()
    assert curve.get_ydata().tolist() == HISTORY["val_bleu"]
    assert curve.get_label() == "validation, greedy search"
    assert best.get_xydata().tolist() == [[3, 33.25]]
    assert best.get_label() == "best: 33.2, epoch 3"


@pytest.mark.parametrize("key", ["val_bleu", "val_f1"])
def test_an_epoch_without_a_score_is_not_the_best(key):
    nan = float("nan")
    _, best = training_curves({key: [nan, 3.0, nan, 7.0, 5.0]}).axes[0].get_lines()
    assert best.get_xydata().tolist() == [[4, 7.0]]
    assert len(training_curves({key: [nan, nan]}).axes[0].get_lines()) == 1


@pytest.mark.parametrize("bleu", [[0.0], [0.003, 0.011, 0.01], [41.2, 38.0, 41.3], [0.0, 99.9]])
def test_the_axis_of_scores_is_plain_and_from_0_and_no_legend_covers_a_curve(bleu):
    rates = [1e-3, 5e-4, 1e-4][: len(bleu)]
    figure = training_curves({"loss": bleu, "val_bleu": bleu, "learning_rate": rates})
    figure.draw_without_rendering()
    low, high = figure.axes[1].get_ylim()
    assert 0 <= low <= min(bleu) and max(1, *bleu) <= high
    for axes in figure.axes:
        assert axes.yaxis.get_offset_text().get_text() == ""  # It would be below the legend.
        assert axes.get_legend().get_window_extent().y0 >= axes.bbox.y1


def test_the_learning_rate_has_a_third_panel():
    figure = training_curves(HISTORY)
    assert [axes.get_ylabel() for axes in figure.axes][2:] == ["learning rate"]
    assert figure.axes[2].get_lines()[0].get_ydata().tolist() == HISTORY["learning_rate"]


def test_ticks_of_epochs_are_whole_numbers():
    for epochs in (1, 2, 4):
        history = {"loss": HISTORY["loss"][:epochs]}
        ticks = training_curves(history).axes[0].get_xticks()
        assert all(tick == int(tick) for tick in ticks)


@pytest.mark.parametrize(
    ("history", "message"),
    [
        ({"accuracy": [0.5]}, "one of loss, val_nll, val_bleu, val_f1, learning_rate"),
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
    assert axes.get_title(loc="right") == "warm-up to step 100, peak 0.025"
    (shaded,) = axes.patches
    assert (shaded.get_x(), shaded.get_width()) == (0, 100)


def test_a_run_may_end_in_its_warm_up():
    axes = learning_rate_curve(NoamSchedule(d_model=16, warmup_steps=100), steps=50).axes[0]
    (curve,) = axes.get_lines()
    assert curve.get_xdata()[-1] == 50
    assert axes.patches[0].get_width() == 50
    assert axes.get_title(loc="right") == "warm-up to step 100, peak 0.025"


def test_a_single_step_is_rejected():
    with pytest.raises(ValueError, match="steps must be at least 2, received 1"):
        learning_rate_curve(NoamSchedule(16), steps=1)


def test_steps_have_a_panel_for_each_value():
    metrics = {
        "step": [100, 200, 250],
        "epoch": [1, 1, 2],
        "loss": [6.5, 5.25, 5.0],
        "gradient_norm": [float("nan"), 0.5, 0.25],  # Not measured at first.
        "tokens_per_second": [9000.0, 9100.0, 9200.0],
    }
    figure = step_curves(metrics)
    assert [axes.get_ylabel() for axes in figure.axes] == [
        *("training loss\n(label-smoothed)", "gradient norm", "tokens per second")
    ]
    assert [axes.get_xlabel() for axes in figure.axes] == ["step"] * 3
    (loss,) = figure.axes[0].get_lines()
    assert loss.get_xydata().tolist() == [[100, 6.5], [200, 5.25], [250, 5.0]]
    for nothing in ({}, {"step": [], "loss": []}, {"step": [1], "other": [2]}):
        with pytest.raises(ValueError, match="step_curves needs a row with step and at least one"):
            step_curves(nothing)
