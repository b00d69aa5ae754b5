"""Parallel text from TensorFlow Datasets (TFDS)."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import tensorflow_datasets as tfds

_SENTENCES_AT_ONCE = 8192
_RETRIES = 3


def read_tfds(
    name: str,
    split: str,
    source_language: str,
    target_language: str,
    data_dir: str | os.PathLike | None = None,
) -> list[tuple[str, str]]:
    """Reads sentence pairs of a translation set, which is downloaded when it is first used.

    Args:
        name: The set and, where it has several, its configuration: "wmt14_translate/de-en",
            "ted_hrlr_translate/pt_to_en", or our own "multi30k" (en, de and fr).
        split: What TFDS takes as one: "train", "validation", "train[:10%]".
        source_language: The language to translate from, whichever of the set's it is.
        target_language: The language to translate into.
        data_dir: Where TFDS keeps its data; by default the environment's TFDS_DATA_DIR, or else
            ~/tensorflow_datasets.

    Returns:
        Source and target sentences, in the same order each time.

    Raises:
        ImportError: tensorflow-datasets is not installed.
        ValueError: There is no such set, language or split, or a file of it is damaged.
        ConnectionError: The set could not be downloaded; the message says what to put where.
    """
    try:
        import tensorflow_datasets as tfds
    except ImportError as error:
        raise ImportError(
            "Data of TensorFlow Datasets needs its package: "
            "pip install tensorflow-datasets importlib_resources"
        ) from error
    import keras_transformer.data.multi30k  # noqa: F401  TFDS knows it from now on.

    data_dir = data_dir or os.environ.get("TFDS_DATA_DIR") or "~/tensorflow_datasets"
    data_dir = Path(data_dir).expanduser()
    try:
        builder = tfds.builder(name, data_dir=data_dir)
    except ValueError as error:
        reason = str(error).partition("\n")[0]  # Lists of everything there is come after it.
        raise ValueError(
            "tfds must be the name of a translation set, such as wmt14_translate/de-en, received "
            f"{name}. {reason} See https://www.tensorflow.org/datasets/catalog/overview"
        ) from error
    features = builder.info.features
    languages = features.languages if isinstance(features, tfds.features.Translation) else []
    if not {source_language, target_language} <= set(languages):
        raise ValueError(
            f"{builder.info.full_name} must have both languages, received {source_language} and "
            f"{target_language} where it has {' and '.join(languages) or 'no translations'}. "
            "Choose from what it has, or another set."
        )
    _prepare(builder, data_dir)
    pairs = []
    for batch in builder.as_dataset(split=split).batch(_SENTENCES_AT_ONCE).as_numpy_iterator():
        sides = (map(bytes.decode, batch[side]) for side in (source_language, target_language))
        pairs.extend(zip(*sides, strict=True))
    return pairs


def _prepare(builder: "tfds.core.DatasetBuilder", data_dir: Path) -> None:
    """Download a set and convert it, unless that has been done."""
    import requests  # TFDS downloads with it.
    import tensorflow_datasets as tfds
    from tensorflow_datasets.core.download.download_manager import NonMatchingChecksumError

    manual_dir = data_dir / "downloads" / "manual"
    config = tfds.download.DownloadConfig(manual_dir=manual_dir)
    try:
        with _few_retries():
            builder.download_and_prepare(download_config=config)
    except (requests.RequestException, tfds.download.DownloadError) as error:
        advice = f"copy {builder.data_dir} from a machine that has it"
        if urls := builder.url_infos:
            advice += f", or put its files, under their own names, into {manual_dir}:"
            advice += "".join(f"\n  {url}" for url in urls)
        raise ConnectionError(
            f"{builder.info.full_name} is not in {data_dir}, and cannot be downloaded: {error}\n"
            f"With a network, give the same command again. Without one, {advice}"
        ) from error
    except (AssertionError, NonMatchingChecksumError) as error:
        raise ValueError(f"{builder.info.full_name} cannot be prepared. {error}") from error


@contextlib.contextmanager
def _few_retries() -> Iterator[None]:
    """Give up on an unreachable server after two seconds, where TFDS takes over three minutes."""
    from tensorflow_datasets.core.download import downloader  # Has no setting for it.

    retries = downloader.MAX_RETRIES
    downloader.MAX_RETRIES = _RETRIES
    try:
        yield
    finally:
        downloader.MAX_RETRIES = retries
