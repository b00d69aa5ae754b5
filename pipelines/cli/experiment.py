"""An experiment from the command line, a configuration file and a preset."""

import argparse
import dataclasses
import difflib
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from pipelines.cli.errors import MISTAKE, Failed

_NOTHING_GIVEN = """\
error: give --config FILE, or --preset NAME (tiny, base or big) with --output DIRECTORY and the \
data: --data.train_source and --data.validation_source, or --data.tfds with \
--data.source_language and --data.target_language. See {prog} --help."""

_MISSING = {
    "output": "output is missing; give --output DIRECTORY",
    "model": "model is missing; give --preset NAME, or --model.vocab_size and other sizes",
    "data": "data is missing; give --data.train_source and --data.validation_source, or "
    "--data.tfds with --data.source_language and --data.target_language",
}


def add_experiment_options(parser: argparse.ArgumentParser) -> None:
    """Add --config, --preset, --output and an option for each field of `ExperimentConfig`."""
    from pydantic import TypeAdapter

    from keras_transformer.config import ExperimentConfig

    parser.add_argument("--config", metavar="FILE", help="YAML file with the options below")
    parser.add_argument(
        "--preset",
        metavar="NAME",
        help="model, training and decoding options to start from: tiny, base, big, or another of "
        "keras_transformer/presets.py; the file and the command line override it",
    )
    parser.add_argument(
        "--output", metavar="DIRECTORY", help="run directory: model, vocabulary, logs, checkpoints"
    )
    for section in dataclasses.fields(ExperimentConfig):
        schema = TypeAdapter(section.type).json_schema()
        group = parser.add_argument_group(section.name, section.type.__doc__.split("\n")[0])
        for name in (field.name for field in dataclasses.fields(section.type)):
            field = schema["properties"][name]
            group.add_argument(
                f"--{section.name}.{name}",
                action=_action(field),
                metavar=_metavar(field),
                help=_help(field, required=name in schema.get("required", ())),
            )


class _Repeatable(argparse.Action):
    """Keep a text as it is, and several, each with the option, as a tuple."""

    def __call__(self, parser, namespace, value, option_string=None):
        before = getattr(namespace, self.dest)
        if before is not None:
            value = (*(before if isinstance(before, tuple) else (before,)), value)
        setattr(namespace, self.dest, value)


def _action(field: Mapping[str, Any]) -> str | type[argparse.Action]:
    first, *others = (kind.get("type") for kind in field.get("anyOf", [field]))
    if first == "array":
        return "append"
    return _Repeatable if "array" in others else "store"


def _metavar(field: Mapping[str, Any]) -> str:
    kinds = field.get("anyOf", [field])  # Of an optional field, the first is its type.
    if "enum" in kinds[0]:
        return "{" + ",".join(kinds[0]["enum"]) + "}"
    return {"integer": "N", "number": "X"}.get(kinds[0].get("type"), "TEXT")


def _help(field: Mapping[str, Any], required: bool) -> str:
    text = " ".join(field["description"].split()).replace("%", "%%")
    if required:
        return f"{text} (required)"
    default = field.get("default")
    return text if default in (None, "", []) else f"{text} (default {default})"


def read_experiment(args: argparse.Namespace, prog: str) -> tuple[Any, str]:
    """Return the `ExperimentConfig` and the output directory of a command line.

    The command line overrides the file, which overrides the preset, which overrides the model that
    training.init_from names: all of its configuration but its text, teachers, precision and
    replicas, as far as it was saved with the model. Without a file, a preset and such a model, the
    file is that of the run in --output, if there is one. The program ends with all mistakes at
    once.
    """
    import pydantic

    from keras_transformer.config import ExperimentConfig
    from keras_transformer.config.experiment import read_yaml
    from keras_transformer.presets import get_preset

    given = dict(_given(vars(args)))
    path = args.config or _begun(given)
    if not path and not given.keys() - {"output"}:
        raise Failed(_NOTHING_GIVEN.format(prog=prog), MISTAKE)
    repeated: list[str] = []
    in_file = read_yaml(path, repeated) if path else {}
    values = _merged(in_file, given)
    preset, output = values.pop("preset", None), values.pop("output", None)
    values.pop("config", None)
    if preset:
        values = _merged(dataclasses.asdict(get_preset(str(preset))), values)
    training = values.get("training")
    if start := training.get("init_from") if isinstance(training, dict) else None:
        values = _merged(_sections_of(str(start), output), values)
    mistakes = repeated if output else [_MISSING["output"], *repeated]
    try:
        experiment = ExperimentConfig.from_dict(values)
    except pydantic.ValidationError as error:
        mistakes += map(_mistake, error.errors())
    if mistakes:
        where = f" of {path} and the command line" if path else ""
        lines = [f"error: the configuration{where} has mistakes:", *mistakes]
        raise Failed("\n  ".join(lines), MISTAKE)
    return experiment, str(output)


def _begun(given: Mapping[str, Any]) -> str | None:
    """Return the configuration of the run in --output, if nothing else has a whole one."""
    if "output" not in given or "preset" in given or "init_from" in given.get("training", {}):
        return None
    path = Path(given["output"]) / "config.yaml"
    return str(path) if path.exists() else None


def _given(options: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield what the command line gives: texts, and a dictionary for each section."""
    sections: dict[str, dict[str, Any]] = {}
    for option, value in options.items():
        if value is None:
            continue
        section, _, name = option.rpartition(".")
        if not section:
            yield option, value
        elif isinstance(value, tuple):
            sections.setdefault(section, {})[name] = list(value)
        elif isinstance(value, list):  # Repeated, or separated by commas.
            split = _symbols if name == "user_symbols" else _items
            items = [item for text in value for item in split(text)]
            sections.setdefault(section, {})[name] = items
        else:  # "None" removes a value of the file.
            sections.setdefault(section, {})[name] = None if value == "None" else value
    yield from sections.items()


def _items(text: str) -> list[Any]:
    """Return the items that a text lists: separated by commas, or in the notation of YAML.

    >>> _items("2,0.5"), _items("{source: a.en, target: a.de}")
    (['2', '0.5'], [{'source': 'a.en', 'target': 'a.de'}])
    """
    if not text.startswith(("{", "[")):
        return text.split(",")
    try:
        found = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ValueError(
            f"{text!r:.80} must be YAML, such as {{source: a.en, target: a.de}}: "
            f"{' '.join(str(error).split())}. Correct it."
        ) from error
    return found if isinstance(found, list) else [found]


def _symbols(text: str) -> list[str]:
    """Return the user symbols that a text lists, separated by commas.

    Brackets are symbols, except around names of patterns, and the commas of a regular expression
    belong to it. `[]` is none.

    >>> _symbols("[NAME],re:[A-Z]{2,3},re:#,html"), _symbols("[]"), _symbols("[printf, html]")
    (['[NAME]', 're:[A-Z]{2,3}', 're:#,html'], [], ['printf', 'html'])
    """
    from keras_transformer.config.data import SYMBOL_KINDS

    plain, *patterns = re.split(r"(?:^|,)(?=re:)", text)
    listed = [each.strip() for each in plain.removeprefix("[").removesuffix("]").split(",")]
    if plain.startswith("[") and plain.endswith("]") and {*listed} <= {"", *SYMBOL_KINDS}:
        plain = ",".join(listed)
    return [*(each.strip() for each in plain.split(",") if each.strip()), *patterns]


def _sections_of(start: str, output: str | None) -> dict[str, Any]:
    """Return the configuration of the model to start from, without its text and its machine.

    The new run takes over the task and the kind of subwords with the vocabulary. A run that has
    already begun in `output` has its own configuration, whatever has become of the model it started
    from.
    """
    from keras_transformer.config import ExperimentConfig
    from keras_transformer.translation.saved import find_translator

    begun = Path(output or "") / "config.yaml"
    if output is not None and begun.exists():
        sections = dataclasses.asdict(ExperimentConfig.from_file(begun))
        data = {name: sections["data"][name] for name in ("subwords", "task", "word_tags")}
        return {**sections, "data": data}
    saved = find_translator(start)
    sections = dataclasses.asdict(saved.config)
    del sections["origin"]  # The run records it; see `claim`.
    sections["data"] |= saved.read_task()
    recipe = saved.facts.get("training")
    if isinstance(recipe, Mapping):  # A translator that was saved from Python has none.
        sections["training"] = _recipe(recipe, saved.path)
    return sections


def _recipe(training: Mapping[str, Any], path: Path) -> dict[str, Any]:
    """Return a recipe as this version has it, without what belongs to its machine and its text.

    Another machine may be slow in bfloat16 or have other devices, and the teachers of that model
    fit its text.
    """
    from pydantic import TypeAdapter, ValidationError

    from keras_transformer.config import TrainingConfig
    from keras_transformer.config.experiment import upgrade
    from keras_transformer.config.strict import describe_mistake

    try:
        values = upgrade({"training": dict(training)})["training"]
        recipe = dataclasses.asdict(TypeAdapter(TrainingConfig).validate_python(values))
    except ValidationError as error:
        mistakes = "; ".join(f"training.{describe_mistake(each)}" for each in error.errors())
        raise ValueError(f"{path} has invalid values: {mistakes}.") from error
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error
    left_out = ("precision", "jit_compile", "replicas", "teachers")
    return {name: value for name, value in recipe.items() if name not in left_out}


def _merged(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Merge sections; values of `above` take precedence."""
    sections = {
        name: {**below[name], **section}
        for name, section in above.items()
        if isinstance(below.get(name), dict) and isinstance(section, dict)
    }
    return {**below, **above, **sections}


def _mistake(error: Mapping[str, Any]) -> str:
    """Return an error of pydantic in one line, with the option that was meant."""
    from keras_transformer.config.strict import describe_mistake

    message, option = describe_mistake(error), ".".join(map(str, error["loc"]))
    if error["type"] == "missing" and option in _MISSING:
        return _MISSING[option]
    if message.endswith("is not an option"):
        close = difflib.get_close_matches(option, _options(), n=1)
        return message + (f", did you mean {close[0]}?" if close else "")
    return message


def _options() -> list[str]:
    """Return the names of all sections and of their fields."""
    from keras_transformer.config import ExperimentConfig

    names = ["output", "preset"]
    for section in dataclasses.fields(ExperimentConfig):
        names.append(section.name)
        names += [f"{section.name}.{field.name}" for field in dataclasses.fields(section.type)]
    return names
