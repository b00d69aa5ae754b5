"""Run the whole workflow on generated sentences, in 2 to 3 minutes on two idle CPU cores.

    python -m pipelines.quickstart

Generates English-German sentence pairs, trains a vocabulary and a small Transformer, scores it on
unseen sentences, draws figures, exports it, and translates with the exported model in a process
that imports only TensorFlow and TensorFlow Text. The sentences come from a few rules and some
hundred words, so their score says nothing about real text, and other words come out as nonsense.
"""

import argparse
import json
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from pipelines.cli.errors import plain_errors
from pipelines.cli.parser import Parser
from pipelines.cli.process import import_tensorflow, start_log

if TYPE_CHECKING:
    from keras_transformer.translation import Translator
    from pipelines.quickstart.toy_corpus import GeneratedCorpus

CONFIG = Path(__file__).parents[1] / "configs" / "quickstart.yaml"

# A client needs only TensorFlow and the operations of the tokenizer.
CLIENT = """
import sys
import tensorflow as tf
import tensorflow_text
model = tf.saved_model.load(sys.argv[1])
translate = model.signatures["serving_default"]
texts = sys.argv[2:]
for text, translation in zip(texts, translate(text=tf.constant(texts))["translation"]):
    print(f"  {text}\\n  -> {translation.numpy().decode()}")
"""


@plain_errors()
def main(argv: Sequence[str] | None = None, prog: str = "python -m pipelines.quickstart") -> None:
    parser = Parser(
        prog=prog, description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--directory", default="runs/quickstart", help="run directory (default runs/quickstart)"
    )
    parser.add_argument(
        "--output",
        default="saved_models/quickstart",
        help="directory of the exported model (default saved_models/quickstart)",
    )
    args = parser.parse_args(argv)
    start_log()
    started = time.monotonic()
    import_tensorflow(training=True)
    from keras_transformer.config import ExperimentConfig
    from keras_transformer.config.experiment import read_yaml
    from keras_transformer.evaluation import score
    from keras_transformer.export import export_saved_model
    from keras_transformer.training import train
    from keras_transformer.training.run_directory import run_facts

    print("This takes 2 to 3 minutes on two idle CPU cores; training prints how long is left.")
    directory = Path(args.directory)
    corpus, files = write_corpus(directory)
    print(f"{len(corpus.train):,} generated pairs of sentences, such as")
    for source, target in corpus.train[:3]:
        print(f"  {source}\n  -> {target}")

    text = {"train_source": str(files["train"]), "validation_source": str(files["validation"])}
    config = ExperimentConfig.from_dict({**read_yaml(CONFIG), "data": text})
    translator = train(config, directory)

    print("\nOn unseen sentences:")
    sources, references = zip(*corpus.test, strict=True)
    print(score(translator(sources, progress=True), references))
    draw(translator, sources[0], directory)

    page = {"languages": ["en", "de"], "examples": list(sources[:3])}
    version = export_saved_model(translator, args.output, run_facts(directory) | page)
    print(f"\nTranslations by {version} in a process with only tensorflow and tensorflow_text:")
    print(translate_elsewhere(version, sources[:3]), end="")
    print(next_steps(args.output, sources[0]))
    print(f"\n{time.monotonic() - started:.0f} seconds in all.")


def write_corpus(directory: Path) -> "tuple[GeneratedCorpus, dict[str, Path]]":
    """Generate the corpus, and write its splits to train.tsv, validation.tsv and test.tsv.

    Args:
        directory: The run directory.

    Returns:
        The corpus, and the file of each split.

    Raises:
        ValueError: If the directory has other sentences.
    """
    from keras_transformer.utils.files import whole_file
    from pipelines.quickstart.toy_corpus import generated_corpus

    directory.mkdir(parents=True, exist_ok=True)
    corpus = generated_corpus()
    files = {name: directory / f"{name}.tsv" for name in ("train", "validation", "test")}
    for name, path in files.items():
        text = "".join(f"{source}\t{target}\n" for source, target in getattr(corpus, name))
        if not path.exists():
            with whole_file(path) as temporary:
                temporary.write_text(text, encoding="utf-8")
        elif path.read_text(encoding="utf-8") != text:
            raise ValueError(
                f"{path} has other sentences than this version generates. Remove {directory}, or "
                "choose another --directory."
            )
    return corpus, files


def draw(translator: "Translator", sentence: str, directory: Path) -> None:
    """Draw the training curves of a run, and the attention weights of a sentence."""
    from keras_transformer.plots import (
        attention_map,
        save_figure,
        sentence_attention,
        training_curves,
    )
    from keras_transformer.training.csv_tables import read_history

    curves, attention = directory / "curves.png", directory / "attention.png"
    save_figure(training_curves(read_history(directory)), curves)
    found = sentence_attention(translator, sentence)
    # Heads specialize; the mean over those of the last layer shows the whole alignment.
    figure = attention_map(found.cross[-1].mean(axis=0), found.source, found.written)
    save_figure(figure, attention)
    print(f"Figures: {curves} and {attention}")


def translate_elsewhere(version: Path, sentences: Iterable[str]) -> str:
    """Return what a process that knows nothing of this package prints as translations."""
    client = subprocess.run(
        [sys.executable, "-c", CLIENT, str(version), *sentences],
        env=os.environ | {"CUDA_VISIBLE_DEVICES": "-1"},  # This process holds the GPU's memory.
        capture_output=True,
        text=True,
    )
    if client.returncode:
        sys.exit(client.stderr)
    return client.stdout


def next_steps(output: str, sentence: str) -> str:
    """Return the commands that translate with the exported model, here and with a server."""
    base = Path(os.path.abspath(output))  # Unlike `resolve`, it keeps the name of a link.
    request = shlex.quote(json.dumps({"instances": [sentence]}))
    url = shlex.quote(f"localhost:8501/v1/models/{quote(base.name)}:predict")
    return f"""
Translate your own sentences:
  python -m pipelines.translate --model {shlex.quote(output)} {shlex.quote(sentence)}
Serve the model, with tensorflow_model_server or this package's [serve] extra installed:
  python -m pipelines.serve --model {shlex.quote(output)}
and send a request:
  curl -d {request} {url}"""


if __name__ == "__main__":
    main()
