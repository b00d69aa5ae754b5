"""The sizes that encoder and decoder layers share, and their check."""


def head_sizes(d_model, num_heads, key_dim, value_dim):
    """Return key_dim and value_dim, by default d_model / num_heads (Section 3.2.2).

    >>> head_sizes(512, 8, None, None)
    (64, 64)
    """
    if num_heads < 1:
        raise ValueError(f"num_heads must be at least 1, received {num_heads}.")
    if key_dim is None:
        if d_model % num_heads:
            raise ValueError(
                "d_model must be divisible by num_heads unless key_dim is given, "
                f"received d_model={d_model} and num_heads={num_heads}."
            )
        key_dim = d_model // num_heads
    return key_dim, key_dim if value_dim is None else value_dim
