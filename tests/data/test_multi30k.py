import gzip
import tempfile
from pathlib import Path

import tensorflow_datasets as tfds

from keras_transformer.data.multi30k import Multi30k

LINES = {"train": 5, "val": 3, "test_2016_flickr": 2}
FILES = {"train": "train", "validation": "val", "test_2016_flickr": "test_2016_flickr"}


def write_files(directory):
    """Write the files of the dataset with a few lines each, and return their paths."""
    paths = []
    for name, count in LINES.items():
        for language in ("en", "de", "fr"):
            path = Path(directory) / f"{name}.{language}.gz"
            text = "".join(f"{name} {number} {language} é\n" for number in range(count))
            path.write_bytes(gzip.compress(text.encode()))
            paths.append(path)
    return paths


class TestMulti30k(tfds.testing.DatasetBuilderTestCase):
    """The checks of TFDS for every dataset, among them that each file has a checksum."""

    DATASET_CLASS = Multi30k
    SPLITS = {"train": 5, "validation": 3, "test_2016_flickr": 2}
    DL_DOWNLOAD_RESULT = {
        split: {language: f"{name}.{language}.gz" for language in ("en", "de", "fr")}
        for split, name in FILES.items()
    }

    @classmethod
    def setUpClass(cls):
        directory = tempfile.TemporaryDirectory()
        cls.addClassCleanup(directory.cleanup)
        cls.EXAMPLE_DIR = directory.name
        write_files(directory.name)
        super().setUpClass()
