"""The affine map that every sub-layer uses."""

from keras import ops

from keras_transformer.layers.few_rows import few_rows_product


def linear(inputs, kernel, bias=None):
    """Return inputs @ kernel + bias over the last axis.

    The leading axes are flattened, so that a batch of sentences is one matrix product, forwards and
    backwards, and not one per sentence.

    Args:
        inputs: float [..., D].
        kernel: float [D, U].
        bias: float [U], or None.

    Returns:
        [..., U], of the inputs' type.

    >>> linear(ops.ones((2, 3, 4)), ops.ones((4, 5))).shape[2]
    5
    """
    shape, kernel = ops.shape(inputs), ops.cast(kernel, inputs.dtype)
    is_flat = len(shape) == 2
    rows = inputs if is_flat else ops.reshape(inputs, (-1, shape[-1]))
    outputs = few_rows_product(rows, kernel)
    if not is_flat:
        outputs = ops.reshape(outputs, (*shape[:-1], kernel.shape[1]))
    return outputs if bias is None else ops.add(outputs, ops.cast(bias, inputs.dtype))
