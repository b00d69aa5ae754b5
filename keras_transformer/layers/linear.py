"""The affine map that every sub-layer uses."""

from keras import ops


def linear(inputs, kernel, bias=None, units=None):
    """Return inputs @ kernel + bias over the last axis.

    The leading axes are flattened, so that a batch of sentences is one matrix product, forwards and
    backwards, and not one per sentence. Where the first is known to be 1, as in a step of a search,
    there is nothing to flatten, and a single row may meet the kernel in parts.

    Args:
        inputs: float [..., D].
        kernel: float [D, U], or [G, D, U / G] for inputs [1, R, D], where R or G is 1.
        bias: float [U], or None.
        units: U, where the kernel is in parts.

    Returns:
        [..., U], of the inputs' type.

    >>> linear(ops.ones((2, 3, 4)), ops.ones((4, 5))).shape[2]
    5
    """
    shape, kernel = ops.shape(inputs), ops.cast(kernel, inputs.dtype)
    is_flat = len(shape) == 2
    if is_flat:
        outputs = ops.matmul(inputs, kernel)
    elif len(kernel.shape) == 3:
        outputs, is_flat = ops.reshape(ops.matmul(inputs, kernel), (1, -1, units)), True
    elif isinstance(shape[0], int) and shape[0] == 1:
        outputs, is_flat = ops.matmul(inputs, ops.expand_dims(kernel, 0)), True
    else:
        outputs = ops.matmul(ops.reshape(inputs, (-1, shape[-1])), kernel)
    if bias is not None:
        outputs = ops.add(outputs, ops.cast(bias, inputs.dtype))
    return outputs if is_flat else ops.reshape(outputs, (*shape[:-1], kernel.shape[1]))
