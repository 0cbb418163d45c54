"""Watermarks of a query's columns, inferred from those of the relations it reads: monotone expressions keep them, and
they pass through windows, groups, projections and unions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from tidegate.core.types import Type
from tidegate.sql import call
from tidegate.testing.oracle.amounts import DAY, INFINITE, Number, Unknown
from tidegate.testing.oracle.shapes import END, START, Windowed, group_keys

Evaluate = Callable[[str, Mapping[str, tuple[Number, Type]]], Number | None]
"""The value of an SQL expression over columns with these values."""
BEFORE, AFTER = 0, 1
"""The two moments of a micro-batch at which watermarks are compared."""
NOW_FUNCTIONS = frozenset({"now", "current_timestamp", "localtimestamp", "current_date", "curdate"})


@dataclass(frozen=True)
class Watermark:
    """The watermark of a column: `at(BEFORE, lag)` and `at(AFTER, lag)` are its values before and after a micro-batch
    if the watermarks of all inputs were `lag` microseconds lower. `from_watermark_for`: declared by WATERMARK FOR."""

    at: Callable[[int, int], Number | None]
    kind: Type
    from_watermark_for: bool = False


Watermarks = dict[str, Watermark]
"""By column name, in lower case."""

_FIRST = """
    date to_date year floor ceil ceiling round unix_micros unix_millis unix_seconds unix_timestamp timestamp
    date_add date_sub
"""
MONOTONE_IN_FIRST = frozenset(_FIRST.split())
MONOTONE_IN_SECOND = frozenset({"date_trunc"})


def watermark_of(tree: exp.Expr, columns: Watermarks, evaluate: Evaluate) -> Watermark | None:
    """The watermark of an expression over columns; None if it has none."""
    tree = tree.unalias().unnest()
    if isinstance(tree, exp.Column):
        return columns.get(tree.name.lower())
    names = {node.name.lower() for node in tree.find_all(exp.Column)}
    used = {name: columns[name] for name in names if name in columns}
    if not used or not monotone(tree, columns):
        return None
    unqualified = tree.copy()
    for column in unqualified.find_all(exp.Column):
        column.set("table", None)

    def at(moment: int, lag: int) -> Number | None:
        values = {name: watermark.at(moment, lag) for name, watermark in used.items()}
        if any(value is None for value in values.values()):
            return None
        if any(value == INFINITE for value in values.values()):
            return INFINITE
        typed = {name: (value, used[name].kind) for name, value in values.items() if value is not None}
        return evaluate(unqualified.sql(dialect="spark"), typed)

    kind = next(iter(used.values())).kind
    return Watermark(at, kind, any(watermark.from_watermark_for for watermark in used.values()))


def monotone(tree: exp.Expr, columns: Watermarks) -> bool:
    """True if an expression never decreases while the columns with watermarks increase."""
    match tree:
        case exp.Paren():
            return monotone(tree.this, columns)
        case exp.Column():
            return tree.name.lower() in columns
        case exp.Add():
            return _all_monotone((tree.left, tree.right), columns)
        case exp.Sub():
            return monotone(tree.left, columns) and _constant(tree.right)
        case exp.Mul() | exp.Div():
            return monotone(tree.left, columns) and _positive(tree.right)
        case exp.Cast():
            return monotone(tree.this, columns) and tree.to.sql().upper() in ("DATE", "TIMESTAMP", "BIGINT", "DOUBLE")
    function = call(tree)
    if function is None or not function.args:
        return False
    if function.name in ("greatest", "least"):
        return _all_monotone(function.args, columns)
    index = 0 if function.name in MONOTONE_IN_FIRST else 1 if function.name in MONOTONE_IN_SECOND else None
    if index is None or len(function.args) <= index:
        return False
    others = [arg for number, arg in enumerate(function.args) if number != index]
    return monotone(function.args[index], columns) and all(_constant(arg) for arg in others)


def _constant(tree: exp.Expr) -> bool:
    return tree.find(exp.Column) is None


def _all_monotone(parts: tuple[exp.Expr, ...], columns: Watermarks) -> bool:
    return all(_constant(part) or monotone(part, columns) for part in parts)


def _positive(tree: exp.Expr) -> bool:
    return isinstance(tree, exp.Literal) and not tree.is_string and float(tree.name) > 0


def least(watermarks: list[Watermark]) -> Watermark:
    """The smallest of several watermarks; it has no value until all of them have one."""

    def at(moment: int, lag: int) -> Number | None:
        values = [watermark.at(moment, lag) for watermark in watermarks]
        known = [value for value in values if value is not None]
        return min(known) if len(known) == len(values) else None

    return Watermark(at, watermarks[0].kind, any(watermark.from_watermark_for for watermark in watermarks))


def edge_watermarks(time: Watermark | None, windowed: Windowed, lateness: int) -> Watermarks:
    """The watermarks of window_start and window_end: the edges of the earliest window that can still change."""
    if time is None:
        return {}
    kind = Type("timestamp") if time.kind.name == "date" else time.kind

    def edge(index: int) -> Watermark:
        def at(moment: int, lag: int) -> Number | None:
            value = time.at(moment, lag + lateness)
            return None if value is None else windowed.window.earliest_open(value)[index]

        return Watermark(at, kind, time.from_watermark_for)

    if windowed.window.kind == "session":
        return {END: Watermark(lambda moment, lag: time.at(moment, lag + lateness), kind, time.from_watermark_for)}
    return {START: edge(0), END: edge(1)}


def held_watermarks(below: Watermarks, time: str, windowed: Windowed, lateness: int) -> Watermarks:
    """The watermarks of rows that wait for the end of their window: their time may be as early as the start of the
    earliest open window. What that says about other times, the oracle does not know."""
    edges = edge_watermarks(below.get(time), windowed, lateness)
    if START not in edges:
        return edges
    start, own = edges[START], below[time]

    def at(moment: int, lag: int) -> Number | None:
        value = start.at(moment, lag)
        known = value is not None and value != INFINITE and own.kind.name == "date"
        return int(value) // DAY * DAY if known and value is not None else value

    return {**unclear(below), time: Watermark(at, own.kind, own.from_watermark_for), **edges}


def unclear(watermarks: Watermarks) -> Watermarks:
    """Watermarks whose values the oracle cannot tell."""

    def at(moment: int, lag: int) -> Number | None:
        raise Unknown("a column is held back together with others")

    return {name: replace(watermark, at=at) for name, watermark in watermarks.items()}


Columns = list[tuple[str, Watermark | None]]


class Inference:
    """Infers the watermarks of queries. `of` gives the watermarks of a relation, `time` the time column of a window.
    `held`: the window without GROUP BY whose rows an EMIT delays to its end, if there is one."""

    def __init__(
        self,
        of: Callable[[str], Watermarks],
        time: Callable[[Windowed], str],
        lateness: int,
        evaluate: Evaluate,
        held: Windowed | None = None,
    ) -> None:
        self._of, self._time, self._lateness, self._evaluate, self._held = of, time, lateness, evaluate, held

    def outputs(self, query: exp.Expr, windows: Iterable[Windowed], names: Sequence[str]) -> Watermarks:
        """The watermarks of the query's output columns, which are called `names`."""
        columns = self._query(query, {each.table: each for each in windows}) or []
        starred = any(item.is_star for select in query.find_all(exp.Select) for item in select.expressions)
        if not starred and len(columns) == len(names):
            columns = [(name.lower(), watermark) for name, (_, watermark) in zip(names, columns, strict=True)]
        return {name: watermark for name, watermark in columns if watermark is not None}

    def keys(self, select: exp.Select, tables: dict[str, Windowed]) -> list[Watermark | None]:
        """The watermarks of the GROUP BY columns."""
        scope = self._scope(select, tables)
        return [watermark_of(key, scope, self._evaluate) for key in group_keys(select) or ()]

    def _query(self, query: exp.Expr, tables: dict[str, Windowed]) -> Columns | None:
        if isinstance(query, exp.Subquery):
            return self._query(query.this, tables)
        if isinstance(query, exp.SetOperation):
            left, right = self._query(query.left, tables), self._query(query.right, tables)
            if left is None or right is None or len(left) != len(right):
                return None
            pairs = zip(left, right, strict=True)
            return [(name, least([one, other]) if one and other else None) for (name, one), (_, other) in pairs]
        return self._select(query, tables) if isinstance(query, exp.Select) else None

    def _select(self, select: exp.Select, tables: dict[str, Windowed]) -> Columns | None:
        if select.args.get("joins") or select.args.get("limit") is not None or uses_now(select):
            return None
        scope = self._scope(select, tables)
        keys = group_keys(select)
        if keys is not None:
            scope = self._grouped(select, keys, scope, tables)
        columns: Columns = []
        for item in select.expressions:
            if item.is_star:
                columns += list(scope.items())
            else:
                columns.append((item.alias_or_name.lower(), self._item(item, keys or (), scope)))
        return columns

    def _item(self, item: exp.Expr, keys: tuple[exp.Expr, ...], scope: Watermarks) -> Watermark | None:
        """The watermark of a SELECT item, in which GROUP BY keys count as columns."""
        texts = {key.sql(): f"__key{index}" for index, key in enumerate(keys)}

        def replace(node: exp.Expr) -> exp.Expr:
            return exp.column(texts[node.sql()]) if node.sql() in texts else node

        return watermark_of(item.unalias().copy().transform(replace), scope, self._evaluate)

    def _grouped(
        self, select: exp.Select, keys: tuple[exp.Expr, ...], scope: Watermarks, tables: dict[str, Windowed]
    ) -> Watermarks:
        windowed = self._windowed(select, tables)
        if windowed is not None and windowed.grouped:
            scope = edge_watermarks(self._of(windowed.relation).get(self._time(windowed)), windowed, self._lateness)
        watermarks = [watermark_of(key, scope, self._evaluate) for key in keys]
        return {f"__key{index}": watermark for index, watermark in enumerate(watermarks) if watermark is not None}

    def _scope(self, select: exp.Select, tables: dict[str, Windowed]) -> Watermarks:
        """The watermarks of the columns of FROM."""
        origin = select.args.get("from_")
        windowed = self._windowed(select, tables)
        if windowed is not None:
            below, time = self._of(windowed.relation), self._time(windowed)
            if windowed == self._held:
                return held_watermarks(below, time, windowed, self._lateness)
            # A session takes its rows back until it closes, however old they are.
            kept = {} if windowed.window.kind == "session" else below
            return {**kept, **edge_watermarks(below.get(time), windowed, 0)}
        if origin is not None and isinstance(origin.this, exp.Subquery):
            columns = self._query(origin.this, tables) or ()
            return {name: watermark for name, watermark in columns if watermark is not None}
        return self._of(origin.this.name.lower()) if origin is not None and isinstance(origin.this, exp.Table) else {}

    def _windowed(self, select: exp.Select, tables: dict[str, Windowed]) -> Windowed | None:
        origin = select.args.get("from_")
        return tables.get(origin.this.name) if origin is not None and isinstance(origin.this, exp.Table) else None


def uses_now(tree: exp.Expr) -> bool:
    """True if a query reads the current time."""
    return any(is_now(node) for node in tree.walk())


def is_now(node: exp.Expr) -> bool:
    if isinstance(node, exp.Column):
        return node.name.lower() in ("current_timestamp", "current_date") and not node.table
    function = call(node)
    return function is not None and function.name in NOW_FUNCTIONS
