"""Random views over relations that are known."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace

from tests.differential.expressions import Condition, Expression
from tests.differential.pipeline import (
    WAITING,
    Aggregate,
    Columns,
    EarlyFire,
    Group,
    Input,
    Join,
    Select,
    Union,
    View,
    Window,
)

SIZES = (5, 10, 15, 20, 30)
EVENTS = (("k", "STRING"), ("v", "BIGINT"), ("ts", "TIMESTAMP"))
MAX_DEPTH = 3
KINDS = ("window",) * 10 + ("join",) * 5 + ("select",) * 3 + ("rows", "group", "group", "union")
FUNCTIONS = ("COUNT", "SUM", "MIN", "MAX", "AVG", "DISTINCT", "STAR")
Made = tuple[View, Columns, str | None]
"""A view, its columns, and the default EMIT of windows over it."""


@dataclass(frozen=True)
class Known:
    """What the generator knows of a relation that a view may read."""

    name: str
    columns: Columns
    timed: tuple[str, ...]
    """The time columns with a watermark."""
    depth: int = 0
    default: str | None = None
    """The default EMIT of windows over it, None if it is not clear."""
    moves: bool = False
    """True if rows leave with NOW()."""
    held: bool = False
    """True if an input below holds rows back: they are processed in a later micro-batch, when a tick is over."""
    append: bool = False
    """True for a source."""

    def typed(self, *types: str) -> list[str]:
        return [name for name, type_ in self.columns if type_ in types]

    def join_keys(self, type_: str) -> list[str]:
        """The columns of a type to join by: not the key of a table, by which a stream would look it up."""
        return [name for name in self.typed(type_) if name != "id"]


class ViewMaker:
    """Makes views of every kind over the relations that it knows; None where the chosen ones do not fit."""

    def __init__(self, random_: random.Random) -> None:
        self._random = random_
        self._by_clock = self._often(20)
        self._inputs: list[Input] = []
        self._views: list[View] = []
        self._known: list[Known] = []

    @property
    def _count(self) -> int:
        """Columns are named after their view: no name has two meanings in one SELECT."""
        return len(self._views)

    def _often(self, percent: float) -> bool:
        return self._random.random() * 100 < percent

    def _source(self) -> Known:
        """A relation to read, rather a late one."""
        shallow = [one for one in self._known if one.depth < MAX_DEPTH]
        return self._random.choice(shallow + [one for one in shallow if one.depth > 0])

    def _view(self, name: str) -> Made | None:
        kind = self._random.choice(KINDS)
        match kind:
            case "window":
                return self._windowed(name, self._source())
            case "join":
                return self._join(name)
            case "select":
                return self._select(name, self._source())
            case "rows":
                return self._rows(name, self._source())
            case "group":
                return self._group(name, self._source())
        return self._union(name)

    def _window(self, source: Known) -> Window | None:
        times = list(source.timed) * 6 + source.typed("TIMESTAMP")
        if not times:
            return None
        time = self._random.choice(times)
        kind = self._random.choice(("TUMBLE", "TUMBLE", "HOP", "CUMULATE", "SESSION", "SESSION"))
        size = self._random.choice(SIZES)
        offset = self._random.choice((0, 0, 0, 2, -3)) if kind != "SESSION" else 0
        if kind == "HOP":
            size = self._random.choice((10, 15, 20, 30))
            return Window(
                kind, time, (self._random.choice([one for one in (5, 7, 10, 15) if one <= size]), size), offset
            )
        if kind == "CUMULATE":
            step = self._random.choice((5, 10))
            return Window(kind, time, (step, step * self._random.choice((2, 3))), offset)
        return Window(kind, time, (size,), offset)

    def _windowed(self, name: str, source: Known) -> Made | None:
        window = self._window(source)
        if window is None:
            return None
        keys = self._keys(source, self._random.choice((0, 1, 1, 1, 2)))
        edges = self._random.choice((("ws", "we"), ("ws", "we"), ("ws",), ("we",)))
        if window.kind == "CUMULATE":
            edges = ("ws", "we")
        aggregates, types = self._aggregates(source)
        having = self._random.choice((0, 1, 1)) if self._often(12) else None
        query = Group(source.name, keys, aggregates, self._where(source), window, edges, having)
        emit, implied = self._emit(source, window.time in source.timed)
        timed = window.time in source.timed
        allowed = self._random.choice((5, 10, 20)) if timed and emit != "FINAL" and self._often(35) else 0
        every = self._random.choice((5, 10)) if emit == "EVERY" else 0
        late_to = self._late_table(source) if allowed == 0 or self._often(50) else None
        view = View(name, query, emit, implied, every, allowed, late_to if timed else None)
        columns = (*self._key_types(source, keys), *((edge, "TIMESTAMP") for edge in edges), *types)
        return self._with_lateness(view, columns), columns, source.default

    def _emit(self, source: Known, timed: bool) -> tuple[str, bool]:
        if source.default is not None and self._often(20):
            return (source.default if timed else "CHANGES"), True
        choices = ["CHANGES", "CHANGES", "ON UPDATE"] + ([] if source.moves or source.held else ["EVERY"])
        return self._random.choice([*choices, *WAITING, *WAITING, "ON WATERMARK"] if timed else choices), False

    def _late_table(self, source: Known) -> str | None:
        """The name of a new table for late rows, sometimes."""
        if not source.append or not self._often(25):
            return None
        table = Input(f"m{len(self._inputs)}", "bag", source.columns)
        self._inputs.append(table)
        return table.name

    def _select(self, name: str, source: Known) -> Made | None:
        chosen = [one for one in source.columns if self._often(80)]
        items, columns = [], []
        for number, (column, type_) in enumerate(chosen):
            expression = Expression(column)
            if type_ == "TIMESTAMP" and self._often(30):
                expression = self._of_time(column)
            if type_ == "BIGINT" and self._often(15):
                expression = self._random.choice((Expression(column, "plus", 1), Expression(column, "minus")))
            kept = self._kept(number, type_)
            items.append((kept, expression))
            columns.append((kept, type_))
        if not items:
            return None
        if source.timed and self._often(30):
            kept = self._kept(len(chosen), "TIMESTAMP")
            items.append((kept, self._of_time(self._random.choice(source.timed))))
            columns.append((kept, "TIMESTAMP"))
        where = self._where(source)
        if self._by_clock and source.typed("TIMESTAMP") and self._often(35):
            column = self._random.choice(source.typed("TIMESTAMP"))
            before = self._random.choice((5, 10, 20))
            where += (Condition(column, self._random.choice((">", ">=", "<=")), before, now=True),)
        query = Select(source.name, tuple(items), where)
        view = View(name, query, implied=self._often(70))
        now = any(condition.now for condition in where)
        timed = [one for one, item in items if item.column in source.timed] if not now else []
        if timed and self._often(30):
            view = replace(view, emit=self._random.choice(WAITING), implied=False)
        else:
            view = self._with_lateness(view, tuple(columns))
        return view, tuple(columns), source.default

    def _of_time(self, column: str) -> Expression:
        shifted = Expression(column, "shift", self._random.choice((-7, 5, 60)))
        return self._random.choice((shifted, Expression(column, "minute")))

    def _rows(self, name: str, source: Known) -> Made | None:
        window = self._window(source)
        if window is None or window.kind == "SESSION":
            return None
        taken = source.columns[: self._random.choice((2, 3, 4))]
        query = Select(
            source.name,
            tuple((self._kept(n, type_), Expression(column)) for n, (column, type_) in enumerate(taken)),
            self._where(source),
            window,
        )
        columns = (
            *((self._kept(n, type_), type_) for n, (_, type_) in enumerate(taken)),
            ("ws", "TIMESTAMP"),
            ("we", "TIMESTAMP"),
        )
        timed = window.time in source.timed
        emit = self._random.choice((*WAITING, "CHANGES")) if timed else "CHANGES"
        return View(name, query, emit), columns, source.default

    def _group(self, name: str, source: Known) -> Made | None:
        keys = self._keys(source, self._random.choice((0, 1, 1)))
        types = self._key_types(source, keys)
        timed = []
        if source.typed("TIMESTAMP") and self._often(50):
            column = self._random.choice([*source.timed, *source.typed("TIMESTAMP")])
            keys += ((f"t{self._count}", Expression(column, self._random.choice(("minute", "column")))),)
            types += ((f"t{self._count}", "TIMESTAMP"),)
            timed = [column] if column in source.timed else []
            if timed and self._often(25):
                keys += ((f"t{self._count}0", Expression(column, "shift", self._random.choice((-7, 5, 60)))),)
                types += ((f"t{self._count}0", "TIMESTAMP"),)
        aggregates, more = self._aggregates(source)
        choices = ["CHANGES", "CHANGES"] + (["ON UPDATE"] if keys else [])
        choices += ["EVERY"] if keys and not (source.moves or source.held) else []
        emit = self._random.choice(choices + list(WAITING) * 2 if timed else choices)
        every = self._random.choice((5, 10)) if emit == "EVERY" else 0
        query = Group(source.name, keys, aggregates, self._where(source))
        view = View(name, query, emit, emit == "CHANGES" and self._often(60), every)
        return self._with_lateness(view, types + more), types + more, source.default

    def _union(self, name: str) -> Made | None:
        like = [one for one in self._known if set(EVENTS) <= set(one.columns)]
        if len(like) < 2:
            return None
        sources = self._random.sample(like, 2)
        return View(name, Union(tuple(one.name for one in sources), ("k", "v", "ts")), implied=True), EVENTS, None

    def _join(self, name: str) -> Made | None:
        timed = [one for one in self._known if one.timed and one.depth < MAX_DEPTH]
        if not timed:
            return None
        left, right = self._random.choice(timed), self._random.choice(timed)
        type_ = self._random.choice(("STRING", "STRING", "BIGINT"))
        left_keys, right_keys = left.join_keys(type_), right.join_keys(type_)
        if not left_keys or not right_keys:
            return None
        on = ((self._random.choice(left_keys), self._random.choice(right_keys)),)
        kind = self._random.choice(("INNER", "LEFT", "LEFT", "RIGHT", "FULL", "FULL", "LEFT SEMI", "LEFT ANTI"))
        low = self._random.choice((-20, -10, -10, -5, 0, 0, 5))
        high = low + self._random.choice((0, 5, 10, 10, 20, -5 if self._often(15) else 15))
        left_time, right_time = self._random.choice(left.timed), self._random.choice(right.timed)
        query = Join(
            left.name,
            right.name,
            kind,
            self._columns(left, left_time, on[0][0]),
            self._columns(right, right_time, on[0][1]),
            on,
            left_time,
            right_time,
            low,
            high,
            self._often(15),
            self._often(15),
        )
        if kind in ("LEFT", "RIGHT", "FULL") and self._often(20) and low <= high:
            query = replace(
                query, early=EarlyFire(self._random.choice((3, 5, 10)), self._random.choice(("rowtime", "proctime")))
            )
        types = tuple((f"a_{one}", dict(left.columns)[one]) for one in query.left_columns)
        if kind not in ("LEFT SEMI", "LEFT ANTI"):
            types += tuple((f"b_{one}", dict(right.columns)[one]) for one in query.right_columns)
        return View(name, query, implied=True), types, None

    def _columns(self, side: Known, *needed: str) -> tuple[str, ...]:
        return tuple(name for name, _ in side.columns if name in needed or self._often(40))

    def _keys(self, source: Known, count: int) -> tuple[tuple[str, Expression], ...]:
        plain = source.typed("STRING", "BIGINT")
        chosen = self._random.sample(plain, min(count, len(plain)))
        return tuple((f"g{self._count}{number}", Expression(column)) for number, column in enumerate(chosen))

    def _key_types(self, source: Known, keys: tuple[tuple[str, Expression], ...]) -> Columns:
        return tuple((name, dict(source.columns)[expression.column]) for name, expression in keys)

    def _aggregates(self, source: Known) -> tuple[tuple[Aggregate, ...], Columns]:
        calls: list[Aggregate] = []
        types: list[tuple[str, str]] = []
        numbers = source.typed("BIGINT")
        for number in range(self._random.choice((1, 1, 2, 3))):
            function = self._random.choice(FUNCTIONS) if numbers else "STAR"
            column = "*" if function == "STAR" else self._random.choice(numbers)
            over = Condition(column, ">", 2) if column != "*" and self._often(10) else None
            calls.append(
                Aggregate(f"n{self._count}{number}", "COUNT" if function == "STAR" else function, column, over)
            )
            types.append((f"n{self._count}{number}", "DOUBLE" if function == "AVG" else "BIGINT"))
        return tuple(calls), tuple(types)

    def _kept(self, number: int, type_: str) -> str:
        """The name of a column that a projection keeps: d for times, c for others."""
        return f"{'d' if type_ == 'TIMESTAMP' else 'c'}{self._count}{number}"

    def _where(self, source: Known) -> tuple[Condition, ...]:
        if not self._often(20):
            return ()
        numbers, texts = source.typed("BIGINT"), source.typed("STRING")
        if numbers and (not texts or self._often(60)):
            return (
                Condition(
                    self._random.choice(numbers), self._random.choice((">", "<>", "<=")), self._random.choice((0, 2, 4))
                ),
            )
        return (Condition(self._random.choice(texts), "<>", "a"),) if texts else ()

    def _with_lateness(self, view: View, columns: Columns) -> View:
        """The view, sometimes with a LATENESS."""
        times = [name for name, type_ in columns if type_ == "TIMESTAMP"]
        if not times or view.emit != "CHANGES" or not self._often(8):
            return view
        return replace(view, lateness={self._random.choice(times): self._random.choice((0, 5, 20))})
