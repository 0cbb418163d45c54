"""Requests to one URL over a connection that stays open."""

from __future__ import annotations

import contextlib
import datetime as dt
import email.utils
import random
import socket
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import httpx

from tidegate.connectors.webhook.options import PostOptions
from tidegate.core.retry import Backoff

RETRYABLE = (408, 425, 429)
LONGEST_WAIT = 3600.0
"""An endpoint may ask for a pause of at most an hour."""

_SHOWN = 200
_ONE_CONNECTION = httpx.Limits(max_connections=1, max_keepalive_connections=1, keepalive_expiry=None)


@dataclass(frozen=True)
class Outcome:
    """The result of a request. `status` is None without a response; `wait` is the pause that the endpoint asks for."""

    status: int | None
    error: str = ""
    wait: float = 0.0

    @property
    def accepted(self) -> bool:
        return self.status is not None and 200 <= self.status < 300

    @property
    def retryable(self) -> bool:
        """True if the same request may succeed later."""
        return self.status is None or self.status >= 500 or self.status in RETRYABLE


class Poster:
    """Posts bodies to a URL. Redirects are not followed, and proxies of the environment not used."""

    def __init__(self, options: PostOptions) -> None:
        self._options = options
        self._url = urlsplit(options.url.strip())
        self._headers = {"Content-Type": "application/json", "User-Agent": "tidegate", **options.headers}
        verify = ssl.create_default_context() if self._url.scheme == "https" else False
        self._client = httpx.Client(timeout=options.timeout, limits=_ONE_CONNECTION, verify=verify, trust_env=False)
        self._socket: socket.socket | None = None
        self._connected = self._interrupted = False

    def post(self, body: bytes, headers: Mapping[str, str]) -> Outcome:
        """Send one request. If the endpoint has closed the open connection meanwhile, connect again."""
        try:
            try:
                return self._attempt(body, headers)
            except (httpx.NetworkError, httpx.RemoteProtocolError):
                if self._connected or self._interrupted:
                    raise
                return self._attempt(body, headers)
        except httpx.HTTPError as failure:
            return Outcome(None, f"{self._address} cannot be reached: {_reason(failure)}")

    def interrupt(self) -> None:
        """End the request under way, from another thread."""
        self._interrupted = True
        if self._socket is not None:
            with contextlib.suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._client.close()

    def _attempt(self, body: bytes, headers: Mapping[str, str]) -> Outcome:
        self._connected = False
        target = (self._url.path or "/") + (f"?{self._url.query}" if self._url.query else "")
        extensions = {"target": target.encode(), "trace": self._trace, "timeout": self._client.timeout.as_dict()}
        request = httpx.Request(
            "POST", self._url.geturl(), content=body, headers={**self._headers, **headers}, extensions=extensions
        )
        response = self._client.send(request)
        if response.is_success:
            return Outcome(response.status_code)
        return Outcome(
            response.status_code, self._rejection(response), parse_retry_after(response.headers.get("Retry-After"))
        )

    def _trace(self, event: str, info: Mapping[str, Any]) -> None:
        """Remember the socket of a new connection, so that `interrupt` can shut it down."""
        if event in ("connection.connect_tcp.complete", "connection.start_tls.complete"):
            self._connected = True
            self._socket = info["return_value"].get_extra_info("socket")

    def _rejection(self, response: httpx.Response) -> str:
        detail = response.content.decode("utf-8", "replace")[:_SHOWN].strip()
        if response.is_redirect:
            detail = "redirects are not followed, write the new address as url"
        text = f"{self._address} answered {response.status_code} {response.reason_phrase}".strip()
        return self._without_secrets(f"{text}: {detail}" if detail else text)

    @property
    def _address(self) -> str:
        port = f":{self._url.port}" if self._url.port else ""
        return f"{self._url.hostname}{port}"

    def _without_secrets(self, text: str) -> str:
        hidden = [self._options.secret, self._url.password, *self._options.headers.values()]
        for value in hidden:
            text = text.replace(value, "***") if value else text
        return text


def _reason(failure: BaseException) -> str:
    """Describe a failure by the operating system's words if it has some."""
    if isinstance(failure, httpx.TimeoutException):
        return "it did not answer in time"
    if isinstance(failure, httpx.RemoteProtocolError) and "without sending a response" in str(failure):
        return "it closed the connection without an answer"
    cause: BaseException | None = failure
    while cause is not None:
        if isinstance(cause, OSError) and cause.strerror:
            return cause.strerror
        cause = cause.__cause__ or cause.__context__
    return str(failure) or type(failure).__name__


def parse_retry_after(value: str | None, now: Callable[[], dt.datetime] = lambda: dt.datetime.now(dt.UTC)) -> float:
    """Return the seconds of a `Retry-After`, given as a number or a date; 0 for anything else."""
    if value is None:
        return 0.0
    if value.strip().isdecimal():
        return min(float(value), LONGEST_WAIT)
    try:
        time = email.utils.parsedate_to_datetime(value)
    except ValueError:
        return 0.0
    aware = time if time.tzinfo else time.replace(tzinfo=dt.UTC)
    return min(max((aware - now()).total_seconds(), 0.0), LONGEST_WAIT)


def pause_after(failures: int, options: PostOptions, draw: Callable[[], float] = random.random) -> float:
    """Return the pause after a number of failures: twice as long each time, and randomly up to half of it shorter, so
    that many sinks do not return at the same moment."""
    return Backoff(options.backoff, options.max_backoff, jitter=0.5).pause(failures, draw)
