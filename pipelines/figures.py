"""Draw what a trained model attends to in a sentence, its positions, and how it was trained.

Usage:
    python -m pipelines.figures --model runs/en_de --output figures "A dog runs on the beach."
"""

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pipelines.cli import add_search_options, plain_errors, search_options

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from keras_transformer.config import ExperimentConfig
    from keras_transformer.translation.translator import Translator

POSITIONS = 100
CAPTIONS = {
    "encoder": "Self-attention of the encoder: from each subword of the sentence to all of them.",
    "decoder": "Self-attention of the decoder: from each subword read to those up to it.",
    "cross": "Cross-attention: from each subword that is written to those of the sentence.",
}


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__.split("\n")[0],
        epilog="Each picture is written as PNG and SVG, and all as images for TensorBoard.",
    )
    parser.add_argument(
        "--model", required=True, help="directory of a training (pipelines.train --output)"
    )
    parser.add_argument("--output", required=True, help="directory for the pictures")
    parser.add_argument(
        "--layer", type=int, help="whose heads are drawn as lines, from 1 (default the last)"
    )
    add_search_options(parser)
    parser.add_argument("sentence", help="to translate and to draw")
    args = parser.parse_args(argv)
    from keras_transformer.config import ExperimentConfig
    from keras_transformer.training import load_translator

    with plain_errors():
        translator = load_translator(args.model, **search_options(args))
        config = ExperimentConfig.from_file(Path(args.model) / "config.yaml")
        layers = config.model.num_layers
        layer = layers if args.layer is None else args.layer
        if not 1 <= layer <= layers:
            raise ValueError(f"--layer must be 1 to {layers} for this model, received {layer}.")
        figures = {
            **dict(attention_figures(translator, args.sentence, layer)),
            **dict(position_figures(translator)),
            **dict(training_figures(config, args.model)),
        }
        write(figures, Path(args.output))
    print(f"Drawn in {args.output}: {', '.join(figures)}, each as .png and .svg")


def attention_figures(
    translator: "Translator", sentence: str, layer: int
) -> "Iterator[tuple[str, Figure]]":
    """Yield the name and the picture of each attention: all heads, and those of a layer."""
    from keras_transformer.plots import attention_grid, attention_lines, sentence_attention

    found = sentence_attention(translator, sentence)
    tokens = {
        "encoder": (found.source, found.source),
        "decoder": (found.read, found.read),
        "cross": (found.source, found.written),
    }
    for name, (keys, queries) in tokens.items():
        weights = getattr(found, name)
        yield f"{name}_attention", attention_grid(weights, keys, queries, CAPTIONS[name])
        caption = f"Layer {layer}. {CAPTIONS[name]}"
        yield f"{name}_lines", attention_lines(weights[layer - 1], keys, queries, caption)


def position_figures(translator: "Translator") -> "Iterator[tuple[str, Figure]]":
    """Yield the name and the picture of the sinusoids, or of what each side has learnt."""
    import keras

    from keras_transformer.plots import position_map

    model = translator.model
    if model.config.position == "sinusoidal":
        layers = {"positions": (model.source_position, "Sinusoidal positions")}
    else:
        layers = {
            "source_positions": (model.source_position, "Learned positions of the source"),
            "target_positions": (model.target_position, "Learned positions of the target"),
        }
    for name, (layer, title) in layers.items():
        yield name, position_map(keras.ops.convert_to_numpy(layer.encoding(POSITIONS)), title)


def training_figures(config: "ExperimentConfig", directory: str) -> "Iterator[tuple[str, Figure]]":
    """Yield the name and the picture of a training's learning rate and of its curves."""
    from keras_transformer.plots import learning_rate_curve, training_curves
    from keras_transformer.schedules import NoamSchedule
    from keras_transformer.training import read_history

    training = config.training
    schedule = NoamSchedule(
        config.model.d_model, training.warmup_steps, training.learning_rate_scale
    )
    # Where an epoch is all of the text, its number of steps is in no file.
    known = training.epochs * training.steps_per_epoch if training.steps_per_epoch else None
    yield "learning_rate", learning_rate_curve(schedule, known or 5 * training.warmup_steps)
    yield "training_curves", training_curves(read_history(directory))


def write(figures: "dict[str, Figure]", output: Path) -> None:
    """Write each picture as PNG and SVG, and all for TensorBoard."""
    import tensorflow as tf

    from keras_transformer.plots import save_figure

    output.mkdir(parents=True, exist_ok=True)
    with tf.summary.create_file_writer(str(output / "tensorboard")).as_default(step=0):
        for name, figure in figures.items():
            for suffix in (".png", ".svg"):
                save_figure(figure, output / f"{name}{suffix}")
            image = tf.io.decode_png((output / f"{name}.png").read_bytes(), channels=3)
            tf.summary.image(name, image[tf.newaxis])


if __name__ == "__main__":
    main()
