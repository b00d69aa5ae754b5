"""The affine map that every sub-layer uses."""

from keras import ops


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
    shape = ops.shape(inputs)
    flat = inputs if len(shape) == 2 else ops.reshape(inputs, (-1, shape[-1]))
    outputs = ops.matmul(flat, ops.cast(kernel, inputs.dtype))
    if bias is not None:
        outputs = ops.add(outputs, ops.cast(bias, inputs.dtype))
    return outputs if len(shape) == 2 else ops.reshape(outputs, (*shape[:-1], kernel.shape[1]))
