"""Who may use a server: protection against pages of other sites in a user's browser."""

import fnmatch
import ipaddress
import socket
import urllib.parse

from starlette.requests import Request

from keras_transformer.serving.errors import Code
from keras_transformer.serving.http import ClosingError
from keras_transformer.serving.settings import WebSettings


class Senders:
    """Refuses requests that a browser sends for a page of another site.

    A page elsewhere sends its own origin. If its name resolves to this server (DNS rebinding), the
    browser sends that name as the host.

    Args:
        settings: The names of the server, and the origins of other pages that may use it.
    """

    def __init__(self, settings: WebSettings):
        own = ("localhost", "*.localhost", socket.gethostname(), socket.getfqdn(), settings.host)
        self._hosts = [name.lower().rstrip(".") for name in (*own, *settings.allowed_hosts)]
        self._origins = set(settings.allowed_origins)

    def check(self, request: Request) -> None:
        """Check where a request comes from.

        Args:
            request: The request. One without a host or an origin is not from a browser.

        Raises:
            ClosingError: If its host is not a name of this server, or its origin another site.
        """
        host = request.headers.get("host", "")
        if host and not self._is_own(host):
            raise _refused("host", host, _name(host) or "NAME")
        # Images and scripts of a page have no origin, and a browser may be set to leave it out.
        is_foreign = request.headers.get("sec-fetch-site") == "cross-site"
        is_link = request.method == "GET" and request.headers.get("sec-fetch-mode") == "navigate"
        origin = request.headers.get("origin", "null" if is_foreign and not is_link else None)
        if origin is None or origin.partition("://")[2].lower() == host.lower():
            return
        if not self._origins & {origin, "*"}:
            raise _refused("origin", origin, origin)

    def _is_own(self, host: str) -> bool:
        name = _name(host)
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return any(fnmatch.fnmatchcase(name, pattern) for pattern in self._hosts)
        return True


def _name(host: str) -> str:
    """Return the name or address in a Host header, without a port.

    >>> [_name(host) for host in ("Mt.example.:8501", "[::1]:8501", "127.0.0.1", "[")]
    ['mt.example', '::1', '127.0.0.1', '']
    """
    try:
        return (urllib.parse.urlsplit(f"//{host}").hostname or "").rstrip(".")
    except ValueError:
        return ""


def _refused(what: str, received: str, option: str) -> ClosingError:
    return ClosingError(
        Code.PERMISSION_DENIED,
        f"This server does not answer the {what} {received[:200]}. If it should, start it with "
        f"--allowed-{what}s {option[:200]}",
    )
