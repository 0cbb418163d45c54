"""What a random pipeline is made of, and its SQL. Times are seconds since 1970."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from tests.differential.expressions import Condition, Expression, interval

WAITING = ("ON WATERMARK", "ON WINDOW CLOSE", "FINAL")
Columns = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Input:
    """A source, a bag or a keyed table. The three declarations give seconds by column."""

    name: str
    kind: str
    columns: Columns
    watermark: dict[str, int] = field(default_factory=dict)
    lateness: dict[str, int] = field(default_factory=dict)
    hold_back: dict[str, int] = field(default_factory=dict)
    idle_timeout: int | None = None
    max_ahead: int | None = None

    @property
    def sql(self) -> str:
        parts = [self._column(name, type_) for name, type_ in self.columns]
        parts += [f"WATERMARK FOR {name} AS {name} - {interval(delay)}" for name, delay in self.watermark.items()]
        options = {"idle_timeout": self.idle_timeout, "max_ahead": self.max_ahead}
        given = ", ".join(f"'{name}' = '{value}s'" for name, value in options.items() if value is not None)
        what = "SOURCE" if self.kind == "source" else "TABLE"
        return f"CREATE {what} {self.name} ({', '.join(parts)})" + (f" WITH ({given})" if given else "") + ";"

    def _column(self, name: str, type_: str) -> str:
        key = " PRIMARY KEY" if self.kind == "keyed" and name == "id" else ""
        late = f" LATENESS {interval(self.lateness[name])}" if name in self.lateness else ""
        held = f" WATERMARK {interval(self.hold_back[name])}" if name in self.hold_back else ""
        return f"{name} {type_}{key}{late}{held}"


@dataclass(frozen=True)
class Window:
    """TUMBLE(size), HOP(slide, size), CUMULATE(step, size), SESSION(gap), on a column."""

    kind: str
    time: str
    sizes: tuple[int, ...]
    offset: int = 0

    def sql(self, relation: str) -> str:
        sizes = [interval(size) for size in self.sizes]
        offset = [f"INTERVAL '{self.offset}' SECOND"] if self.offset else []
        return f"{self.kind}({', '.join([relation, self.time, *sizes, *offset])})"


@dataclass(frozen=True)
class Aggregate:
    name: str
    function: str
    column: str = "*"
    over: Condition | None = None

    @property
    def sql(self) -> str:
        filtered = f" FILTER (WHERE {self.over.sql})" if self.over else ""
        return f"{self.call}{filtered} AS {self.name}"

    @property
    def call(self) -> str:
        return f"COUNT(DISTINCT {self.column})" if self.function == "DISTINCT" else f"{self.function}({self.column})"


@dataclass(frozen=True)
class Select:
    """A projection with a filter; with a window, every row with its windows."""

    source: str
    items: tuple[tuple[str, Expression], ...]
    where: tuple[Condition, ...] = ()
    window: Window | None = None

    @property
    def sources(self) -> tuple[str, ...]:
        return (self.source,)

    @property
    def sql(self) -> str:
        items = [f"{expression.sql} AS {name}" for name, expression in self.items]
        if self.window:
            items += ["window_start AS ws", "window_end AS we"]
        from_ = self.window.sql(self.source) if self.window else self.source
        return f"SELECT {', '.join(items)} FROM {from_}{_where(self.where)}"


@dataclass(frozen=True)
class Group:
    """GROUP BY, of a window or without one. `edges` are the edges of the window that are selected: ws, we."""

    source: str
    keys: tuple[tuple[str, Expression], ...]
    aggregates: tuple[Aggregate, ...]
    where: tuple[Condition, ...] = ()
    window: Window | None = None
    edges: tuple[str, ...] = ()
    having: int | None = None

    @property
    def sources(self) -> tuple[str, ...]:
        return (self.source,)

    @property
    def sql(self) -> str:
        long = {"ws": "window_start", "we": "window_end"}
        items = [f"{expression.sql} AS {name}" for name, expression in self.keys]
        items += [f"{long[edge]} AS {edge}" for edge in self.edges]
        items += [aggregate.sql for aggregate in self.aggregates]
        groups = [expression.sql for _, expression in self.keys] + (list(long.values()) if self.window else [])
        from_ = self.window.sql(self.source) if self.window else self.source
        grouped = f" GROUP BY {', '.join(groups)}" if groups else ""
        having = f" HAVING COUNT(*) > {self.having}" if self.having is not None else ""
        return f"SELECT {', '.join(items)} FROM {from_}{_where(self.where)}{grouped}{having}"


@dataclass(frozen=True)
class Union:
    """UNION ALL of relations with equal columns."""

    sources: tuple[str, ...]
    columns: tuple[str, ...]

    @property
    def sql(self) -> str:
        return " UNION ALL ".join(f"SELECT {', '.join(self.columns)} FROM {source}" for source in self.sources)


@dataclass(frozen=True)
class EarlyFire:
    delay: int
    mode: str

    @property
    def sql(self) -> str:
        return f"/*+ EARLY_FIRE('delay'='{self.delay}s', 'time_mode'='{self.mode}') */ "


@dataclass(frozen=True)
class Join:
    """An interval join: a.left_time between b.right_time + low and b.right_time + high; the bounds that are `open` are
    excluded. Columns of the result are those of the sides with a_ and b_ before them."""

    left: str
    right: str
    kind: str
    left_columns: tuple[str, ...]
    right_columns: tuple[str, ...]
    on: tuple[tuple[str, str], ...]
    left_time: str
    right_time: str
    low: int
    high: int
    open_low: bool = False
    open_high: bool = False
    early: EarlyFire | None = None

    @property
    def sources(self) -> tuple[str, ...]:
        return (self.left, self.right)

    @property
    def sql(self) -> str:
        items = [f"a.{column} AS a_{column}" for column in self.left_columns]
        if self.kind not in ("LEFT SEMI", "LEFT ANTI"):
            items += [f"b.{column} AS b_{column}" for column in self.right_columns]
        equal = [f"a.{left} = b.{right}" for left, right in self.on]
        low, high = self._bound(self.low), self._bound(self.high)
        if not (self.open_low or self.open_high):
            equal.append(f"a.{self.left_time} BETWEEN {low} AND {high}")
        else:
            equal.append(f"a.{self.left_time} {'>' if self.open_low else '>='} {low}")
            equal.append(f"a.{self.left_time} {'<' if self.open_high else '<='} {high}")
        hint = self.early.sql if self.early else ""
        on = " AND ".join(equal)
        return f"SELECT {hint}{', '.join(items)} FROM {self.left} a {self.kind} JOIN {self.right} b ON {on}"

    def _bound(self, seconds: int) -> str:
        return f"b.{self.right_time} {'-' if seconds < 0 else '+'} {interval(abs(seconds))}"


Query = Select | Group | Union | Join


@dataclass(frozen=True)
class View:
    """A materialized view. `implied`: its EMIT is the default and not written. `lateness`: seconds of statements
    LATENESS view.column."""

    name: str
    query: Query
    emit: str = "CHANGES"
    implied: bool = False
    every: int = 0
    allowed: int = 0
    late_to: str | None = None
    lateness: dict[str, int] = field(default_factory=dict)

    @property
    def sql(self) -> str:
        allowed = f" ALLOWED LATENESS {interval(self.allowed)}" if self.allowed else ""
        late_to = f" LATE DATA TO {self.late_to}" if self.late_to else ""
        every = f" {interval(self.every)}" if self.emit == "EVERY" else ""
        emit = "" if self.implied else f" EMIT {self.emit}{every}"
        before = "".join(f"\nLATENESS {self.name}.{column} {interval(by)};" for column, by in self.lateness.items())
        return f"CREATE MATERIALIZED VIEW {self.name} AS {self.query.sql}{allowed}{late_to}{emit};{before}"


@dataclass(frozen=True)
class Change:
    """One row written: INSERT, DELETE (the whole row) or, of a keyed table, TOMBSTONE (the key alone counts)."""

    relation: str
    action: str
    row: tuple[object, ...]


@dataclass(frozen=True)
class Step:
    """What happens to one pipeline in one step."""

    changes: tuple[Change, ...] = ()
    advances: tuple[tuple[str, str, int], ...] = ()


@dataclass(frozen=True)
class Beat:
    """What happens to all pipelines of a pack in one step: the clock moves, the inputs end, the database is closed and
    opened before it."""

    clock: int = 0
    end: bool = False
    restart: bool = False


@dataclass(frozen=True)
class Pipeline:
    inputs: tuple[Input, ...]
    views: tuple[View, ...]
    steps: tuple[Step, ...]

    @property
    def sql(self) -> str:
        return "\n".join(relation.sql for relation in (*self.inputs, *self.views))


def _where(conditions: Sequence[Condition]) -> str:
    return f" WHERE {' AND '.join(condition.sql for condition in conditions)}" if conditions else ""
