"""The waterlines of a whole query: of what it reads, through windows, groups, projections and unions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from sqlglot import exp

from tidegate.core.types import Type
from tidegate.sql import call
from tidegate.testing.time.amounts import Number
from tidegate.testing.time.lines import Evaluate, Line, Lines, least, line_of
from tidegate.testing.time.shapes import END, START, Windowed, group_keys

NOWS = frozenset({"now", "current_timestamp", "localtimestamp", "current_date", "curdate"})


def edge_lines(line: Line | None, windowed: Windowed, lateness: int) -> Lines:
    """The waterlines of a window's edges: those of the earliest window that can still change."""
    if line is None:
        return {}
    kind = Type("timestamp") if line.kind.name == "date" else line.kind

    def edge(place: int) -> Line:
        def at(moment: int, lag: int) -> Number | None:
            found = line.at(moment, lag + lateness)
            return None if found is None else windowed.window.opened(found)[place]

        return Line(at, kind, line.watermarked)

    if windowed.window.kind == "session":
        return {END: Line(lambda moment, lag: line.at(moment, lag + lateness), kind, line.watermarked)}
    return {START: edge(0), END: edge(1)}


class Inference:
    """Finds the waterlines of queries over relations whose waterlines are known."""

    def __init__(
        self, of: Callable[[str], Lines], time: Callable[[Windowed], str], lateness: int, evaluate: Evaluate
    ) -> None:
        self._of, self._time, self._lateness, self._evaluate = of, time, lateness, evaluate

    def outputs(self, query: exp.Expr, windows: Iterable[Windowed], names: Sequence[str]) -> Lines:
        """The waterlines of the query's columns, which have these names."""
        found = self._query(query, {one.table: one for one in windows}) or []
        starred = any(item.is_star for select in query.find_all(exp.Select) for item in select.expressions)
        if not starred and len(found) == len(names):
            found = [(name.lower(), line) for name, (_, line) in zip(names, found, strict=True)]
        return {name: line for name, line in found if line is not None}

    def keys(self, select: exp.Select, tables: dict[str, Windowed]) -> list[Line | None]:
        """The waterlines of what a SELECT groups by."""
        scope = self._scope(select, tables)
        return [line_of(key, scope, self._evaluate) for key in group_keys(select) or ()]

    def _query(self, query: exp.Expr, tables: dict[str, Windowed]) -> list[tuple[str, Line | None]] | None:
        if isinstance(query, exp.Subquery):
            return self._query(query.this, tables)
        if isinstance(query, exp.Union):
            left, right = self._query(query.left, tables), self._query(query.right, tables)
            if left is None or right is None or len(left) != len(right):
                return None
            pairs = zip(left, right, strict=True)
            return [(name, least([one, other]) if one and other else None) for (name, one), (_, other) in pairs]
        return self._select(query, tables) if isinstance(query, exp.Select) else None

    def _select(self, select: exp.Select, tables: dict[str, Windowed]) -> list[tuple[str, Line | None]] | None:
        if select.args.get("joins") or select.args.get("limit") is not None or uses_now(select):
            return None
        scope = self._scope(select, tables)
        grouped = group_keys(select)
        if grouped is not None:
            scope = self._grouped(select, grouped, scope, tables)
        found: list[tuple[str, Line | None]] = []
        for item in select.expressions:
            if item.is_star:
                found += list(scope.items())
            else:
                found.append((item.alias_or_name.lower(), self._item(item, grouped or (), scope)))
        return found

    def _item(self, item: exp.Expr, keys: tuple[exp.Expr, ...], scope: Lines) -> Line | None:
        """The waterline of an item; where a key stands in it, the key's."""
        texts = {key.sql(): f"__key{place}" for place, key in enumerate(keys)}

        def replace(node: exp.Expr) -> exp.Expr:
            return exp.column(texts[node.sql()]) if node.sql() in texts else node

        return line_of(item.unalias().copy().transform(replace), scope, self._evaluate)

    def _grouped(
        self, select: exp.Select, keys: tuple[exp.Expr, ...], scope: Lines, tables: dict[str, Windowed]
    ) -> Lines:
        windowed = self._windowed(select, tables)
        if windowed is not None and windowed.grouped:
            scope = edge_lines(self._of(windowed.relation).get(self._time(windowed)), windowed, self._lateness)
        found = [line_of(key, scope, self._evaluate) for key in keys]
        return {f"__key{place}": line for place, line in enumerate(found) if line is not None}

    def _scope(self, select: exp.Select, tables: dict[str, Windowed]) -> Lines:
        """The waterlines of the columns of FROM."""
        origin = select.args.get("from_")
        windowed = self._windowed(select, tables)
        if windowed is not None:
            below = self._of(windowed.relation)
            return {**below, **edge_lines(below.get(self._time(windowed)), windowed, 0)}
        if origin is not None and isinstance(origin.this, exp.Subquery):
            return {name: line for name, line in self._query(origin.this, tables) or () if line is not None}
        return self._of(origin.this.name.lower()) if origin is not None and isinstance(origin.this, exp.Table) else {}

    def _windowed(self, select: exp.Select, tables: dict[str, Windowed]) -> Windowed | None:
        origin = select.args.get("from_")
        return tables.get(origin.this.name) if origin is not None and isinstance(origin.this, exp.Table) else None


def uses_now(tree: exp.Expr) -> bool:
    """Whether a SELECT speaks of the present."""
    return any(is_now(node) for node in tree.walk())


def is_now(node: exp.Expr) -> bool:
    if isinstance(node, exp.Column):
        return node.name.lower() in ("current_timestamp", "current_date") and not node.table
    found = call(node)
    return found is not None and found.name in NOWS
