"""The page of the server: its files, what it says about the model, and BLEU for it."""

import asyncio
import dataclasses
from collections.abc import Callable
from importlib import resources
from pathlib import Path
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from keras_transformer.serving.about import about
from keras_transformer.serving.bleu import MOST_BYTES, score_request
from keras_transformer.serving.errors import Code, ServingError
from keras_transformer.serving.http import read_body
from keras_transformer.serving.settings import Limits
from keras_transformer.serving.workers import Workers

_TYPES = {
    ".css": "text/css",
    ".html": "text/html",
    ".js": "text/javascript",
    ".svg": "image/svg+xml",
}
_POLICY = {
    "default-src": "'none'",
    "connect-src": "'self'",
    "img-src": "'self'",
    "script-src": "'self'",
    "style-src": "'self'",
    "base-uri": "'none'",
    "form-action": "'none'",
    "frame-ancestors": "'none'",
}
HEADERS = {
    "Cache-Control": "no-cache",  # A newer version of the package has other files.
    "Content-Security-Policy": "; ".join(f"{name} {value}" for name, value in _POLICY.items()),
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
_BLEU_CALLS = 3  # One runs, and two wait.


class Page:
    """Answers requests for the page, which talks to the REST API of the same server.

    Args:
        name: The model's name in requests.
        find_version: Returns the version directory whose model card is shown, or None.
        limits: What a client may ask for.
    """

    def __init__(self, name: str, find_version: Callable[[], Path | None], limits: Limits):
        self._name, self._find_version, self._limits = name, find_version, limits
        folder = resources.files("keras_transformer.serving") / "page"
        # Read once, so that no path of a request is looked up on disk.
        self._files = {
            "/" if file.name == "index.html" else f"/page/{file.name}": (
                file.read_bytes(),
                _TYPES[Path(file.name).suffix],
            )
            for file in folder.iterdir()
            if Path(file.name).suffix in _TYPES  # A file manager may leave others there.
        }
        self._scorer = Workers(1, _BLEU_CALLS)

    async def answer(self, request: Request, path: str) -> Response | None:
        """Return the response to a request, or None if it is not for the page.

        Args:
            request: The request.
            path: Its path, not decoded.

        Raises:
            ServingError: If its body is malformed or too large, or it comes from another site.
        """
        response: Response | None = None
        if request.method in ("GET", "HEAD"):
            if path in self._files:
                content, kind = self._files[path]
                response = Response(content, media_type=kind)
            elif path == "/page/model.json":
                response = JSONResponse(await self._model())
        elif request.method == "POST" and path == "/page/bleu":
            response = JSONResponse(await self._bleu(request))
        if response is not None:
            response.headers.update(HEADERS)
        return response

    async def _model(self) -> dict[str, Any]:
        version = self._find_version()
        known = await asyncio.to_thread(about, version) if version else {}
        return {"name": self._name, **known}

    async def _bleu(self, request: Request) -> dict[str, Any]:
        # Another site's page may post plain text here without asking first.
        if request.headers.get("sec-fetch-site") == "cross-site":
            raise ServingError(Code.PERMISSION_DENIED, "Requests of other sites are refused.")
        limits = dataclasses.replace(self._limits, request_bytes=MOST_BYTES)
        return await self._scorer.run(score_request, await read_body(request, limits))
