"""Train a translation model on parallel text, or resume a run that was interrupted.

Usage:
    python -m pipelines.train --config pipelines/configs/multi30k_en_de.yaml --output runs/en_de

Options override the values of the --config file: --training.epochs 3. A run that has begun needs no
more than its --output. To end it early: --finish --output runs/en_de. To fine-tune a trained model
on other text, name its run directory: --training.init_from runs/en_de.
"""

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pipelines.cli.errors import MISTAKE, plain_errors, stop_on_signals
from pipelines.cli.parser import Parser
from pipelines.cli.process import import_tensorflow, start_log

if TYPE_CHECKING:
    from keras_transformer.config import DataConfig


@plain_errors()
def main(argv: Sequence[str] | None = None, prog: str = "python -m pipelines.train") -> None:
    from pipelines.cli.experiment import add_experiment_options, read_experiment

    parser = Parser(
        prog=prog,
        usage="%(prog)s [--config FILE] [--preset NAME] [--output DIRECTORY] [OPTIONS]",
        description=__doc__.split("\n")[0],
        allow_abbrev=False,
    )
    parser.add_argument(
        "--dry-run",
        action="store_true",
        help="read the text, make a few steps, and print steps, memory and time of the run",
    )
    parser.add_argument(
        "--choose-again",
        action="store_true",
        help="choose the final weights of a finished run again, from its checkpoints",
    )
    parser.add_argument(
        "--finish",
        action="store_true",
        help="end the run of --output now: choose the final weights from its checkpoints; without "
        "the option, the same command later trains on",
    )
    add_experiment_options(parser)
    args = parser.parse_args(argv)
    # The others are of the experiment.
    modes = {name: vars(args).pop(name) for name in ("choose_again", "finish", "dry_run")}
    given = [f"--{name.replace('_', '-')}" for name, is_given in modes.items() if is_given]
    if len(given) > 1:
        parser.error(f"{' and '.join(given)} exclude each other; leave one out")
    with plain_errors(status=MISTAKE):
        if modes["finish"] and args.output and not (Path(args.output) / "config.yaml").exists():
            raise ValueError(f"--finish needs a run, {args.output} has none. Correct --output.")
        experiment, output = read_experiment(args, prog)
    start_log()
    with plain_errors(lambda: _interrupted(Path(output), prog)), stop_on_signals():
        import_tensorflow(training=True)
        import keras

        from keras_transformer.training import dry_run, train, train_on_jax

        if modes.pop("dry_run"):
            print(dry_run(experiment, output))
            return
        if keras.backend.backend() == "jax":
            if given:
                raise ValueError(f"{given[0]} needs TensorFlow. Set KERAS_BACKEND=tensorflow.")
            train_on_jax(experiment, output)
            print("All epochs are done. To choose the weights and get the model, give the same")
            print("command with KERAS_BACKEND=tensorflow.")
            return
        train(experiment, output, **modes)
    _print_next_steps(experiment.data, output, prog)


def _print_next_steps(data: "DataConfig", output: str, prog: str) -> None:
    print(f"The model is in {output}. Score it, or export it for serving:")
    run = shlex.quote(output)
    text = "--source FILE --target FILE"
    if data.directions:
        text += " --from LANGUAGE --to LANGUAGE"
    elif data.validation_languages:
        text += " --target-language LANGUAGE --add-tag"
    elif data.task == "parsing":
        text = "--trees FILE"
    program = prog.removesuffix("train")
    print(f"  {program}evaluate --model {run} {text}")
    print(f"  {program}export --checkpoint {run} --output saved_models/NAME")


def _interrupted(run: Path, prog: str) -> str:
    # The library, which knows the names of its files, may not be imported yet.
    places = {(0, 0): ""}
    for path in (run / "checkpoints").glob("*.weights.h5"):
        match path.name.removesuffix(".weights.h5").split("-"):
            case ["epoch", epoch]:
                places[int(epoch), 0] = f"epoch {int(epoch)}"
            case ["step", epoch, step]:
                places[int(epoch) - 1, int(step)] = f"step {int(step)} of epoch {int(epoch)}"
    if place := places[max(places)]:
        finish = f"{prog} --finish --output {shlex.quote(str(run))}"
        return f"Interrupted. The same command resumes after {place}; {finish} ends the run there."
    return "Interrupted before the first checkpoint. The same command starts again."


if __name__ == "__main__":
    main()
