"""What Keras gives to callbacks."""

from typing import Any

Logs = dict[str, Any] | None
"""Values of a step or an epoch by name; callbacks that come later see what is added."""
