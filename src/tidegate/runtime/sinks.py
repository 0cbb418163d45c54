"""Sinks at work: after every step each sink gets the changes it has not applied yet, exactly once."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import quote

from tidegate import errors
from tidegate.catalog import Catalog
from tidegate.catalog.relation import Relation
from tidegate.circuit.build import own_rows
from tidegate.connectors import registry
from tidegate.connectors.base import Sink, SinkContext
from tidegate.runtime.folder import Folder
from tidegate.runtime.step_log import StepLog
from tidegate.runtime.subscription import visible
from tidegate.sql import statements as s


@dataclass
class Running:
    """One open sink and how far it is."""

    sink: Sink
    relation: str
    upsert: bool
    done: int


class Sinks:
    """All sinks of a pipeline. One that fails stops alone: the others and the views go on."""

    def __init__(self, folder: Folder, log: StepLog) -> None:
        self._folder, self._log = folder, log
        self._running: dict[str, Running] = {}
        self.failures: dict[str, str] = {}

    def open(self, catalog: Catalog, begun: Mapping[str, int]) -> None:
        """Opens the sinks of the catalog that are not open, closes those that are gone."""
        wanted = {relation.name: relation for relation in catalog.of_kind("sink")}
        for name in self._running.keys() - wanted.keys():
            self._running.pop(name).sink.close()
        for name, relation in wanted.items():
            if name not in self._running:
                self._running[name] = self._start(relation, catalog, begun.get(name, 0))
        self.apply()

    def apply(self) -> None:
        """Gives every sink what it has not seen."""
        for name, running in self._running.items():
            if name in self.failures:
                continue
            try:
                self._catch_up(running)
            except OSError as error:
                self.failures[name] = str(error)
                print(f"sink {name} stopped: {error}", file=sys.stderr)

    def oldest(self) -> int | None:
        """The step up to which every sink has applied everything, None if there is no sink."""
        return min((running.done for running in self._running.values()), default=None)

    def close(self) -> None:
        for running in self._running.values():
            running.sink.close()
        self._running.clear()

    def _start(self, relation: Relation, catalog: Catalog, begun: int) -> Running:
        source = relation if own_rows(relation) else catalog.get(relation.dependencies[0])
        sink = build(relation)
        folder = self._folder.sinks / quote(relation.name, safe="")
        folder.mkdir(parents=True, exist_ok=True)
        sink.open(SinkContext(relation.name, folder, f"{self._folder.id}#{relation.name}#{begun}"))
        last = sink.last_step()
        return Running(sink, source.name, source.changes == "upsert", begun if last is None else max(begun, last))

    def _catch_up(self, running: Running) -> None:
        last = self._log.last()
        for step, table in self._log.changes(running.relation, running.done, last):
            running.sink.write(step, visible(table, step, running.upsert))
        running.done = last


def build(relation: Relation) -> Sink:
    """The connector behind a sink of the catalog."""
    assert relation.connector is not None
    options = [(key, value, None) for key, value in relation.connector.options]
    return registry.sink(relation.connector.kind, relation.name, relation.columns, options, relation.connector.format)


def check_fits(sink: Sink, relation: Relation, statement: s.CreateSink) -> None:
    """A sink never gets what it cannot apply: refused when it is created."""
    read = statement.name.text if statement.relation is None else statement.relation.text
    if sink.takes == "append" and relation.changes != "append":
        raise errors.make(
            "SINK_CANNOT_TAKE",
            message=f"{sink.spec.kind} in append mode takes only insertions, and {read} also changes rows",
            detail=f"the changelog kind of {read} is {relation.changes}",
            hint="write mode = 'changelog' to get every change with its op, or a view with EMIT ON WINDOW CLOSE or"
            " EMIT FINAL, whose rows only ever come",
            span=statement.connector.span,
        )
    if sink.takes == "upsert" and relation.key is None:
        raise errors.make(
            "SINK_CANNOT_TAKE",
            message=f"{sink.spec.kind} replaces rows by their key, and {read} has none",
            hint=f"GROUP BY a key in {read}, or choose a sink that takes every change",
            span=statement.connector.span,
        )
