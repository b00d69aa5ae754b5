"""Constituency trees: files, normalization, and the token sequences that a model is trained on."""
