"""Requests to one URL over a connection that is kept."""

from __future__ import annotations

import base64
import contextlib
import datetime as dt
import email.utils
import http.client
import random
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from urllib.parse import unquote, urlsplit

from tidegate.connectors.webhook.options import PostOptions

AGAIN = (408, 425, 429)
LONGEST_WAIT = 3600.0
"""An endpoint may ask for a pause of at most an hour."""

_SHOWN = 200
_CLOSED = (http.client.RemoteDisconnected, ConnectionResetError, BrokenPipeError)


@dataclass(frozen=True)
class Outcome:
    """What became of a request. `status` is None if nobody answered; `wait` is the pause that the endpoint asks for."""

    status: int | None
    error: str = ""
    wait: float = 0.0

    @property
    def taken(self) -> bool:
        return self.status is not None and 200 <= self.status < 300

    @property
    def again(self) -> bool:
        """Whether the same request may go well later."""
        return self.status is None or self.status >= 500 or self.status in AGAIN


class Poster:
    """Posts bodies to a URL."""

    def __init__(self, options: PostOptions) -> None:
        self._options = options
        self._url = urlsplit(options.url)
        self._connection: http.client.HTTPConnection | None = None
        self._interrupted = False
        self._headers = {"Content-Type": "application/json", "User-Agent": "tidegate", **options.headers}
        if self._url.username is not None:
            user = f"{unquote(self._url.username)}:{unquote(self._url.password or '')}"
            self._headers["Authorization"] = "Basic " + base64.b64encode(user.encode()).decode("ascii")

    def post(self, body: bytes, headers: Mapping[str, str]) -> Outcome:
        """One request. A connection that the other end has closed meanwhile is opened anew."""
        is_kept = self._connection is not None
        try:
            try:
                return self._attempt(body, headers)
            except _CLOSED:
                self.close()
                if not is_kept or self._interrupted:
                    raise
                return self._attempt(body, headers)
        except (OSError, http.client.HTTPException) as failure:
            self.close()
            return Outcome(None, f"{self._place} cannot be reached: {_reason(failure)}")

    def interrupt(self) -> None:
        """Ends the request that is under way, from another thread."""
        self._interrupted = True
        wire = None if self._connection is None else self._connection.sock
        if wire is not None:
            with contextlib.suppress(OSError):
                wire.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _attempt(self, body: bytes, headers: Mapping[str, str]) -> Outcome:
        if self._connection is None:
            kind = http.client.HTTPSConnection if self._url.scheme == "https" else http.client.HTTPConnection
            self._connection = kind(self._url.hostname or "", self._url.port, timeout=self._options.timeout)
        target = (self._url.path or "/") + (f"?{self._url.query}" if self._url.query else "")
        self._connection.request("POST", target, body, {**self._headers, **headers})
        answer = self._connection.getresponse()
        text = answer.read()
        if 200 <= answer.status < 300:
            return Outcome(answer.status)
        return Outcome(answer.status, self._told(answer, text), wait_of(answer.getheader("Retry-After")))

    def _told(self, answer: http.client.HTTPResponse, text: bytes) -> str:
        said = text.decode("utf-8", "replace")[:_SHOWN].strip()
        if 300 <= answer.status < 400:
            said = "redirects are not followed, write the new address as url"
        told = f"{self._place} answered {answer.status} {answer.reason}".strip()
        return self._without_secrets(f"{told}: {said}" if said else told)

    @property
    def _place(self) -> str:
        port = f":{self._url.port}" if self._url.port else ""
        return f"{self._url.hostname}{port}"

    def _without_secrets(self, text: str) -> str:
        hidden = [self._options.secret, self._url.password, *self._options.headers.values()]
        for value in hidden:
            text = text.replace(value, "***") if value else text
        return text


def _reason(failure: Exception) -> str:
    if isinstance(failure, TimeoutError):
        return "it did not answer in time"
    if isinstance(failure, http.client.RemoteDisconnected):
        return "it closed the connection without an answer"
    return (failure.strerror if isinstance(failure, OSError) else None) or str(failure) or type(failure).__name__


def wait_of(retry_after: str | None, now: Callable[[], dt.datetime] = lambda: dt.datetime.now(dt.UTC)) -> float:
    """The seconds that a `Retry-After` asks for, as a number or as a date; 0 if it asks for nothing that is known."""
    if retry_after is None:
        return 0.0
    if retry_after.strip().isdecimal():
        return min(float(retry_after), LONGEST_WAIT)
    try:
        moment = email.utils.parsedate_to_datetime(retry_after)
    except ValueError:
        return 0.0
    aware = moment if moment.tzinfo else moment.replace(tzinfo=dt.UTC)
    return min(max((aware - now()).total_seconds(), 0.0), LONGEST_WAIT)


def pause_after(failures: int, options: PostOptions, draw: Callable[[], float] = random.random) -> float:
    """The pause after so many failures: twice as long each time, and by chance up to half of it shorter, so that many
    sinks do not come back at the same moment."""
    longest = min(options.backoff * 2.0 ** min(failures - 1, 60), options.max_backoff)
    return longest * (1.0 - draw() / 2.0)
