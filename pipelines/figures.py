"""Draw the attention weights of a sentence, the position encodings and a run's training curves.

Usage:
    python -m pipelines.figures --model runs/en_de --output figures "A dog runs on the beach."
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pipelines.cli.errors import plain_errors
from pipelines.cli.parser import MODEL_HELP, Parser, add_search_options, search_options
from pipelines.cli.process import import_tensorflow

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from keras_transformer.config import ExperimentConfig
    from keras_transformer.translation import Translator

POSITIONS = 100
CAPTIONS = {
    "encoder": "Encoder self-attention: from each source subword to all source subwords.",
    "decoder": "Decoder self-attention: from each input subword to those up to it.",
    "cross": "Cross-attention: from each target subword to all source subwords.",
}


@plain_errors()
def main(argv: Sequence[str] | None = None, prog: str = "python -m pipelines.figures") -> None:
    parser = Parser(
        prog=prog,
        description=__doc__.split("\n")[0],
        epilog="Each figure is written as PNG and SVG, and all of them as TensorBoard images.",
    )
    parser.add_argument("--model", required=True, help=MODEL_HELP)
    parser.add_argument("--output", required=True, help="directory for the figures")
    parser.add_argument(
        "--layer",
        type=int,
        metavar="N",
        help="layer whose heads are drawn as lines, counted from 1 (default: the last)",
    )
    add_search_options(parser)
    parser.add_argument("sentence", help="sentence to translate and to draw")
    args = parser.parse_args(argv)
    import_tensorflow()
    from keras_transformer.config import ExperimentConfig
    from keras_transformer.translation import Translator

    translator = Translator.load(args.model, **search_options(args))
    config = translator.model.config
    layers = min(config.num_layers, config.decoder_layers)
    if args.layer is not None and not 1 <= args.layer <= layers:
        raise ValueError(f"--layer must be 1 to {layers} for this model, received {args.layer}.")
    figures = {
        **dict(attention_figures(translator, args.sentence, args.layer)),
        **dict(position_figures(translator)),
    }
    if (Path(args.model) / "epochs.csv").exists():  # Only a run has a history.
        config = ExperimentConfig.from_file(Path(args.model) / "config.yaml")
        figures |= dict(training_figures(config, args.model))
    write(figures, Path(args.output))
    print(f"Wrote to {args.output}: {', '.join(figures)}, each as .png and .svg")


def attention_figures(
    translator: "Translator", sentence: str, layer: int | None = None
) -> "Iterator[tuple[str, Figure]]":
    """Yield name and figure of each kind of attention: all heads, and those of one layer.

    Args:
        translator: The translator of the run.
        sentence: The sentence to translate.
        layer: The layer whose heads are drawn as lines, counted from 1; the last by default.
    """
    from keras_transformer.plots import attention_grid, sentence_attention
    from keras_transformer.plots.attention import attention_lines

    found = sentence_attention(translator, sentence)
    tokens = {
        "encoder": (found.source, found.source),
        "decoder": (found.read, found.read),
        "cross": (found.source, found.written),
    }
    for name, (keys, queries) in tokens.items():
        weights = getattr(found, name)
        yield f"{name}_attention", attention_grid(weights, keys, queries, CAPTIONS[name])
        number = len(weights) if layer is None else layer
        caption = f"Layer {number}. {CAPTIONS[name]}"
        yield f"{name}_lines", attention_lines(weights[number - 1], keys, queries, caption)


def position_figures(translator: "Translator") -> "Iterator[tuple[str, Figure]]":
    """Yield name and figure of the sinusoidal positions, or of the learned ones of each side."""
    import keras

    from keras_transformer.plots.positions import position_map

    model = translator.model
    if model.config.position != "learned":
        layers = {"positions": (model.source_position, "Sinusoidal positions")}
    else:
        layers = {
            "source_positions": (model.source_position, "Learned positions, source"),
            "target_positions": (model.target_position, "Learned positions, target"),
        }
    for name, (layer, title) in layers.items():
        length = min(POSITIONS, getattr(layer, "max_length", POSITIONS))
        yield name, position_map(keras.ops.convert_to_numpy(layer.encoding(length)), title)


def training_figures(config: "ExperimentConfig", directory: str) -> "Iterator[tuple[str, Figure]]":
    """Yield name and figure of the learning rate and of the training curves of a run."""
    from keras_transformer.plots import training_curves
    from keras_transformer.plots.curves import learning_rate_curve, step_curves
    from keras_transformer.schedules import NoamSchedule
    from keras_transformer.training.csv_tables import read_history, read_metrics

    training = config.training
    schedule = NoamSchedule(
        config.model.d_model, training.warmup_steps, training.learning_rate_scale
    )
    metrics: dict[str, list[float]] = {}
    if (Path(directory) / "metrics.csv").exists():  # Version 0.1 and JAX write none.
        metrics = read_metrics(directory)
    history = read_history(directory)
    # Without a step, show how the schedule goes on after the warm-up.
    steps = metrics.get("step") or history.pop("steps", None) or [5 * training.warmup_steps]
    yield "learning_rate", learning_rate_curve(schedule, max(2, int(steps[-1])))
    smoothing = training.label_smoothing
    yield "training_curves", training_curves(history, label_smoothing=smoothing)
    if metrics:
        yield "steps", step_curves(metrics, label_smoothing=smoothing)


def write(figures: "dict[str, Figure]", output: Path) -> None:
    """Write each figure as PNG and SVG, and all of them as TensorBoard images."""
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
