"""Errors as text."""


def one_line(error: Exception) -> str:
    r"""Return an error's message in one line.

    >>> one_line(ValueError("two\n  lines"))
    'two lines'
    """
    return " ".join(str(error).split())
