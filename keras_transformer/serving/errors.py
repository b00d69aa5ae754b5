"""Errors of requests, with the codes that REST and gRPC share."""

import dataclasses
from collections.abc import Mapping

from grpc import StatusCode as Code

_BY_NUMBER = {code.value[0]: code for code in Code}  # TensorFlow has the same numbers.
_HTTP = {
    Code.INVALID_ARGUMENT: 400,
    Code.NOT_FOUND: 404,
    Code.ALREADY_EXISTS: 409,
    Code.PERMISSION_DENIED: 403,
    Code.RESOURCE_EXHAUSTED: 429,
    Code.FAILED_PRECONDITION: 400,
    Code.ABORTED: 409,
    Code.OUT_OF_RANGE: 400,
    Code.UNIMPLEMENTED: 501,
    Code.UNAVAILABLE: 503,
    Code.UNAUTHENTICATED: 401,
}


@dataclasses.dataclass(eq=False)
class ServingError(Exception):
    """A request cannot be answered.

    >>> ServingError(Code.NOT_FOUND, "Could not find any versions of model x").http_status
    404
    """

    code: Code
    """What gRPC answers."""
    message: str
    """Why; it is part of the answer."""
    http: int | None = None
    """What REST answers, if it is not the usual status for the code."""
    headers: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """Headers of that answer."""

    def __post_init__(self) -> None:
        super().__init__(self.message)

    @property
    def http_status(self) -> int:
        """The status that REST answers."""
        return self.http or _HTTP.get(self.code, 500)


def invalid(message: str) -> ServingError:
    """Return the error for a malformed request."""
    return ServingError(Code.INVALID_ARGUMENT, message)


def of_number(number: int, message: str) -> ServingError:
    """Return the error for a code and a message of TensorFlow.

    >>> of_number(5, "no such table").code
    <StatusCode.NOT_FOUND: (5, 'not found')>
    """
    return ServingError(_BY_NUMBER[number], message)
