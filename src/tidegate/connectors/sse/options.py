"""The options of `INTO SSE (...)`."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from tidegate.connectors.http import ORIGIN, PATH, PORT, check_host
from tidegate.core.http_server import LOOPBACK
from tidegate.core.option_models import SECONDS, SECRET, OptionModel, Spans, not_zero, whole_number
from tidegate.errors import make


class StreamOptions(OptionModel):
    """Where clients connect, and how many events are kept in memory for them."""

    token: str | None = Field(None, description="Token that clients must send.", json_schema_extra=SECRET)
    heartbeat: Annotated[float, SECONDS] = Field(15.0, description="Pause before a comment keeps the stream alive.")
    host: str = Field(LOOPBACK, description="Address to listen on; others than this machine's own need a token.")
    port: Annotated[int, PORT] = Field(8080, description="Port to listen on; 0: any free one.")
    path: Annotated[str, PATH] = Field("/events", description="Path of the stream.")
    keep: Annotated[int, whole_number(1)] = Field(10_000, description="Number of events kept in memory.")
    max_clients: Annotated[int, whole_number(1)] = Field(1000, description="Number of clients at the same time.")
    cors: Annotated[str | None, ORIGIN] = Field(None, description="Origin whose pages may read the stream; '*': any.")

    def check(self, spans: Spans) -> None:
        token = self.token
        if token is not None and not (token and token.isascii() and token.isprintable()):
            message, hint = "the token is not a line of ASCII", "choose another"
            raise make("INVALID_OPTION", message=message, hint=hint, span=spans["token"])
        if self.heartbeat <= 0:
            raise not_zero("heartbeat", "15s", spans)
        check_host(self.host, token is not None, "token", spans["host"])
