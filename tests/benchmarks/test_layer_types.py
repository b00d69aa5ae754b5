import functools

import keras
import numpy as np
import pytest
import tensorflow as tf
from matplotlib.colors import to_hex

from benchmarks import layer_types
from benchmarks.costs import Cost
from benchmarks.layer_types import (
    KERNEL,
    NEIGHBORS,
    TABLE_1,
    crossing,
    make_layer,
    multiply_adds,
    restricted_self_attention,
    run_of,
    self_attention,
)

N, D = 40, 16


def reach(layer, n=N, d=D):
    """Return bool [n, n]: whether an output, down, depends on an input, across."""
    x = tf.constant(np.random.default_rng(1).normal(size=(1, n, d)), tf.float32)
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(x)
        outputs = tf.reduce_sum(tf.ensure_shape(layer(x), (1, n, d)), axis=-1)
    # Row by row, because the vectorized version crashes on some processors with TensorFlow 2.21.
    jacobian = tape.jacobian(outputs, x, experimental_use_pfor=False)
    return np.abs(jacobian[0, :, 0]).sum(axis=-1) > 0


def layers_until_all_are_connected(of_one):
    """Return the number of layers after which every output depends on every input."""
    of_stack, layers = of_one, 1
    while not of_stack.all():
        of_stack, layers = of_stack @ of_one, layers + 1
    return layers


def band(n, width):
    """Return bool [n, n]: whether a position is one of the `width` around another."""
    positions = np.arange(n)
    return np.abs(positions[:, None] - positions) <= width // 2


def test_the_formulas_are_those_of_table_1():
    rows = {name: formula(81, 512) for name, formula in TABLE_1.items()}
    assert rows["self-attention"] == (3_359_232, 1, 1)  # 81^2 * 512
    assert rows["recurrent"] == (21_233_664, 81, 81)  # 81 * 512^2
    assert rows["convolutional"] == (63_700_992, 1, pytest.approx(4))  # 3 times as much; 3^4 = 81
    assert rows["restricted"] == (1_285_632, 1, 81 / 31)  # 31 * 81 * 512
    assert (KERNEL, NEIGHBORS) == (3, 31)


def test_self_attention_needs_fewer_operations_than_recurrence_where_n_is_less_than_d():
    for n, sign in ((63, -1), (64, 0), (65, 1)):
        attention, recurrent = (TABLE_1[name](n, 64) for name in ("self-attention", "recurrent"))
        assert np.sign(attention.operations - recurrent.operations) == sign
    assert multiply_adds("self-attention", 64, 64) == multiply_adds("recurrent", 64, 64)


def test_each_layer_reaches_the_positions_of_table_1():
    seen = {name: reach(make_layer(name, D)) for name in TABLE_1}
    assert seen["self-attention"].all() and seen["multi-head"].all()
    assert np.array_equal(seen["recurrent"], np.tri(N, dtype=bool))  # The past.
    assert np.array_equal(seen["convolutional"], band(N, KERNEL))
    assert np.array_equal(seen["restricted"], band(N, NEIGHBORS))
    assert seen["restricted"][N // 2].sum() == NEIGHBORS


def test_paths_are_as_long_as_table_1_says():
    assert layers_until_all_are_connected(reach(self_attention)) == 1
    # A layer reaches (r - 1) / 2 to each side: 39 / 2, of the order of n / r.
    near = reach(lambda x: restricted_self_attention(x, neighbors=5, block=4))
    assert layers_until_all_are_connected(near) == 20
    # Without gaps as many as restricted attention of r = k: 39. With gaps log_k(n).
    assert layers_until_all_are_connected(reach(make_layer("convolutional", D))) == 39
    convolutions = [
        keras.layers.Conv1D(D, 3, padding="causal", dilation_rate=3**i) for i in range(3)
    ]
    last = reach(lambda x: functools.reduce(lambda x, layer: layer(x), convolutions, x), n=27)[-1]
    assert last.all()  # 27 = 3^3
    assert not reach(convolutions[0], n=27)[-1, :24].any()


@pytest.mark.parametrize(("n", "neighbors", "block"), [(40, 7, 8), (13, 5, 4), (3, 9, 8)])
def test_restricted_attention_is_masked_self_attention(n, neighbors, block):
    x = tf.random.normal((2, n, 6))
    scores = tf.where(band(n, neighbors), tf.matmul(x, x, transpose_b=True) / 6**0.5, -1e9)
    expected = tf.matmul(tf.nn.softmax(scores), x)
    received = restricted_self_attention(x, neighbors, block)
    np.testing.assert_allclose(received, expected, atol=1e-5)
    everything = restricted_self_attention(x, 2 * n + 1, block)
    np.testing.assert_allclose(everything, self_attention(x), atol=1e-5)


def largest_tensor(layer, n):
    graph = tf.function(layer).get_concrete_function(tf.TensorSpec((1, n, 4))).graph
    outputs = [tensor for op in graph.get_operations() for tensor in op.outputs]
    return max(tensor.shape.num_elements() or 0 for tensor in outputs)


def test_restricted_attention_has_no_tensor_of_quadratic_size():
    assert largest_tensor(self_attention, 512) == 512 * 512
    sizes = [largest_tensor(restricted_self_attention, n) for n in (512, 1024)]
    assert sizes[1] == 2 * sizes[0] < 512 * 512


def test_a_run_takes_its_layer_and_width_from_the_name():
    for name in TABLE_1:
        assert np.isfinite(run_of(f"{name} 8", 3)())


def cost(milliseconds, memory=5_000_000):
    return Cost([milliseconds / 1000] * 3, [0.1, 0.4, 0.2], memory)


def costs_of(attention, recurrent, d=8):
    """Return costs at lengths 4, 16 and 64, by default 1 ms."""
    found = {(d, n, name): cost(1) for n in (4, 16, 64) for name in TABLE_1}
    for name, times in (("self-attention", attention), ("recurrent", recurrent)):
        found |= {(d, n, name): cost(time) for n, time in zip((4, 16, 64), times, strict=True)}
    return found


def test_the_crossing_lies_between_the_lengths_around_it():
    # Attention as n^2, recurrence as n: equal where n^2 / 16 = n / 2, at n = 8.
    assert crossing(costs_of((1, 16, 256), (2, 8, 32)), 8) == pytest.approx(8)
    assert crossing(costs_of((1, 4, 256), (1, 4, 16)), 8) == pytest.approx(16)
    assert crossing(costs_of((1, 1, 1), (2, 2, 2)), 8) is None
    assert crossing(costs_of((2, 2, 2), (1, 1, 1)), 8) is None


def test_a_row_has_formulas_and_measurements():
    row = layer_types.row("self-attention", 64, 1000, cost(12.5))
    assert row == "| self-attention | 64 | 1000 | 64.0 | 1 | 1 | 128.0 | 12.5 | 0% | 5 | 0.4 |"


def test_the_plot_marks_both_crossings():
    figure = layer_types.plot(costs_of((1, 16, 256), (2, 8, 32)))
    above, below = figure.axes
    *curves, marked = above.get_lines()
    assert [curve.get_label() for curve in curves] == list(TABLE_1)
    assert curves[0].get_xydata().tolist() == [[4, 128], [16, 2048], [64, 32768]]  # n^2 * 8
    assert list(marked.get_xdata()) == [8, 8]
    *measured, marked = below.get_lines()
    assert measured[0].get_ydata() == pytest.approx([1, 16, 256])
    assert list(marked.get_xdata()) == pytest.approx([8, 8])
    texts = [text.get_text() for axes in figure.axes for text in axes.texts]
    assert texts == ["n = d = 8", "n = 8"]
    assert len({to_hex(curve.get_color()) for curve in curves}) == len(TABLE_1)


def test_the_report_has_every_layer_and_the_crossing(monkeypatch, tmp_path, capsys):
    def measured(make_step, names, lengths, repeats):
        assert make_step is run_of and repeats == 3
        for n in lengths:
            yield n, {name: cost(n * n if name.startswith("self") else 8 * n) for name in names}

    monkeypatch.setattr(layer_types, "measure_costs", measured)
    files = tmp_path / "report.md", tmp_path / "plot.svg"
    options = ["--widths", "4", "--lengths", "2", "32"]
    layer_types.main([*options, "--output", str(files[0]), "--plot", str(files[1])])
    lines = capsys.readouterr().out.splitlines()
    assert files[0].read_text().splitlines() == lines
    assert sum(line.startswith(tuple(f"| {name} |" for name in TABLE_1)) for line in lines) == 10
    assert "| 4 | 4 | 8 |" in lines
    assert files[1].read_text().startswith("<?xml")


def test_a_plot_of_another_kind_is_refused_before_measuring(capsys):
    with pytest.raises(SystemExit):
        layer_types.main(["--plot", "plot.jpg"])
    assert "--plot must end in .png, .svg or .pdf, received 'plot.jpg'" in capsys.readouterr().err
