"""Spark behind one database: the session, its analyser, ad-hoc queries, and the pipeline."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TypeGuard, cast

from pyspark.sql import SparkSession

from tidegate import circuit, errors
from tidegate.bind.events import DEFAULT_IDLE, OF_VIEW
from tidegate.catalog import Catalog
from tidegate.catalog.bus import BUS, RESULTS
from tidegate.catalog.relation import Relation
from tidegate.circuit.model import Circuit
from tidegate.connectors import registry
from tidegate.connectors.base import AnySource, Refreshed, Source
from tidegate.core.durations import parse_micros
from tidegate.runtime.captures import is_captured
from tidegate.runtime.reinjection import Returning
from tidegate.runtime.sinks import Sinks
from tidegate.spark import session
from tidegate.spark.analyzer import SparkAnalyzer
from tidegate.spark.generation import Wanted
from tidegate.spark.pipeline import Pipeline
from tidegate.spark.queries import Queries
from tidegate.spark.types import arrow_schema
from tidegate.storage.folder import Folder
from tidegate.storage.insert_log import InsertLog
from tidegate.storage.ledger import Ledger
from tidegate.storage.step_log import StepLog
from tidegate.traits.waterline import Frontier, walk

COMPACT_EVERY = 50


class Engine:
    """What a database needs of Spark."""

    def __init__(self, spark: SparkSession, folder: Folder, log: StepLog, inserts: InsertLog, wall: bool) -> None:
        self.spark, self._folder, self._log, self._inserts = spark, folder, log, inserts
        self.analyzer = SparkAnalyzer(spark)
        self.queries = Queries(spark)
        self._wall = wall
        self._pipeline: Pipeline | None = None
        self._built: tuple[Catalog, bool, Circuit] | None = None
        self._on_step: Callable[[int], None] = lambda step: None

    @classmethod
    def connect(
        cls,
        folder: Folder,
        log: StepLog,
        inserts: InsertLog,
        given: SparkSession | None,
        master: str | None,
        config: Mapping[str, str],
        wall: bool,
    ) -> Engine:
        """On a session of the user's, or on one made for this."""
        found = session.connect(master, config, folder.log) if given is None else session.session_of(given, config)
        return cls(found, folder, log, inserts, wall)

    @property
    def pipeline(self) -> Pipeline:
        if self._pipeline is None:
            self._pipeline = Pipeline(self.spark, self._folder, self._log, self._inserts, self._wall)
            self._pipeline.after_step = lambda step: self._on_step(step)
        return self._pipeline

    def on_step(self, callback: Callable[[int], None]) -> None:
        """Called after every step, when it is logged."""
        self._on_step = callback

    def circuit(self, catalog: Catalog, ledger: Ledger) -> Circuit:
        """What the catalog asks to be maintained."""
        begun = ledger.begun()
        if self._built is None or self._built[0] is not catalog or self._built[1] != (BUS in begun):
            self._built = (catalog, BUS in begun, circuit.build(catalog, self.analyzer, begun))
        return self._built[2]

    def run(self, catalog: Catalog, ledger: Ledger, release: int | None, once: bool) -> bool:
        """Makes the pipeline run the catalog; False if there is nothing to run (rows given so far are then past).
        `release`: how much of the insert log it may read, None for all that comes."""
        built = self.circuit(catalog, ledger)
        self.pipeline.once = once
        self.pipeline.release(release)
        if not built.outputs and not built.ops:
            self.pipeline.skip(self._inserts.head())
            return False
        wanted = _wanted(built, catalog, ledger)
        if once:
            _check_bounded(wanted.sources)
        self.pipeline.start(wanted)
        return True

    def idle(self) -> None:
        self.pipeline.idle()

    @property
    def active(self) -> bool:
        return self._pipeline is not None and self._pipeline.active

    def done(self) -> float:
        """How much of the step under way is done, from 0 to 1."""
        return 0.0 if self._pipeline is None else self._pipeline.done()

    def check(self) -> None:
        if self._pipeline is not None:
            self._pipeline.check()

    def stop(self) -> None:
        if self._pipeline is not None:
            self._pipeline.stop()

    def set_time(self, time_us: int) -> None:
        self.pipeline.set_time(time_us)

    def end(self) -> None:
        self.pipeline.end()

    def clock_us(self) -> int:
        clock = self.pipeline.clock()
        return int(clock.get("next", clock["time"]))

    def returning(self, catalog: Catalog, ledger: Ledger) -> list[Returning]:
        """The views whose results return to the event bus."""
        views = circuit.event_views(catalog)
        if not views:
            return []
        keys = {output.relation: output.key for output in self.circuit(catalog, ledger).outputs}
        begun = ledger.begun()
        return [
            Returning(view, keys[RESULTS + view.name], view.option("emit") == "batch", begun.get(view.name, 0))
            for view in views
        ]

    def release_own(self) -> None:
        """What the pipeline itself has appended to the insert log belongs to the present step."""
        self.pipeline.release_own()

    def state_sizes(self, catalog: Catalog, ledger: Ledger) -> dict[str, tuple[int, int, int]]:
        """Rows and bytes of state behind each view, of the ops that it needs, and the rows that they have dropped."""
        built = self.circuit(catalog, ledger)
        sizes = {op: _total(dict(parts)) for op, parts in dict(self.pipeline.state).items()}
        needed = {output.relation: circuit.ops_behind(built, output) for output in built.outputs}
        dropped = self._log.header(self._log.last()).dropped
        return {
            relation: (
                sum(sizes.get(op, (0, 0))[0] for op in ops),
                sum(sizes.get(op, (0, 0))[1] for op in ops),
                sum(dropped.get(op, 0) for op in ops),
            )
            for relation, ops in needed.items()
        }

    def group_counts(self, catalog: Catalog, ledger: Ledger) -> dict[str, int]:
        """How many groups are kept behind each view."""
        built, counts = self.circuit(catalog, ledger), self._log.header(self._log.last()).groups
        return {
            output.relation: sum(counts.get(op, 0) for op in circuit.ops_behind(built, output))
            for output in built.outputs
        }

    def maintain(self, catalog: Catalog, keep: int, sinks: Sinks) -> None:
        """After a step: snapshots where reading would fold too much, and the end of what retention allows."""
        kept = {relation.name: arrow_schema(relation.columns) for relation in catalog if relation.kept}
        for relation, schema in kept.items():
            if self._log.needs_snapshot(relation):
                self._log.snapshot(relation, schema, self._log.last())
        if self._log.last() % COMPACT_EVERY == 0:
            self._log.compact(kept, keep, sinks.oldest())
            self._inserts.forget(self.pipeline.consumed())


def _total(parts: Mapping[str, list[int]]) -> tuple[int, int]:
    return sum(rows for rows, _ in parts.values()), sum(size for _, size in parts.values())


def _wanted(built: Circuit, catalog: Catalog, ledger: Ledger) -> Wanted:
    relations = [catalog.get(item.relation) for item in built.inputs]
    connected = {relation.name: source_of(relation) for relation in relations if relation.connector is not None}
    sources = {
        name: cast(Source, source)
        for name, source in connected.items()
        if not is_refreshed(source) and not is_captured(source)
    }
    first = ledger.first_entries()
    fed = {relation.name: first.get(relation.name, 0) for relation in relations if relation.name not in sources}
    begun = {
        name: step for name, step in ledger.begun().items() if any(name == each.relation for each in built.outputs)
    }
    described = repr((built, [(name, each.spec) for name, each in sources.items()], sorted(fed.items()), begun))
    logged = frozenset(each.name for each in relations if each.kind == "table" and each.append_only and not each.key)
    idle = {each.name: parse_micros(option) or 0 for each in relations if (option := each.option("idle_timeout"))}
    idle |= _idle_views(built, catalog)
    return Wanted(built, sources, fed, hashlib.sha256(described.encode()).hexdigest(), logged, begun, idle)


def _idle_views(built: Circuit, catalog: Catalog) -> dict[str, int]:
    """How long the events of a view may stay away, of those that go by a time of their own."""
    found = {}
    for line in walk(built.lines):
        if isinstance(line, Frontier) and line.relation.endswith(OF_VIEW):
            view = catalog.find(line.relation.removesuffix(OF_VIEW))
            option = view.option("idle_timeout") if view is not None else None
            found[line.relation] = parse_micros(option or DEFAULT_IDLE) or 0
    return found


def source_of(relation: Relation) -> AnySource:
    """The connector behind a relation of the catalog."""
    assert relation.connector is not None
    note = relation.connector
    options = [(key, value, None) for key, value in note.options]
    key = relation.primary_key
    keyed = tuple(replace(each, nullable=True) if each.name in key else each for each in relation.columns)
    return registry.source(note.kind, relation.name, keyed, options, note.format, key=key)


def is_refreshed(source: AnySource) -> TypeGuard[Refreshed]:
    """Whether a table is read as a whole at times, and comes by way of the insert log."""
    return isinstance(source, Refreshed) and source.refreshed


def _check_bounded(sources: Mapping[str, Source]) -> None:
    """What runs once has to end."""
    for relation, source in sources.items():
        if not source.bounded:
            raise errors.make(
                "NOT_SUPPORTED",
                message=f"{relation} never ends, so the pipeline cannot run until its inputs end",
                hint="bound it (rows = '1000000'), or run without --once",
            )
