"""The endpoints `/metrics` and `/health`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from starlette.exceptions import HTTPException
from starlette.responses import Response

from tidegate.core.http_messages import HttpRequest, json_response
from tidegate.core.http_pages import reject_pages, require_own_name
from tidegate.core.http_server import HttpServer
from tidegate.runtime.exposition import CONTENT_TYPE


class MetricsServer:
    """Serves `/metrics`, collected for each request, and `/health`."""

    def __init__(self, host: str, port: int, collect: Callable[[], str]) -> None:
        self._collect, self._host = collect, host
        self._server = HttpServer(host, port, self._respond)
        self.port = self._server.port

    def close(self) -> None:
        self._server.close()

    async def _respond(self, request: HttpRequest) -> Response:
        reject_pages(request, None, "read")
        require_own_name(request, self._host)
        request.require_method("GET", "HEAD")
        match request.route:
            case "/metrics":
                text = await asyncio.to_thread(self._collect)
                return Response(text, 200, {"Content-Type": CONTENT_TYPE})
            case "/health":
                return json_response(200, {"status": "ok"})
            case _:
                raise HTTPException(404, "there are /metrics and /health")
