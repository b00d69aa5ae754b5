"""The whole job on generated sentences, in a few minutes on two CPU cores.

    python -m pipelines.quickstart

Generates English-German sentence pairs from a grammar, trains a vocabulary and a small Transformer,
scores it on sentences that it never saw, draws what it did, exports it, and translates with the
exported model in a process that has nothing of this package.
"""

import argparse
import json
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import quote

from pipelines.cli import plain_errors, start_log
from pipelines.export import training_facts

CONFIG = Path(__file__).parents[1] / "configs" / "quickstart.yaml"

# What a client needs: nothing but TensorFlow and the ops of its tokenizer.
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


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--directory", default="runs/quickstart", help="for training (default runs/quickstart)"
    )
    parser.add_argument(
        "--output", default="saved_models/quickstart", help="default saved_models/quickstart"
    )
    args = parser.parse_args(argv)
    start_log()
    started = time.monotonic()

    from keras_transformer.config import ExperimentConfig, read_yaml
    from pipelines.quickstart.grammar import generated_corpus
    from keras_transformer.evaluation import score
    from keras_transformer.export import export_saved_model
    from keras_transformer.utils.files import whole_file
    from keras_transformer.plots import (
        attention_map,
        save_figure,
        sentence_attention,
        training_curves,
    )
    from keras_transformer.training import read_history, train

    directory = Path(args.directory)
    directory.mkdir(parents=True, exist_ok=True)
    corpus = generated_corpus()
    files = {name: directory / f"{name}.tsv" for name in ("train", "validation", "test")}
    for name, path in files.items():
        text = "".join(f"{source}\t{target}\n" for source, target in getattr(corpus, name))
        if not path.exists():
            with whole_file(path) as temporary:
                temporary.write_text(text, encoding="utf-8")
        elif path.read_text(encoding="utf-8") != text:
            sys.exit(
                f"error: {path} has other sentences than this version generates. Remove "
                f"{directory}, or choose another --directory."
            )
    print(f"{len(corpus.train):,} pairs of sentences generated from a grammar, such as")
    for source, target in corpus.train[:3]:
        print(f"  {source}\n  -> {target}")

    text = {"train_source": str(files["train"]), "validation_source": str(files["validation"])}
    config = ExperimentConfig.from_dict({**read_yaml(CONFIG), "data": text})
    with plain_errors():
        translator = train(config, directory)

    print("\nOn sentences that it never saw:")
    sources, references = zip(*corpus.test, strict=True)
    print(score(translator(sources, progress=True), references))

    save_figure(training_curves(read_history(directory)), directory / "curves.png")
    found = sentence_attention(translator, sources[0])
    # The heads of the last layer share the work: their mean shows all of it.
    figure = attention_map(found.cross[-1].mean(axis=0), found.source, found.written)
    save_figure(figure, directory / "attention.png")
    print(f"Drawn: {directory / 'curves.png'} and {directory / 'attention.png'}")

    version = export_saved_model(translator, args.output, training_facts(directory))
    print(f"\nWhat {version} says to a process with only tensorflow and tensorflow_text:")
    client = subprocess.run(
        [sys.executable, "-c", CLIENT, str(version), *sources[:3]],
        env=os.environ | {"CUDA_VISIBLE_DEVICES": "-1"},  # This process holds the GPU's memory.
        capture_output=True,
        text=True,
    )
    if client.returncode:
        sys.exit(client.stderr)
    print(client.stdout, end="")

    base = Path(os.path.abspath(args.output))  # A link keeps its name, as in pipelines.serve.
    request = shlex.quote(json.dumps({"instances": [sources[0]]}))
    url = shlex.quote(f"localhost:8501/v1/models/{quote(base.name)}:predict")
    print(f"""
Serve it:
  tensorflow_model_server --rest_api_port=8501 --model_name={shlex.quote(base.name)} \\
    --model_base_path={shlex.quote(str(base))}
and ask:
  curl -d {request} {url}

{time.monotonic() - started:.0f} seconds in all.""")


if __name__ == "__main__":
    main()
