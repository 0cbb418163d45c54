"""HTTP requests and responses as the endpoints of this package read and write them."""

from __future__ import annotations

import json
import logging
from collections.abc import Awaitable, Callable, Mapping
from email.utils import formatdate
from typing import Any
from urllib.parse import urlsplit

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from tidegate.core.secrets import hide_known

_log = logging.getLogger(__name__)

PLAIN = "text/plain; charset=utf-8"
JSON = "application/json"


class HttpRequest(Request):
    """A request that knows its route and whether its body has been read."""

    def __init__(self, scope: Scope, receive: Receive) -> None:
        super().__init__(scope, receive)
        headers = self.headers
        self.unread = headers.get("content-length", "0") != "0" or "transfer-encoding" in headers
        self.route = _route(scope)

    def parameter(self, name: str) -> str | None:
        """Return a value of the query string, the last one if there are several. An empty one counts as absent."""
        return self.query_params.get(name) or None

    def require_method(self, *methods: str) -> None:
        if self.method not in methods:
            raise HTTPException(405, f"{self.route} takes {' or '.join(methods)}", {"Allow": ", ".join(methods)})

    async def read_body(self, limit: int) -> bytes:
        """Read a body of at most `limit` bytes, whose length the request must declare."""
        length = self.headers.get("content-length")
        if length is None:
            raise HTTPException(411, "a request needs a Content-Length")
        if int(length) > limit:
            raise HTTPException(413, f"a request has at most {limit} bytes, this one has {length}")
        body = await self.body()
        self.unread = False
        return body


def _route(scope: Scope) -> str:
    """Return the path as it was sent, without the query: of `GET http://host/path` too, the form proxies use."""
    target: str = scope["raw_path"].decode("ascii")
    if target.startswith("/"):
        return target
    try:
        return urlsplit(target).path
    except ValueError:
        raise HTTPException(400, "the request target is not a valid URL") from None


def json_response(status: int, value: Any, headers: Mapping[str, str] | None = None) -> Response:
    return Response(json.dumps(value) + "\n", status, {"Content-Type": JSON, **(headers or {})})


Respond = Callable[[HttpRequest], Awaitable[Response]]


def application(respond: Respond, port: int) -> ASGIApp:
    """Make an ASGI application of a function; its HTTPExceptions and failures become JSON responses.

    After a response to a request whose body was not read, the connection closes: what follows on it is that body.
    """

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        request: HttpRequest | None = None
        try:
            request = _checked(scope, receive)
            response = await respond(request)
        except HTTPException as refusal:
            response = json_response(refusal.status_code, {"error": refusal.detail}, refusal.headers)
        except ClientDisconnect:
            return
        except Exception as failure:
            response = _failed(failure, port)
        if request is None or request.unread:
            response.headers["Connection"] = "close"
        response.headers["Date"] = formatdate(usegmt=True)
        await response(scope, receive, send)

    return app


def _checked(scope: Scope, receive: Receive) -> HttpRequest:
    """A request with two lengths could be read as two requests by one server and as one by another."""
    names = {name for name, _ in scope["headers"]}
    if b"content-length" in names and b"transfer-encoding" in names:
        raise HTTPException(400, "a request has a Content-Length or a Transfer-Encoding, not both")
    return HttpRequest(scope, receive)


def _failed(failure: Exception, port: int) -> Response:
    text = hide_known(f"{type(failure).__name__}: {failure}")
    _log.error("a request to port %d failed: %s", port, text.split("\n", 1)[0])
    return json_response(500, {"error": text}, {"Connection": "close"})
