"""Models by path: run directories and exported SavedModels."""

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pipelines.cli.parser import option_of, search_options
from pipelines.cli.text import one_line

if TYPE_CHECKING:
    import tensorflow as tf

Translate = Callable[[Sequence[str], bool], list[str]]
"""Translates sentences, with or without a progress bar."""


def load_model(args: argparse.Namespace, n_best: bool = False) -> Translate:
    """Return a function that translates with what --model names.

    Args:
        args: The options of `add_model_options`.
        n_best: Whether the function returns the --num-hypotheses best translations of a sentence,
            one per line: rank, score and translation, separated by tabs.

    Raises:
        FileNotFoundError: If there is no model.
        ValueError: If an option does not fit the model, or a file is damaged.
    """
    from keras_transformer.export import find_saved_model
    from keras_transformer.training import load_translator, prepare_cpu
    from keras_transformer.translation import translate_in_batches

    if not Path(args.model).is_dir():
        raise FileNotFoundError(
            f"There is no directory {args.model}. Give a run directory (the --output of "
            "pipelines.train) or an exported SavedModel."
        )
    # A run directory may also contain an export, which may be older than the run's model.
    is_run = (Path(args.model) / "config.yaml").exists()
    if not is_run and find_saved_model(args.model) is None:
        raise FileNotFoundError(
            f"{args.model} has neither config.yaml, as in a run directory, nor saved_model.pb, "
            "there or in a numbered directory below, as in an exported model. Give the --output of "
            "pipelines.train or of pipelines.export."
        )
    prepare_cpu()
    if is_run:
        translator = load_translator(args.model, **search_options(args))
        if not n_best:
            return lambda sentences, progress: translator(sentences, args.batch_size, progress)
        search = _n_best_lines(
            lambda text: translator.n_best(text), translator.decoding.num_hypotheses
        )
    else:
        search = _load_saved_search(args, n_best)
    return lambda sentences, progress: translate_in_batches(
        search, sentences, args.batch_size, progress
    )


def _load_saved_search(
    args: argparse.Namespace, n_best: bool
) -> "Callable[[tf.Tensor], tf.Tensor]":
    """Return the search of a SavedModel, from string [B] to string [B]."""
    from keras_transformer.export import load_saved_model

    given = search_options(args)
    wanted = str(given.pop("num_hypotheses", "")) if n_best else ""
    if given:
        options = " and ".join(map(option_of, given))
        raise ValueError(
            f"The search of a SavedModel is fixed, received {options}. Leave out {options}, or "
            "give the run directory instead."
        )
    translate = load_saved_model(args.model)
    if not n_best:
        return translate
    signature = translate.signatures["n_best"]
    most = signature.structured_outputs["scores"].shape[1]
    if not (wanted.isdecimal() and 1 <= int(wanted) <= most):
        raise ValueError(
            f"--num-hypotheses must be between 1 and {most}, the number of hypotheses of this "
            f"SavedModel, received {wanted}."
        )
    return _n_best_lines(lambda text: signature(text=text), int(wanted))


def _n_best_lines(
    n_best: "Callable[[tf.Tensor], dict[str, tf.Tensor]]", count: int
) -> "Callable[[tf.Tensor], tf.Tensor]":
    """Return a function from string [B] to string [B], each `count` lines of an n-best list."""
    import tensorflow as tf

    def search(text):
        found = n_best(text)
        rows = zip(found["translations"].numpy(), found["scores"].numpy(), strict=True)
        return tf.constant(
            [
                "\n".join(
                    f"{rank}\t{score:.4f}\t{one_line(translation.decode())}"
                    for rank, (translation, score) in enumerate(
                        zip(translations[:count], scores[:count], strict=True), start=1
                    )
                )
                for translations, scores in rows
            ],
            tf.string,
        )

    return search
