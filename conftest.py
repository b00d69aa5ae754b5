"""Leaves out the doctests of parts whose optional package is not installed."""

import importlib.util

collect_ignore = [] if importlib.util.find_spec("keras_hub") else ["keras_transformer/keras_hub"]
