"""What all scores have in common: they can be written as JSON."""

import dataclasses
import json
import os
from pathlib import Path
from typing import Any

from keras_transformer.utils.files import whole_file


class JsonScores:
    """Write a dataclass of scores as JSON; a base class without fields."""

    def to_dict(self) -> dict[str, Any]:
        """Return the scores by name, as values that JSON can represent."""
        return dataclasses.asdict(self)  # type: ignore[call-overload]  # Subclasses are dataclasses.

    def to_json(self, path: str | os.PathLike) -> None:
        """Write the scores to a file as a JSON object.

        Args:
            path: The file. It appears only when it is complete.
        """
        with whole_file(Path(path)) as temporary:
            temporary.write_text(json.dumps(self.to_dict(), indent=2) + "\n", encoding="utf-8")
