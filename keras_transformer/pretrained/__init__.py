"""Readers of the weight and vocabulary files of other libraries."""
