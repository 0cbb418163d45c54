"""The options that connectors with an HTTP server share."""

from __future__ import annotations

from tidegate.core.http_pages import is_loopback
from tidegate.core.http_server import LOOPBACK
from tidegate.core.option_models import Parsed
from tidegate.errors import Span, make


def _port(text: str) -> int:
    number = int(text)
    if not 0 <= number <= 65535:
        raise ValueError(text)
    return number


def _path(text: str) -> str:
    if not text.startswith("/") or "?" in text or "#" in text or text == "/health":
        raise ValueError(text)
    return text


def _origin(text: str) -> str:
    if text != "*" and not (text.isascii() and text.isprintable() and "://" in text and " " not in text):
        raise ValueError(text)
    return text


PORT = Parsed(_port, "a port from 0 to 65535 (0: any free one)")
PATH = Parsed(_path, "a path such as '/events'")
ORIGIN = Parsed(_origin, "'*' or an origin such as 'https://app.example.com'")


def check_host(host: str, protected: bool, secret: str, span: Span | None) -> None:
    """Reject a host that others can reach without the protection of the option named `secret`."""
    if not protected and not is_loopback(host):
        raise make(
            "INVALID_OPTION",
            message=f"on host {host} everybody in the network could connect",
            hint=f"add {secret} = '...', or leave out host to listen on {LOOPBACK} only",
            span=span,
        )


def cors_headers(origin: str | None) -> dict[str, str]:
    """Return the headers that let pages of an origin read a response; none without an origin."""
    return {} if origin is None else {"Access-Control-Allow-Origin": origin, "Vary": "Origin"}
