"""Command lines, one per job: `keras-transformer NAME` or `python -m pipelines.NAME`."""
