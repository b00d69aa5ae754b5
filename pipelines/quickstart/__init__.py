"""The whole job on generated sentences: `python -m pipelines.quickstart`."""
