"""The whole workflow on generated sentences: `python -m pipelines.quickstart`."""
