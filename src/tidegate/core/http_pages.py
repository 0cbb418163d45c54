"""Protection from pages in a browser on this machine: they can send requests to ports that nobody else can reach."""

from __future__ import annotations

import ipaddress
from urllib.parse import urlsplit

from starlette.exceptions import HTTPException

from tidegate.core.http_messages import HttpRequest


def is_loopback(host: str) -> bool:
    """True if only programs of this machine can connect to the host."""
    if host.casefold() == "localhost" or host.casefold().endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def require_own_name(request: HttpRequest, listening_on: str) -> None:
    """Reject a request to a loopback address under another name than this machine's own: the owner of a name can point
    it here (DNS rebinding), and a page of that name may then read every response."""
    target = request.scope["raw_path"].decode("ascii", "replace")
    host = urlsplit(target).netloc if "://" in target else request.headers.get("Host", "").strip()
    name = host.partition("]")[0].lstrip("[") if host.startswith("[") else host.partition(":")[0]
    if is_loopback(listening_on) and not is_loopback(name):
        raise HTTPException(421, f"the Host header says {host[:80]!r}, this is {listening_on}")


def reject_pages(request: HttpRequest, cors: str | None, what: str) -> None:
    """Reject what a page of another origin than `cors` sends. Browsers name the origin of the page, or at least say
    that it is another one; other clients send neither."""
    origin = request.headers.get("Origin")
    if cors == "*" or (origin is not None and origin == cors):
        return
    if origin is not None:
        raise HTTPException(403, f"pages of {origin[:80]} may not {what} here")
    if request.headers.get("Sec-Fetch-Site", "none") != "none":
        raise HTTPException(403, f"pages may not {what} here")
