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
    """Return sentence pairs of a translation dataset, which is downloaded on first use.

    Args:
        name: Name of the dataset, with its configuration if there are several:
            "wmt14_translate/de-en", "ted_hrlr_translate/pt_to_en", or "multi30k" (en, de and fr),
            which this package defines.
        split: A split in the syntax of TFDS: "train", "validation", "train[:10%]".
        source_language: Language to translate from; any language of the dataset.
        target_language: Language to translate into.
        data_dir: Data directory of TFDS. The default is the environment variable TFDS_DATA_DIR, or
            ~/tensorflow_datasets without it.

    Returns:
        Pairs `(source, target)`, in the same order each time.

    Raises:
        ConnectionError: If the dataset cannot be downloaded. The message names the files to
            provide.
        ImportError: If tensorflow-datasets is not installed.
        ValueError: If the dataset, language or split does not exist, or a file is damaged.

    Example:

    ```python
    pairs = read_tfds("multi30k", "train", source_language="en", target_language="de")
    ```
    """
    return list(stream_tfds(name, split, source_language, target_language, data_dir))


def stream_tfds(
    name: str,
    split: str,
    source_language: str,
    target_language: str,
    data_dir: str | os.PathLike | None = None,
) -> Iterator[tuple[str, str]]:
    """Yield the sentence pairs that `read_tfds` returns, without holding the text in memory.

    It takes the same arguments and raises the same errors.
    """
    builder, data_dir = _find(name, data_dir)
    import tensorflow_datasets as tfds

    features = builder.info.features
    is_parallel = isinstance(features, tfds.features.Translation)
    languages = list(features.languages) if is_parallel else []
    if not {source_language, target_language} <= set(languages):
        raise ValueError(
            f"{builder.info.full_name} must have both languages, received {source_language} and "
            f"{target_language}, but it has {' and '.join(languages) or 'no translations'}. "
            "Choose from its languages, or choose another dataset."
        )
    _prepare(builder, data_dir)
    try:
        dataset = builder.as_dataset(split=split)
    except ValueError as error:
        raise ValueError(
            f"{builder.info.full_name} must have the split {split}: {str(error).rstrip('.')}. "
            "Choose a split, such as train or train[:10%]."
        ) from error
    for batch in dataset.batch(_SENTENCES_AT_ONCE).as_numpy_iterator():
        sides = (map(bytes.decode, batch[side]) for side in (source_language, target_language))
        yield from zip(*sides, strict=True)


def tfds_version(name: str, data_dir: str | os.PathLike | None = None) -> str:
    """Return the full name of a dataset, such as multi30k/1.0.0, without downloading it.

    Raises:
        ImportError, ValueError: As `read_tfds` does.
    """
    return _find(name, data_dir)[0].info.full_name


def _find(name: str, data_dir: str | os.PathLike | None) -> "tuple[tfds.core.DatasetBuilder, Path]":
    """Return a dataset, which may have to be prepared, and the data directory of TFDS."""
    try:
        import tensorflow_datasets as tfds
    except ImportError as error:
        raise ImportError(
            "Text from TensorFlow Datasets needs the package tensorflow-datasets: "
            "pip install 'keras-transformer-mt[tfds]'"
        ) from error
    import keras_transformer.data.multi30k  # noqa: F401  registers the dataset

    data_dir = data_dir or os.environ.get("TFDS_DATA_DIR") or "~/tensorflow_datasets"
    data_dir = Path(data_dir).expanduser()
    try:
        builder = tfds.builder(name, data_dir=data_dir)
    except ValueError as error:
        reason = str(error).partition("\n")[0]  # Long lists of all datasets follow.
        raise ValueError(
            "tfds must name a translation dataset, such as wmt14_translate/de-en, received "
            f"{name}. {reason} See https://www.tensorflow.org/datasets/catalog/overview"
        ) from error
    return builder, data_dir


def _prepare(builder: "tfds.core.DatasetBuilder", data_dir: Path) -> None:
    """Download and convert a dataset, unless that has been done."""
    import requests  # TFDS downloads with it.
    import tensorflow_datasets as tfds
    from tensorflow_datasets.core.download.download_manager import NonMatchingChecksumError

    manual_dir = data_dir / "downloads" / "manual"
    config = tfds.download.DownloadConfig(manual_dir=manual_dir)
    try:
        with _few_retries():
            builder.download_and_prepare(download_config=config)
    except (requests.RequestException, tfds.download.DownloadError) as error:
        advice = f"copy {builder.data_dir} from another machine"
        if urls := builder.url_infos:
            advice += f", or put its files, under their original names, into {manual_dir}:"
            advice += "".join(f"\n  {url}" for url in urls)
        raise ConnectionError(
            f"{builder.info.full_name} is not in {data_dir}, and cannot be downloaded: {error}\n"
            f"If there is a network, run the same command again. Otherwise, {advice}"
        ) from error
    except (AssertionError, NonMatchingChecksumError) as error:
        raise ValueError(f"{builder.info.full_name} cannot be prepared. {error}") from error


@contextlib.contextmanager
def _few_retries() -> Iterator[None]:
    """Give up on an unreachable server after two seconds instead of three minutes."""
    from tensorflow_datasets.core.download import downloader  # TFDS has no option for it.

    retries = downloader.MAX_RETRIES
    downloader.MAX_RETRIES = _RETRIES
    try:
        yield
    finally:
        downloader.MAX_RETRIES = retries
