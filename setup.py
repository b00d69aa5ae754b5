"""What the package is and needs; the tools' settings are in pyproject.toml."""

import re
from pathlib import Path

from setuptools import find_packages, setup

ROOT = Path(__file__).parent
SERVING = ["tensorflow-serving-api>=2.20,<3"]  # gRPC for pipelines.client
PUBLISHED = ["sacremoses>=0.2,<0.3"]  # Moses' tokenizer for pipelines.evaluate --published
TFDS = [
    "tensorflow-datasets>=4.9.10,<5",
    "importlib_resources",  # TFDS imports it and does not say so.
]
INIT = (ROOT / "keras_transformer" / "__init__.py").read_text(encoding="utf-8")

setup(
    name="keras-transformer-mt",
    version=re.search(r'^__version__ = "(.+)"$', INIT, re.MULTILINE)[1],
    description='"Attention Is All You Need" in Keras 3: from parallel text to a served translator',
    long_description=(ROOT / "README.md").read_text(encoding="utf-8"),
    long_description_content_type="text/markdown",
    license="Apache-2.0",
    keywords="keras tensorflow transformer attention machine-translation tensorflow-serving",
    classifiers=[
        "Development Status :: 4 - Beta",
        "Intended Audience :: Developers",
        "Intended Audience :: Science/Research",
        "Programming Language :: Python :: 3",
        "Topic :: Scientific/Engineering :: Artificial Intelligence",
        "Topic :: Text Processing :: Linguistic",
    ],
    packages=find_packages(include=["keras_transformer*", "pipelines*"]),
    package_data={
        "keras_transformer.data": ["checksums.tsv"],
        "pipelines": ["configs/*.yaml"],
    },
    python_requires=">=3.11,<3.14",  # as tensorflow-text has wheels
    install_requires=[
        "keras>=3.15.1,<4",
        "matplotlib>=3.10",
        "numpy>=1.26",
        "pydantic>=2.10,<3",
        "pydantic-settings>=2.6,<3",
        "pyyaml>=6",
        "sacrebleu>=2.4,<3",
        "sentencepiece>=0.2.3,<0.3",
        "tensorboard>=2.20",  # TensorFlow writes its logs through it
        "tensorflow>=2.21,<2.22",
        "tensorflow-text>=2.21,<2.22",
        "tqdm>=4.66",
        "urllib3>=2,<3",
    ],
    extras_require={
        "published": PUBLISHED,
        "serving": SERVING,
        "tfds": TFDS,
        "test": [
            *PUBLISHED,
            *SERVING,
            *TFDS,
            "ctranslate2>=4.8,<5",
            "dill>=0.3",  # For tensorflow_datasets.testing.
            "hypothesis>=6.100",
            "jax>=0.5",
            "keras-hub>=0.21,<1",
            "markdown-it-py>=3",
            "pytest>=8.3",
            "pytest-xdist>=3.6",
            "ruff>=0.17,<0.18",  # another version may format otherwise
            "torch>=2.6,<2.14",
            "transformers>=5,<6",
        ],
    },
)
