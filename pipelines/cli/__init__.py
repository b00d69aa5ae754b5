"""What the commands share. Importing it imports only the standard library."""

from pipelines.cli.errors import plain_errors
from pipelines.cli.process import start_log

__all__ = ["plain_errors", "start_log"]
