"""`FROM NOTIFY`: notifications of a PostgreSQL database, as events."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import Field

from tidegate.catalog.bus import BUS
from tidegate.connectors.contract import Capture, CaptureContext, CapturedSource, Intake, SourceSpec
from tidegate.connectors.postgres.client import broken, connected, library
from tidegate.connectors.postgres.events import json_payload
from tidegate.connectors.postgres.options import Server, reject_columns, server_options
from tidegate.connectors.postgres.slot import Clock
from tidegate.core.option_models import Aliases, OptionModel, Parsed
from tidegate.core.options import Bag
from tidegate.formats.events import Event, rows_of


class EventCapture(Capture):
    """A capture that appends events in batches, with times that never go back."""

    def __init__(self, relation: str, context: CaptureContext) -> None:
        self._relation = relation
        self._clock = Clock(context.now)
        self._taken = 0

    def catch_up(self, intake: Intake) -> None:
        self._run(intake, once=True)

    def follow(self, intake: Intake) -> None:
        self._run(intake, once=False)

    def metrics(self) -> Mapping[str, float]:
        return {"rows_taken_total": float(self._taken)}

    @abstractmethod
    def _run(self, intake: Intake, once: bool) -> None:
        """Append what exists now (`once`), or everything until the intake is stopped."""

    def _now(self, position: Any) -> int:
        """The time of the next events, not before that of the last ones."""
        self._clock.not_before((position or {"time": 0})["time"])
        return self._clock.now()

    def _append(self, intake: Intake, events: Sequence[Event], position: Any) -> None:
        intake.append([(BUS, rows_of(events), 1)], position)
        self._taken += len(events)


@dataclass(frozen=True)
class EventSource(CapturedSource):
    """A source of events with a capture of its own."""

    server: Server

    @property
    def session(self) -> str:
        return f"{self.spec.kind} {self.server.place} {self.spec.relation}"


LONGEST_CHANNEL = 63


def channel_names(text: str) -> tuple[str, ...]:
    """`orders, payments`, as they are spelled in NOTIFY (small letters, unless they are quoted there)."""
    names = tuple(dict.fromkeys(part.strip() for part in text.split(",")))
    if not all(0 < len(name.encode()) <= LONGEST_CHANNEL for name in names):
        raise ValueError(text)
    return names


class ChannelOptions(OptionModel):
    """Options of `FROM NOTIFY` beside those of the server."""

    channels: Annotated[
        tuple[str, ...],
        Parsed(channel_names, f"names such as 'orders, payments', of at most {LONGEST_CHANNEL} bytes each"),
        Aliases("channel"),
    ] = Field(description="Channels to listen on.", examples=["orders, payments"])


GATHER = 0.05
"""Seconds for which notifications are collected into one batch."""

_ALIVE: dict[str, Any] = {"keepalives_idle": "30", "keepalives_interval": "10", "keepalives_count": "3"}


class NotifyCapture(EventCapture):
    """Makes an event of each notification, numbered over all runs."""

    def __init__(self, relation: str, server: Server, channels: Sequence[str], context: CaptureContext) -> None:
        super().__init__(relation, context)
        self._server, self._channels = server, channels

    def _run(self, intake: Intake, once: bool) -> None:
        """There is nothing to catch up with, but `once` tests whether listening works."""
        driver = library()
        try:
            with closing(connected(self._server, autocommit=True, **_ALIVE)) as connection:
                for channel in self._channels:
                    connection.execute(driver.sql.SQL("LISTEN {}").format(driver.sql.Identifier(channel)))
                while not once and not intake.stopped.is_set():
                    notifications = list(connection.notifies(timeout=GATHER))
                    if notifications:
                        self._append_notifications(intake, notifications)
        except driver.OperationalError as failure:
            raise broken(self._server, failure) from None

    def _append_notifications(self, intake: Intake, notifications: list[Any]) -> None:
        last = intake.position["number"] if intake.position else 0
        now = self._now(intake.position)
        events = [
            Event(f"{self._relation}-{number}", one.channel, "INSERT", json_payload(one.payload), self._relation, now)
            for number, one in enumerate(notifications, last + 1)
        ]
        self._append(intake, events, {"number": last + len(events), "time": now})


@dataclass(frozen=True)
class NotifySource(EventSource):
    """Notifications sent while the capture listens. PostgreSQL does not store them, so others are lost."""

    channels: tuple[str, ...]

    @classmethod
    def build(cls, spec: SourceSpec, bag: Bag) -> NotifySource:
        reject_columns(spec, bag)
        return cls(spec, server_options(bag), ChannelOptions.take(bag).channels)

    def capture(self, others: Sequence[CapturedSource], context: CaptureContext) -> Capture:
        return NotifyCapture(self.spec.relation, self.server, self.channels, context)
