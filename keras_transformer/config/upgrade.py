"""Conversion of configurations that earlier versions wrote."""

from typing import Any


def upgrade(values: dict[str, Any]) -> dict[str, Any]:
    """Convert the sections of a configuration that version 0.1 wrote to this version's.

    R-Drop, the only option that was removed, was off by default and is left out then.

    Args:
        values: Nested dictionaries, such as a parsed file, of any version.

    Returns:
        The dictionaries in the form of this version; `values` stays as it is.

    Raises:
        ValueError: If the configuration uses R-Drop.

    >>> upgrade({"training": {"epochs": 3, "r_drop": 0.0}})
    {'training': {'epochs': 3}}
    """
    training = values.get("training")
    if not isinstance(training, dict) or "r_drop" not in training:
        return values
    if training["r_drop"] != 0:
        raise ValueError(
            "training.r_drop must be 0 or left out, because R-Drop was removed in version 0.2; "
            f"received {training['r_drop']}. Remove it to use the trained model, or to train "
            "without R-Drop."
        )
    kept = {name: value for name, value in training.items() if name != "r_drop"}
    return {**values, "training": kept}
