"""`FROM NOTIFY`: notifications of a PostgreSQL database, as events."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from tidegate.catalog.bus import BUS
from tidegate.connectors.contract import Capture, CaptureContext, CapturedSource, Intake, SourceSpec
from tidegate.connectors.postgres.client import broken, connected, library
from tidegate.connectors.postgres.events import json_payload
from tidegate.connectors.postgres.options import Server, reject_columns, server_options
from tidegate.connectors.postgres.position import Clock
from tidegate.core.options import Bag
from tidegate.errors import make
from tidegate.formats.events import Event, rows_of

LONGEST_CHANNEL = 63


@dataclass(frozen=True)
class ListenOptions:
    server: Server
    channels: tuple[str, ...]


def listen_options(bag: Bag) -> ListenOptions:
    """Take a source's options out of the bag."""
    server = server_options(bag)
    expected = f"names such as 'orders, payments', of at most {LONGEST_CHANNEL} bytes each"
    channels = bag.take("channels", channel_names, expected, aliases=("channel",))
    if channels is None:
        hint = "add channels = 'orders, payments'"
        raise make("MISSING_OPTION", where=bag.where, name="channels", hint=hint, span=bag.span)
    return ListenOptions(server, channels)


def channel_names(text: str) -> tuple[str, ...]:
    """`orders, payments`, as they are spelled in NOTIFY (small letters, unless they are quoted there)."""
    found = tuple(dict.fromkeys(part.strip() for part in text.split(",")))
    if not all(0 < len(name.encode()) <= LONGEST_CHANNEL for name in found):
        raise ValueError(text)
    return found


GATHER = 0.05
"""For so many seconds notifications are gathered until they are taken in together."""

_ALIVE: dict[str, Any] = {"keepalives_idle": "30", "keepalives_interval": "10", "keepalives_count": "3"}


class NotifyCapture(Capture):
    """Each notification is one event; they are numbered over all runs."""

    def __init__(self, relation: str, options: ListenOptions, context: CaptureContext) -> None:
        self._relation, self._options = relation, options
        self._clock = Clock(context.now)
        self._taken = 0

    def catch_up(self, intake: Intake) -> None:
        """There is nothing to catch up with; but one can see whether listening would work."""
        self._run(intake, once=True)

    def follow(self, intake: Intake) -> None:
        self._run(intake, once=False)

    def metrics(self) -> Mapping[str, float]:
        return {"rows_taken_total": float(self._taken)}

    def _run(self, intake: Intake, once: bool) -> None:
        driver = library()
        try:
            with closing(connected(self._options.server, autocommit=True, **_ALIVE)) as connection:
                for channel in self._options.channels:
                    connection.execute(driver.sql.SQL("LISTEN {}").format(driver.sql.Identifier(channel)))
                while not once and not intake.stopped.is_set():
                    heard = list(connection.notifies(timeout=GATHER))
                    if heard:
                        self._take_in(intake, heard)
        except driver.OperationalError as failure:
            raise broken(self._options.server, failure) from None

    def _take_in(self, intake: Intake, heard: list[Any]) -> None:
        before = intake.position or {"number": 0, "time": 0}
        self._clock.not_before(before["time"])
        now, first = self._clock.now(), before["number"] + 1
        events = [
            Event(f"{self._relation}-{number}", one.channel, "INSERT", json_payload(one.payload), self._relation, now)
            for number, one in enumerate(heard, first)
        ]
        intake.append([(BUS, rows_of(events), 1)], {"number": before["number"] + len(heard), "time": now})
        self._taken += len(heard)


@dataclass(frozen=True)
class NotifySource(CapturedSource):
    """Notifications from the moment on that it listens. PostgreSQL does not keep them: what is said while nobody
    listens is not heard."""

    options: ListenOptions

    @classmethod
    def build(cls, spec: SourceSpec, bag: Bag) -> NotifySource:
        reject_columns(spec, bag)
        return cls(spec, listen_options(bag))

    @property
    def session(self) -> str:
        return f"NOTIFY {self.options.server.place} {self.spec.relation}"

    def capture(self, others: Sequence[CapturedSource], context: CaptureContext) -> Capture:
        return NotifyCapture(self.spec.relation, self.options, context)
