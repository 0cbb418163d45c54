"""The options that connectors with an HTTP server share."""

from __future__ import annotations

import ipaddress

from tidegate.core.http_server import LOOPBACK
from tidegate.core.options import Bag
from tidegate.errors import make


def port_of(bag: Bag, default: int) -> int:
    """Take the option `port`."""
    return bag.take("port", _port, "a port from 0 to 65535 (0: any free one)", default) or 0


def _port(text: str) -> int:
    number = int(text)
    if not 0 <= number <= 65535:
        raise ValueError(text)
    return number


def path_of(bag: Bag, default: str) -> str:
    """Take the option `path`."""
    return bag.take("path", _path, "a path such as '/events'", default) or default


def _path(text: str) -> str:
    if not text.startswith("/") or "?" in text or "#" in text or text == "/health":
        raise ValueError(text)
    return text


def host_of(bag: Bag, protected: bool, secret: str) -> str:
    """Take the option `host`. A host that others can reach needs protection by the option named `secret`."""
    at = bag.span_of("host")
    host = bag.text("host", LOOPBACK) or LOOPBACK
    if not protected and not is_loopback(host):
        raise make(
            "INVALID_OPTION",
            message=f"on host {host} everybody in the network could connect",
            hint=f"add {secret} = '...', or leave out host to listen on {LOOPBACK} only",
            span=at,
        )
    return host


def is_loopback(host: str) -> bool:
    """True if only programs of this machine can connect to the host."""
    if host.casefold() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def origin_of(bag: Bag) -> str | None:
    """Take the option `cors`: the origin whose pages may use the endpoint, `*` for any."""
    return bag.take("cors", _origin, "'*' or an origin such as 'https://app.example.com'")


def _origin(text: str) -> str:
    if text != "*" and not (text.isascii() and text.isprintable() and "://" in text and " " not in text):
        raise ValueError(text)
    return text


def cors_headers(origin: str | None) -> dict[str, str]:
    """Return the headers that let pages of an origin read a response; none without an origin."""
    return {} if origin is None else {"Access-Control-Allow-Origin": origin, "Vary": "Origin"}
