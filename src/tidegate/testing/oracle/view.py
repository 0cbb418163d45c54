"""A view as the oracle maintains it: the rows its windows accepted, its answer, and what of the answer was emitted."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
from sqlglot import exp

from tidegate.core.types import Type
from tidegate.core.types import from_arrow as type_of
from tidegate.sql.statements import Query
from tidegate.testing.oracle.amounts import Unknown
from tidegate.testing.oracle.bags import Bag, Change, Row, from_arrow, to_arrow
from tidegate.testing.oracle.batch import Job
from tidegate.testing.oracle.emit import WAITING, Closing, Emit, EmitPolicy
from tidegate.testing.oracle.inference import Evaluate, Inference, Watermarks, is_now, unclear, uses_now
from tidegate.testing.oracle.inputs import InputSource
from tidegate.testing.oracle.query import batch_sql, tree_sql
from tidegate.testing.oracle.shapes import CLOSE, Shape, Windowed, shape_of
from tidegate.testing.oracle.watermarks import ViewLateness
from tidegate.testing.oracle.windowing import Windowing


class ViewModel:
    """A view over its sources. In each micro-batch: `begin` (the windows receive the answers), `query`, `receive` its
    answer, `settle`.

    `unknown` is the reason why the oracle cannot compute the content. `content` is what was emitted, `rows` what views
    over it read: emit_final delays the former only."""

    def __init__(
        self,
        name: str,
        query: Query,
        emit: Emit,
        sources: Mapping[str, Source],
        evaluate: Evaluate,
        clock: int,
        aliases: tuple[str, ...] = (),
    ) -> None:
        self.name, self.sources, self.emit, self._aliases = name, dict(sources), emit, aliases
        self.lateness = ViewLateness()
        self.unknown: str | None = None
        self.version = 0
        self.changes: list[Change] = []
        self._query, self._evaluate, self._clock = query, evaluate, clock
        self._answer: Bag | None = None
        self._emitted: Bag | None = None
        self._readable: Bag | None = None
        self._table: pa.Table | None = None
        self._schema: pa.Schema | None = None
        self._answered_for: tuple[int, ...] | None = None
        self._policy: EmitPolicy | None = None
        self._began = clock
        self.began_with_rows = any(source.rows() for source in self.sources.values())
        try:
            self.shape = shape_of(query.select, f"__{name}_")
            self.windows = [Windowing(each, self._source(each), emit.lateness) for each in self.shape.windows]
            self._now = _reads_now(self.shape)
        except Unknown as problem:
            self.unknown = str(problem)

    @property
    def schema(self) -> pa.Schema:
        assert self._schema is not None, f"{self.name} has no answer yet"
        return self._schema

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.schema.names)

    @property
    def kinds(self) -> tuple[Type, ...]:
        return tuple(type_of(field.type) for field in self.schema)

    @property
    def has_answer(self) -> bool:
        return self._answer is not None

    @property
    def timed(self) -> bool:
        """True if the content depends on more than the rows that the view reads."""
        waits = self.emit.final is not None or self.emit.strategy in (*WAITING, "every")
        return self.unknown is not None or bool(self.windows) or self._now or waits

    @property
    def waits(self) -> bool:
        """True if rows leave later than they come, by its EMIT or because it has none."""
        try:
            return self.unknown is None and self._strategy() != "changes"
        except Unknown:
            return False

    def rows(self) -> list[Row]:
        return self._readable.rows() if self._readable is not None else []

    def content(self) -> list[Row]:
        """The emitted rows."""
        return self._emitted.rows() if self._emitted is not None else []

    def table(self) -> pa.Table:
        if self._table is None:
            self._table = to_arrow(self.rows(), self.schema)
        return self._table

    def watermarks(self) -> Watermarks:
        if self._strategy() == "every":
            return {}
        kinds = {name.lower(): kind for name, kind in zip(self.names, self.kinds, strict=True)}
        return self.lateness.raise_inferred(self._held_back(), kinds)

    def _held_back(self) -> Watermarks:
        """The watermarks of the emitted rows. Of rows that wait for several columns, the oracle knows none."""
        inferred = self._inferred()
        waits = self.emit.final is None and self._strategy() in WAITING and self.shape.core != "window"
        closing = self._policy.closing if waits and self._policy is not None else ()
        return unclear(inferred) if len(closing) > 1 else inferred

    def begin(self, clock: int) -> list[tuple[Windowing, Job]]:
        """The queries that the windows need answered about changed rows."""
        self._clock = clock
        queries = [(windowing, windowing.begin()) for windowing in self.windows]
        return [(windowing, job) for windowing, job in queries if job is not None]

    def query(self) -> Job | None:
        """The batch query, unless its answer must be the same as before."""
        changed = [windowing.accept() for windowing in self.windows]
        tables = {node.name.lower() for node in self.shape.tree.find_all(exp.Table)}
        plain = {name: source for name, source in self.sources.items() if name in tables}
        versions = (*(source.version for source in plain.values()), self._clock if self._now else 0)
        if self._answered_for == versions and not any(changed):
            return None
        self._answered_for = versions
        reads = {name: source.table() for name, source in plain.items()}
        return Job(self._sql(), reads | {each.windowed.table: each.table() for each in self.windows})

    def receive(self, table: pa.Table) -> None:
        """Store the answer of the batch query, with the columns that close its rows."""
        names = table.column_names
        closing = [index for index, name in enumerate(names) if name.startswith(CLOSE)]
        visible = [index for index, name in enumerate(names) if not name.startswith(CLOSE)]
        ordered = table.select([*visible, *closing])
        fields = [ordered.schema.field(index) for index in range(len(visible))]
        named = zip(fields, self._aliases or [field.name for field in fields], strict=True)
        self._schema = pa.schema([field.with_name(name) for field, name in named])
        kinds = tuple(type_of(field.type) for field in ordered.schema)
        self._answer = Bag(kinds, from_arrow(ordered))
        if self._policy is None:
            self._policy = self._make_policy(kinds)

    def settle(self) -> None:
        """End the micro-batch: compute what is emitted."""
        if self._answer is None or self._policy is None:
            return
        width = len(self.schema)
        emitted = Bag(self.kinds, (row[:width] for row in self._policy.step(self._answer, self._clock).rows()))
        if self.lateness.delays:
            emitted = self.lateness.accept(emitted, self.kinds, self.names, self._inferred())
        readable = emitted if self.emit.final is None else Bag(self.kinds, (row[:width] for row in self._answer.rows()))
        self.changes = readable.changes_since(self._readable)
        if self.changes or self._readable is None:
            self.version += 1
            self._table = None
        self._emitted, self._readable = emitted, readable

    def take_late(self) -> list[Row]:
        """The rows that were too late for a window, since the last call."""
        return [row for windowing in self.windows for row in windowing.take_late()]

    def _source(self, windowed: Windowed) -> Source:
        if windowed.relation not in self.sources:
            raise Unknown(f"its window is over {windowed.relation}, which is no relation")
        return self.sources[windowed.relation]

    def _strategy(self) -> str:
        """The EMIT strategy. Without EMIT, a window over a WATERMARK FOR column waits for its end."""
        if self.emit.final is not None:
            return "final"
        if self.emit.strategy is not None or self.shape.window is None:
            return self.emit.strategy or "changes"
        if self.emit.early:
            return "every"
        watermark = self._windowing().watermark
        return "on_watermark" if watermark is not None and watermark.from_watermark_for else "changes"

    def _windowing(self) -> Windowing:
        return next(each for each in self.windows if each.windowed == self.shape.window)

    def _sql(self) -> str:
        gated = self._strategy() in (*WAITING, "every")
        tree = self.shape.closing if gated and self.emit.final is None else self.shape.tree
        if not self.windows and not self._now and tree is self.shape.tree:
            return batch_sql(self._query, self._columns)
        dated = tree.transform(self._replace_now)
        assert isinstance(dated, exp.Query)
        return tree_sql(dated, self._columns)

    def _replace_now(self, node: exp.Expr) -> exp.Expr:
        if not is_now(node):
            return node
        return exp.Anonymous(this="timestamp_micros", expressions=[exp.Literal.number(self._clock)])

    def _columns(self, name: str) -> tuple[str, ...] | None:
        if name in self.sources:
            return self.sources[name].names
        windowing = next((each for each in self.windows if each.windowed.table == name), None)
        return tuple(windowing.table().column_names) if windowing is not None else None

    def _inferred(self) -> Watermarks:
        return self._inference().outputs(self.shape.tree, self.shape.windows, self.names)

    def _inference(self) -> Inference:
        windowings = {each.windowed.table: each for each in self.windows}
        window = self.shape.window
        held = window is not None and not window.grouped and self.emit.final is None and self._strategy() in WAITING
        return Inference(
            lambda name: self.sources[name].watermarks() if name in self.sources else {},
            lambda windowed: windowings[windowed.table].time,
            self.emit.lateness,
            self._evaluate,
            window if held else None,
        )

    def _make_policy(self, kinds: tuple[Type, ...]) -> EmitPolicy:
        strategy = self._strategy()
        closing = self._closing(kinds) if strategy in (*WAITING, "every") else ()
        if strategy == "every" and self.began_with_rows:
            raise Unknown("it began with rows, of which some may have been due before")
        if strategy in WAITING and not closing:
            raise Unknown("it waits for a watermark that the oracle does not find")
        window = self.shape.window
        rejects_late = strategy in WAITING and (window is None or not window.grouped or self.emit.final is not None)
        session = window is not None and window.grouped and window.window.kind == "session"
        identity = tuple(range(len(self.schema) + 1, len(kinds))) if session else ()
        return EmitPolicy(self.emit, strategy, closing, rejects_late, self.began_with_rows, self._began, identity)

    def _closing(self, kinds: tuple[Type, ...]) -> tuple[Closing, ...]:
        """The columns that close rows: the window's end, else all columns that have a watermark."""
        width = len(self.schema)
        if self.emit.final is not None:
            name = self.names[int(self.emit.final)] if self.emit.final.isdigit() else self.emit.final
            named = {name.lower(): self._inferred().get(name.lower())}
        elif self.shape.core == "window":
            watermark = self._windowing().watermark
            return (Closing(width, kinds[width], watermark, True),) if watermark is not None else ()
        elif self.shape.core == "group":
            assert self.shape.select is not None
            keys = self._inference().keys(self.shape.select, {each.table: each for each in self.shape.windows})
            return tuple(
                Closing(index, kinds[index], watermark, False)
                for index, watermark in enumerate(keys, start=width)
                if watermark is not None
            )
        else:
            named = {**self._inferred()}
        columns = [name.lower() for name in self.names]
        return tuple(
            Closing(columns.index(name), kinds[columns.index(name)], watermark, False)
            for name, watermark in named.items()
            if watermark is not None and name in columns
        )


Source = InputSource | ViewModel


def _reads_now(shape: Shape) -> bool:
    """True if a query reads the current time; the oracle knows it only in WHERE."""
    if not uses_now(shape.tree):
        return False
    for node in shape.tree.walk():
        if is_now(node) and node.find_ancestor(exp.Where) is None:
            raise Unknown("it uses NOW() outside of a WHERE")
    return True
