"""Inspect, clean and encode parallel text ahead of training, and report what is wrong with it.

Usage:
    python -m pipelines.prepare --config pipelines/configs/multi30k_en_de.yaml --output runs/en_de

The options are those of pipelines.train, which then starts with the same options at once. With
--data.cache DIRECTORY, the encoded text is for all runs with this option. --show 5 prints five
examples of what each filter finds; --data.filters chooses the filters that drop pairs. --engine ray
filters and encodes with the workers of Ray, and writes the same files.
"""

from collections.abc import Sequence

from pipelines.cli.cluster import (
    add_engine_options,
    check_engine_options,
    engine,
    mapped_by,
    pop_engine_options,
)
from pipelines.cli.errors import MISTAKE, plain_errors, stop_on_signals
from pipelines.cli.parser import Parser
from pipelines.cli.process import import_tensorflow, start_log


@plain_errors()
def main(argv: Sequence[str] | None = None, prog: str = "python -m pipelines.prepare") -> None:
    from pipelines.cli.experiment import add_experiment_options, read_experiment

    parser = Parser(
        prog=prog,
        usage="%(prog)s [--config FILE] [--preset NAME] [--output DIRECTORY] [--show N] "
        "[--engine ENGINE] [OPTIONS]",
        description=__doc__.split("\n")[0],
        allow_abbrev=False,
    )
    add_experiment_options(parser)
    parser.add_argument(
        "--show", type=int, default=0, metavar="N", help="examples of what each filter finds"
    )
    add_engine_options(parser)
    args = parser.parse_args(argv)
    check_engine_options(parser, args)
    show, how = vars(args).pop("show"), pop_engine_options(args)
    with plain_errors(status=MISTAKE):
        experiment, output = read_experiment(args, prog)
    start_log()
    with plain_errors(_interrupted), stop_on_signals(), engine(how) as run:
        mapped = mapped_by(run)
        import_tensorflow()
        from keras_transformer.training.prepare import inspection_report
        from keras_transformer.training.run import prepare

        if experiment.data.task == "translation":
            print(f"{inspection_report(experiment.data, show, mapped)}\n", flush=True)
        print(prepare(experiment, output, mapped))


def _interrupted() -> str:
    return "Interrupted. The same command continues."


if __name__ == "__main__":
    main()
