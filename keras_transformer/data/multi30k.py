"""Multi30k for TensorFlow Datasets (TFDS); importing this module registers the dataset."""

from collections.abc import Iterator

import tensorflow_datasets as tfds

from keras_transformer.data.sources import read_lines

# TFDS looks for the checksums of the files in checksums.tsv, next to this module.
_URL = "https://raw.githubusercontent.com/multi30k/dataset/master/data/task1/raw"
_FILES = {"train": "train", "validation": "val", "test_2016_flickr": "test_2016_flickr"}
_LANGUAGES = ("en", "de", "fr")


class Multi30k(tfds.core.GeneratorBasedBuilder):
    """Image captions in English with German and French translations, raw text."""

    VERSION = tfds.core.Version("1.0.0")

    def _info(self) -> tfds.core.DatasetInfo:
        return tfds.core.DatasetInfo(
            builder=self,
            description=self.__doc__,
            features=tfds.features.Translation(_LANGUAGES),
            homepage="https://github.com/multi30k/dataset",
            citation="Elliott et al. 2016 (W16-3210); French: Elliott et al. 2017 (W17-4718)",
        )

    def _split_generators(
        self, dl_manager: tfds.download.DownloadManager
    ) -> dict[str, Iterator[tuple[int, dict[str, str]]]]:
        urls = {
            split: {language: f"{_URL}/{file}.{language}.gz" for language in _LANGUAGES}
            for split, file in _FILES.items()
        }
        files = dl_manager.download(urls)
        return {split: self._generate_examples(files[split]) for split in files}

    def _generate_examples(self, files: dict[str, str]) -> Iterator[tuple[int, dict[str, str]]]:
        lines = zip(*(read_lines(files[language]) for language in _LANGUAGES), strict=True)
        for number, sentences in enumerate(lines):
            yield number, dict(zip(_LANGUAGES, sentences, strict=True))
