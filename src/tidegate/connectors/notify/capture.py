"""Listens to channels of a database."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from typing import Any

from tidegate.catalog.bus import BUS
from tidegate.connectors.contract import Capture, CaptureContext, Intake
from tidegate.connectors.notify.options import ListenOptions
from tidegate.connectors.postgres.client import broken, connected, library
from tidegate.connectors.postgres.clock import Clock
from tidegate.connectors.postgres.payloads import json_payload
from tidegate.formats.events import Event, rows_of

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
