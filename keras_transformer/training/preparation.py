"""The text of a run, made ready ahead of it, and a report on what is left of it."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from keras_transformer.config import ExperimentConfig
from keras_transformer.data.cleaning import reason_names
from keras_transformer.training.checkpoint_directory import run_checkpoints
from keras_transformer.training.directory import check_claim
from keras_transformer.training.lock import locked_directory
from keras_transformer.training.start import find_start
from keras_transformer.training.teachers import find_teachers
from keras_transformer.training.text import cleaning_rules, encode_text, token_batches
from keras_transformer.training.vocabularies import run_tokenizers


def prepare(config: ExperimentConfig, directory: str | os.PathLike) -> str:
    """Train the vocabularies of a run and encode its text, so that `train` starts at once.

    Args:
        config: The experiment.
        directory: The run directory, whose folder `text` gets the files; or, with `data.cache`, any
            directory.

    Returns:
        A report: how many pairs of each corpus were kept and dropped, and why.

    Raises:
        BlockingIOError: If a run uses the directory.
        FileNotFoundError: If a text file is missing, or a model to start from.
        ImportError, ConnectionError: See `read_tfds`.
        OSError: If the files cannot be written.
        ValueError: If the directory holds a run with another configuration, no pair is left, or a
            file is damaged.

    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> text = folder / "text.tsv"
    >>> _ = text.write_text("a dog\\tein Hund\\na cat\\teine Katze\\na dog\\t\\n")
    >>> data = {"train_source": str(text), "validation_source": str(text)}
    >>> config = ExperimentConfig.from_dict({"model": {"vocab_size": 280}, "data": data})
    >>> prepare(config, folder / "run").replace(str(folder), "data").splitlines()[:2]
    ['data/text.tsv: kept 2 of 3 sentence pairs', '  dropped 1 with an empty side']
    """
    directory = Path(directory)
    with locked_directory(directory):
        check_claim(directory, config)
        has_begun = run_checkpoints(directory, config.training).newest() is not None
        start = find_start(directory, config, has_begun)
        teachers = find_teachers(directory, config, start)
        tokenizers = run_tokenizers(directory, config, start, teachers)
        pairs, reports = encode_text(config, tokenizers, directory)
        batches = token_batches(config, tokenizers, pairs, reports)
        lines = [
            *_table(reports, reason_names(cleaning_rules(config.data))),
            f"{len(pairs.source_ids):,} source tokens, {len(pairs.target_ids):,} target tokens",
            f"{len(batches):,} batches per epoch, of up to {config.training.batch_tokens:,} tokens",
        ]
    return "\n".join(lines)


def _table(reports: Sequence[Mapping[str, Any]], names: Mapping[str, str]) -> list[str]:
    lines = []
    for report in reports:
        lines.append(
            f"{report['name']}: kept {report['kept']:,} of {report['read']:,} sentence pairs"
        )
        lines += [
            f"  dropped {number:,} {names[reason]}"
            for reason, number in report["dropped"].items()
            if number
        ]
    return lines
