"""What all configurations share."""

from pydantic import ConfigDict

STRICT = ConfigDict(extra="forbid", use_attribute_docstrings=True)
"""Unknown fields are mistakes, and the docstring below a field is the help of its option."""
