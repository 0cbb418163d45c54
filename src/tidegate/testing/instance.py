"""A view as it is maintained by the model: which rows its windows took, its answer, and what of it is out."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
from sqlglot import exp

from tidegate.core.types import Type
from tidegate.core.types import from_arrow as type_of
from tidegate.sql.statements import Query
from tidegate.testing.bags import Bag, Change, Row
from tidegate.testing.batch import Job
from tidegate.testing.oracle_query import batch_sql, tree_sql
from tidegate.testing.rows import of_arrow, to_arrow
from tidegate.testing.sources import InputSource
from tidegate.testing.time.amounts import Unknown
from tidegate.testing.time.declared import Declared
from tidegate.testing.time.emit import Emit
from tidegate.testing.time.gate import WAITING, Closing, Gate
from tidegate.testing.time.inference import Inference, is_now, uses_now
from tidegate.testing.time.lines import Evaluate, Lines
from tidegate.testing.time.shapes import CLOSE, Shape, Windowed, shape_of
from tidegate.testing.windowing import Windowing


class Instance:
    """A view over its sources. In each micro-batch: `ask` (and tell the windows), `query`, `answered`, `settle`.

    `lost` is why the model cannot tell its content. `content` is what is out, `rows` what views over it read."""

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
        self.declared = Declared()
        self.lost: str | None = None
        self.version = 0
        self.changes: list[Change] = []
        self._query, self._evaluate, self._clock = query, evaluate, clock
        self._answer: Bag | None = None
        self._out: Bag | None = None
        self._below: Bag | None = None
        self._table: pa.Table | None = None
        self._schema: pa.Schema | None = None
        self._seen: tuple[int, ...] | None = None
        self._gate: Gate | None = None
        self._began = clock
        self.began_with_rows = any(source.rows() for source in self.sources.values())
        try:
            self.shape = shape_of(query.select, f"__{name}_")
            self.windows = [Windowing(one, self._source(one), emit.lateness) for one in self.shape.windows]
            self._now = _speaks_of_now(self.shape)
        except Unknown as problem:
            self.lost = str(problem)

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
    def answered_once(self) -> bool:
        return self._answer is not None

    @property
    def timed(self) -> bool:
        """Whether its content depends on more than the rows it reads."""
        waits = self.emit.final is not None or self.emit.strategy in (*WAITING, "every")
        return self.lost is not None or bool(self.windows) or self._now or waits

    def rows(self) -> list[Row]:
        return self._below.rows() if self._below is not None else []

    def content(self) -> list[Row]:
        """What is out."""
        return self._out.rows() if self._out is not None else []

    def table(self) -> pa.Table:
        if self._table is None:
            self._table = to_arrow(self.rows(), self.schema)
        return self._table

    def lines(self) -> Lines:
        if self._strategy() == "every":
            return {}
        kinds = {name.lower(): kind for name, kind in zip(self.names, self.kinds, strict=True)}
        return self.declared.over(self._inferred(), kinds)

    def ask(self, clock: int) -> list[tuple[Windowing, Job]]:
        """What has to be asked about the rows that came."""
        self._clock = clock
        asked = [(windowing, windowing.begin()) for windowing in self.windows]
        return [(windowing, job) for windowing, job in asked if job is not None]

    def query(self) -> Job | None:
        """The batch query, if its answer may be another one than before."""
        changed = [windowing.take() for windowing in self.windows]
        tables = {node.name.lower() for node in self.shape.tree.find_all(exp.Table)}
        plain = {name: source for name, source in self.sources.items() if name in tables}
        seen = (*(source.version for source in plain.values()), self._clock if self._now else 0)
        if self._seen == seen and not any(changed):
            return None
        self._seen = seen
        reads = {name: source.table() for name, source in plain.items()}
        return Job(self._sql(), reads | {one.windowed.table: one.table() for one in self.windows})

    def answered(self, table: pa.Table) -> None:
        """Takes note of the answer, with the columns by which its rows close."""
        names = table.column_names
        hidden = [place for place, name in enumerate(names) if name.startswith(CLOSE)]
        visible = [place for place, name in enumerate(names) if not name.startswith(CLOSE)]
        ordered = table.select([*visible, *hidden])
        fields = [ordered.schema.field(place) for place in range(len(visible))]
        given = zip(fields, self._aliases or [field.name for field in fields], strict=True)
        self._schema = pa.schema([field.with_name(name) for field, name in given])
        self._answer = Bag([type_of(field.type) for field in ordered.schema], of_arrow(ordered))
        if self._gate is None:
            self._gate = self._made_gate(self._answer.kinds)

    def settle(self) -> None:
        """What is out after the micro-batch."""
        if self._answer is None or self._gate is None:
            return
        width = len(self.schema)
        out = Bag(self.kinds, (row[:width] for row in self._gate.step(self._answer, self._clock).rows()))
        if self.declared.delays:
            out = self.declared.let_through(out, self.names, self._inferred())
        below = out if self.emit.final is None else Bag(self.kinds, (row[:width] for row in self._answer.rows()))
        self.changes = below.changes_since(self._below)
        if self.changes or self._below is None:
            self.version += 1
            self._table = None
        self._out, self._below = out, below

    def late(self) -> list[Row]:
        """The rows that came too late for a window, since this was asked last."""
        return [row for windowing in self.windows for row in windowing.late()]

    def _source(self, windowed: Windowed) -> Source:
        if windowed.relation not in self.sources:
            raise Unknown(f"its window is over {windowed.relation}, which is no relation")
        return self.sources[windowed.relation]

    def _strategy(self) -> str:
        """What it says, or what its shape says if it does not: a window over WATERMARK FOR waits for its end."""
        if self.emit.final is not None:
            return "final"
        if self.emit.strategy is not None or self.shape.window is None:
            return self.emit.strategy or "changes"
        if self.emit.early:
            return "every"
        line = next(one.line for one in self.windows if one.windowed == self.shape.window)
        return "on_watermark" if line is not None and line.watermarked else "changes"

    def _sql(self) -> str:
        gated = self._strategy() in (*WAITING, "every")
        tree = self.shape.closing if gated and self.emit.final is None else self.shape.tree
        if not self.windows and not self._now and tree is self.shape.tree:
            return batch_sql(self._query, self._columns)
        present = tree.transform(self._at_clock)
        assert isinstance(present, exp.Query)
        return tree_sql(present, self._columns)

    def _at_clock(self, node: exp.Expr) -> exp.Expr:
        if not is_now(node):
            return node
        return exp.Anonymous(this="timestamp_micros", expressions=[exp.Literal.number(self._clock)])

    def _columns(self, name: str) -> tuple[str, ...] | None:
        if name in self.sources:
            return self.sources[name].names
        windowing = next((one for one in self.windows if one.windowed.table == name), None)
        return tuple(windowing.table().column_names) if windowing is not None else None

    def _inferred(self) -> Lines:
        return self._inference().outputs(self.shape.tree, self.shape.windows, self.names)

    def _inference(self) -> Inference:
        windowings = {one.windowed.table: one for one in self.windows}
        return Inference(
            lambda name: self.sources[name].lines() if name in self.sources else {},
            lambda windowed: windowings[windowed.table].time,
            self.emit.lateness,
            self._evaluate,
        )

    def _made_gate(self, kinds: tuple[Type, ...]) -> Gate:
        strategy = self._strategy()
        closing = self._closing(kinds) if strategy in (*WAITING, "every") else ()
        if strategy == "every" and self.began_with_rows:
            raise Unknown("it began with rows, of which some may have been due before")
        if strategy in WAITING and not closing:
            raise Unknown("it waits by a waterline that the model does not find")
        window = self.shape.window
        judges = strategy in WAITING and (window is None or not window.grouped or self.emit.final is not None)
        every = self.emit.every or self.emit.early
        tick = self._began // every if every else 0
        return Gate(strategy, every, self.emit.lateness, judges, tick, closing, self.began_with_rows)

    def _closing(self, kinds: tuple[Type, ...]) -> tuple[Closing, ...]:
        """The columns by which rows close: a window's end, else all that have a waterline."""
        width = len(self.schema)
        if self.emit.final is not None:
            name = self.names[int(self.emit.final)] if self.emit.final.isdigit() else self.emit.final
            found = {name.lower(): self._inferred().get(name.lower())}
        elif self.shape.core == "window":
            line = next(one.line for one in self.windows if one.windowed == self.shape.window)
            return (Closing(width, kinds[width], line, True),) if line is not None else ()
        elif self.shape.core == "group":
            assert self.shape.select is not None
            keys = self._inference().keys(self.shape.select, {one.table: one for one in self.shape.windows})
            return tuple(
                Closing(width + place, kinds[width + place], line, False)
                for place, line in enumerate(keys)
                if line is not None
            )
        else:
            found = {**self._inferred()}
        places = [name.lower() for name in self.names]
        return tuple(
            Closing(places.index(name), kinds[places.index(name)], line, False)
            for name, line in found.items()
            if line is not None and name in places
        )


Source = InputSource | Instance


def _speaks_of_now(shape: Shape) -> bool:
    """Whether a query speaks of the present: in WHERE it may."""
    if not uses_now(shape.tree):
        return False
    for node in shape.tree.walk():
        if is_now(node) and node.find_ancestor(exp.Where) is None:
            raise Unknown("it speaks of NOW() outside of a WHERE")
    return True
