"""What the command lines share: log, errors, configuration file with overrides, models by path."""

import argparse
import contextlib
import dataclasses
import difflib
import logging
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pydantic
import yaml
from pydantic import TypeAdapter
from pydantic_settings import BaseSettings, CliApp, SettingsConfigDict

from keras_transformer.config import DecodingConfig, ExperimentConfig, read_yaml
from keras_transformer.presets import get_preset


def start_log() -> None:
    """Send the library's log to standard error."""
    logging.basicConfig(format="%(message)s", stream=sys.stderr)
    logging.getLogger("keras_transformer").setLevel(logging.INFO)


@contextlib.contextmanager
def plain_errors() -> Iterator[None]:
    """End the program with the message alone of an error about what the user gave."""
    try:
        yield
    except pydantic.ValidationError as error:
        sys.exit("error: " + "; ".join(_mistake(mistake) for mistake in error.errors()))
    except (ImportError, OSError, ValueError) as error:
        sys.exit(f"error: {error}")


class Command(BaseSettings):
    """A command whose options are fields: command line over --config file over --preset.

    The preset is over what the model that --training.init_from names was made with, but for its
    text, teachers, precision and replicas. The file may name both too.
    """

    model_config = SettingsConfigDict(
        extra="forbid",
        cli_avoid_json=True,
        cli_hide_none_type=True,
        cli_implicit_flags=True,
        use_attribute_docstrings=True,
    )

    @classmethod
    def settings_customise_sources(cls, settings_cls, init_settings, **others):
        return (init_settings,)  # No environment variable is an option.


def run_command(command: type[Command], argv: Sequence[str] | None = None) -> Command:
    """Parse a command line and the file that its --config names; end the program on mistakes."""
    argv = sys.argv[1:] if argv is None else list(argv)
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--config")
    parser.add_argument("--preset")
    parser.add_argument("--training.init_from", dest="init_from")
    parser.add_argument("--output")
    given = parser.parse_known_args(argv)[0]
    path = given.config
    try:
        with plain_errors():
            values = read_yaml(path) if path else {}
            if preset := given.preset or values.get("preset"):
                values = _merged(dataclasses.asdict(get_preset(str(preset))), values)
            training = values.get("training")
            in_file = training.get("init_from") if isinstance(training, dict) else None
            if start := given.init_from or in_file:
                output = given.output or values.get("output")
                values = _merged(_sections_of(str(start), output), values)
    except yaml.YAMLError as error:
        sys.exit(f"error: {path} is not YAML: {error}")
    try:
        return CliApp.run(command, cli_args=argv, **values)
    except pydantic.ValidationError as error:
        where = f" of {path} and the command line" if path else ""
        mistakes = [f"  {_mistake(mistake, command)}" for mistake in error.errors()]
        sys.exit("\n".join([f"error: the configuration{where} has mistakes:", *mistakes]))


def _sections_of(start: str, output: str | None) -> dict:
    """Return the configuration of the model to start from, but for its text and its machine's.

    Its kind of subwords is the vocabulary's, which the new training takes over. Once a training has
    begun in `output`, that has all that it took over, whatever has become of its start.
    """
    from keras_transformer.training.start import find_start

    begun = Path(output or "") / "config.yaml"
    if output is not None and begun.exists():
        sections = dataclasses.asdict(ExperimentConfig.from_file(begun))
    else:
        sections = dataclasses.asdict(find_start(start).config)
        # Another machine may be slow in bfloat16, or have other devices.
        # And what taught that model has its own text.
        for name in ("precision", "replicas", "teachers"):
            del sections["training"][name]
    sections["data"] = {"subwords": sections["data"]["subwords"]}
    return sections


def _merged(below: dict, above: dict) -> dict:
    """Return both sections by section, with the values of `above` where both have one."""
    sections = {
        name: below[name] | section
        for name, section in above.items()
        if name in below and isinstance(section, dict)
    }
    return below | above | sections


def _mistake(error: dict, command: type[Command] | None = None) -> str:
    """Put one of pydantic's errors into a line."""
    option = ".".join(map(str, error["loc"]))
    match error["type"]:
        case "missing":
            return f"{option} is missing"
        case "extra_forbidden" | "unexpected_keyword_argument":
            close = difflib.get_close_matches(option, _options(command), n=1)
            return f"{option} is no option" + (f", did you mean {close[0]}?" if close else "")
        case "value_error":  # One of ours, which says what was received.
            return f"{option}: {error['ctx']['error']}".removeprefix(": ")
    return f"{option}: {error['msg']}, received {error['input']!r}"


def _options(command: type[Command] | None) -> list[str]:
    """Return the names of a command's fields, and of the fields of its sections."""
    names = []
    for name, field in command.model_fields.items() if command else ():
        names.append(name)
        if dataclasses.is_dataclass(field.annotation):
            names += [f"{name}.{inner.name}" for inner in dataclasses.fields(field.annotation)]
    return names


def add_search_options(parser: argparse.ArgumentParser) -> None:
    """Add an option for each field of `DecodingConfig`."""
    group = parser.add_argument_group(
        "search", "For a training, each in place of what its configuration says."
    )
    for name, field in TypeAdapter(DecodingConfig).json_schema()["properties"].items():
        # The configuration itself converts the text and checks it.
        group.add_argument(_flag(name), help=field["description"].replace("%", "%%"))


def search_options(args: argparse.Namespace) -> dict[str, str]:
    """Return the options of `add_search_options` that were given, by their fields' names."""
    names = (field.name for field in dataclasses.fields(DecodingConfig))
    return {name: getattr(args, name) for name in names if getattr(args, name) is not None}


def _flag(field: str) -> str:
    return f"--{field.replace('_', '-')}"


def add_model_options(parser: argparse.ArgumentParser) -> None:
    """Add --model, --batch-size and the options of the search."""
    parser.add_argument(
        "--model",
        required=True,
        help="directory of a training (pipelines.train --output), or an exported SavedModel",
    )
    parser.add_argument("--batch-size", type=int, default=64, help="sentences at once (default 64)")
    add_search_options(parser)


def load_model(args: argparse.Namespace) -> Callable[[Sequence[str], bool], list[str]]:
    """Return `translate(sentences, progress)` with what --model names."""
    from keras_transformer.translation.batching import translate_in_batches
    from keras_transformer.export import find_saved_model, load_saved_model
    from keras_transformer.training import load_translator, prepare_cpu

    search = search_options(args)
    if not Path(args.model).is_dir():
        raise FileNotFoundError(
            f"There is no directory {args.model}. Give that of a training (the --output of "
            "pipelines.train) or of an exported SavedModel."
        )
    prepare_cpu()
    # A model may have been exported into the directory of its training, which is then the newer.
    is_training = (Path(args.model) / "config.yaml").exists()
    if is_training or find_saved_model(args.model) is None:
        translator = load_translator(args.model, **search)
        return lambda sentences, progress: translator(sentences, args.batch_size, progress)
    if search:
        options = " and ".join(map(_flag, search))
        raise ValueError(
            f"The search of a SavedModel is fixed: leave out {options}, or give the directory of "
            "its training."
        )
    translate = load_saved_model(args.model)
    return lambda sentences, progress: translate_in_batches(
        translate, sentences, args.batch_size, progress
    )


def as_line(translation: str) -> str:
    """Return the translation on one line; spelling in bytes, a model can write a line's end."""
    return translation.replace("\n", " ").replace("\r", " ")
