"""The rule that text comes either from files or from a dataset of TensorFlow Datasets (TFDS)."""

from collections.abc import Collection, Sequence


def text_source_problems(
    given: Collection[str],
    *,
    files: Sequence[str],
    dataset: Sequence[str],
    required_files: Sequence[str],
    required_dataset: Sequence[str],
    languages: tuple[str | None, str | None],
) -> list[str]:
    """Return what is wrong with the choice of text, in terms of the caller's own option names.

    Args:
        given: Names of the options that have a value.
        files: Names of the options that choose text in files.
        dataset: Names of the options that choose a TFDS dataset.
        required_files: Names of the options that text in files needs.
        required_dataset: Names of the options that a TFDS dataset needs: its name first, source
            and target language last.
        languages: Values of the source and the target language, None where not given.

    Returns:
        A sentence for each problem, without a final period; none if the choice is valid.

    >>> options = dict(
    ...     files=["--source", "--target"],
    ...     dataset=["--tfds"],
    ...     required_files=["--source"],
    ...     required_dataset=["--tfds", "--from", "--to"],
    ...     languages=(None, None),
    ... )
    >>> text_source_problems(["--source"], **options)
    []
    >>> text_source_problems(["--tfds", "--from"], **options)
    ['a TFDS dataset needs --tfds, --from, --to, received no --to; give what is missing']
    """
    chosen_files = [name for name in files if name in given]
    chosen_dataset = [name for name in dataset if name in given]
    if chosen_dataset:
        kind, required = "a TFDS dataset", required_dataset
    else:
        kind, required = "text in files", required_files
    missing = [name for name in required if name not in given]
    problems = []
    if chosen_files and chosen_dataset:
        problems.append(
            "text is either in files or in a TFDS dataset, received "
            f"{', '.join(chosen_files)} and {', '.join(chosen_dataset)}; give only one kind"
        )
    elif missing:
        advice = (
            "give what is missing"
            if chosen_files or chosen_dataset
            else f"give text in files, or {required_dataset[0]} for a TFDS dataset"
        )
        problems.append(
            f"{kind} needs {', '.join(required)}, received no {' and no '.join(missing)}; {advice}"
        )
    if languages[0] is not None and languages[0] == languages[1]:
        problems.append(
            f"{' and '.join(required_dataset[-2:])} must be two languages, received "
            f"{languages[0]} for both"
        )
    return problems
