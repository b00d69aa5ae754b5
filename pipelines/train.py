"""Train a translation model on parallel text.

Usage:
    python -m pipelines.train --config pipelines/configs/multi30k_en_de.yaml --output runs/en_de

Options given beside --config replace those of the file: --training.epochs 3. To go on with a
trained model on other text, name its directory: --training.init_from runs/en_de.
"""

import shlex
import sys
from collections.abc import Sequence

from keras_transformer.config import (
    DataConfig,
    DecodingConfig,
    ExperimentConfig,
    TrainingConfig,
    TransformerConfig,
)
from pipelines.cli import Command, plain_errors, run_command, start_log


class Train(Command):
    """Train a translation model on parallel text, or go on with a training that was interrupted."""

    config: str | None = None
    """YAML file with the options below."""
    preset: str | None = None
    """Model, recipe and search to start from: tiny, base, big, or another of
    keras_transformer/presets.py; config file and command line replace what differs."""
    output: str
    """Directory for the model, its vocabulary, logs and checkpoints."""
    model: TransformerConfig
    """The model."""
    data: DataConfig
    """The text."""
    training: TrainingConfig = TrainingConfig()
    """The recipe."""
    decoding: DecodingConfig = DecodingConfig()
    """The search."""


def main(argv: Sequence[str] | None = None) -> None:
    command = run_command(Train, argv)
    start_log()
    from keras_transformer.training import train

    experiment = ExperimentConfig(
        model=command.model,
        data=command.data,
        training=command.training,
        decoding=command.decoding,
    )
    try:
        with plain_errors():
            train(experiment, command.output)
    except KeyboardInterrupt:
        sys.exit("Interrupted. The same command goes on after the last whole epoch.")
    print(f"The model is in {command.output}. Score it, or export it for serving:")
    output = shlex.quote(command.output)
    print(f"  python -m pipelines.evaluate --model {output} --source FILE --target FILE")
    print(f"  python -m pipelines.export --checkpoint {output} --output saved_models/NAME")


if __name__ == "__main__":
    main()
