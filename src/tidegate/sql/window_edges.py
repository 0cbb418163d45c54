"""The names of a window's edges: `window_start`, `TUMBLE_END(ts, d)`, `window.start`, `WINDOWSTART`, `window_time`."""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from tidegate.errors import make
from tidegate.sql.durations import length
from tidegate.sql.functions import call
from tidegate.sql.spans import span_of
from tidegate.sql.windows import RELATION_WINDOWS, WindowCall, group_window

START, END, TIME = "window_start", "window_end", "window_time"
EDGES = (START, END, TIME)
STRUCTS = ("window", "session_window")
_PSEUDO = {"windowstart": START, "windowend": END}
_FIELDS = {"start": START, "end": END}
_FUNCTIONS = {"start": START, "end": END, "rowtime": TIME}


def edge(tree: exp.Expr) -> str | None:
    """The edge that a plain column names; None if it names none."""
    name = tree.name.casefold() if isinstance(tree, exp.Column) else ""
    return name if name in EDGES else None


@dataclass(frozen=True)
class Names:
    """The names of a window's edges. `pseudo`: WINDOWSTART is one, as in ksqlDB."""

    window: WindowCall
    pseudo: bool

    @property
    def struct(self) -> str | None:
        """Spark's name for both edges together, if the window is written in Spark's spelling."""
        return self.window.name if self.window.name in STRUCTS else None

    def replace_in(self, tree: exp.Expr) -> exp.Expr:
        """A copy in which the edges are columns; subqueries are left as they are."""

        def replace(node: exp.Expr) -> exp.Expr:
            if isinstance(node, exp.Query):
                return node.copy()
            new = self._column(node) if isinstance(node, exp.Column) else self._call(node)
            return node if new is None else _with_span(new, node)

        return tree.transform(replace)

    def alias(self, item: exp.Expr) -> str | None:
        """The alias for an item of the SELECT list whose replacement has another name."""
        if isinstance(item, exp.Column):
            new = self._column(item)
            return item.name if new is not None else None
        function = call(item) if isinstance(item, exp.Anonymous) else None
        if function is None:
            return None
        if function.name == self.struct:
            return function.name
        return TIME if function.name in _functions(TIME) or function.name == TIME else None

    def _column(self, node: exp.Column) -> exp.Expr | None:
        name, qualifier = node.name.casefold(), node.table.casefold()
        if qualifier == self.struct and name in _FIELDS and len(node.parts) == 2:
            return _column(_FIELDS[name], None)
        if not qualifier and name == self.struct:
            return _struct()
        if name == TIME:
            return _before_end(node.args.get("table"), "MILLISECOND")
        if self.pseudo and name in _PSEUDO:
            return _column(_PSEUDO[name], node.args.get("table"))
        return None

    def _call(self, node: exp.Expr) -> exp.Expr | None:
        function = call(node) if isinstance(node, exp.Anonymous) else None
        if function is None:
            return None
        if function.name == TIME and len(function.args) == 1:
            return _before_end(None, "MICROSECOND")
        kind, _, word = function.name.rpartition("_")
        if kind in RELATION_WINDOWS and word in _FUNCTIONS:
            self._check_match(node, kind, function.args)
            edge_name = _FUNCTIONS[word]
            return _before_end(None, "MILLISECOND") if edge_name == TIME else _column(edge_name, None)
        if function.name == self.struct:
            self._check_same(node, group_window(node))
            return _struct()
        return None

    def _check_match(self, node: exp.Expr, kind: str, args: tuple[exp.Expr, ...]) -> None:
        """TUMBLE_START(ts, d) needs TUMBLE(ts, d); without arguments it needs any TUMBLE."""
        name = "hop" if kind == "slide" else kind
        if args:
            self._check_same(node, group_window(exp.Anonymous(this=kind, expressions=[arg.copy() for arg in args])))
        elif name != self.window.kind:
            self._check_same(node, None)

    def _check_same(self, node: exp.Expr, other: WindowCall | None) -> None:
        window = self.window
        if other is not None and _same(other, window):
            return
        function = call(node)
        name = function.name.upper() if function else ""
        expected = name.rpartition("_")[0] if name.casefold() not in STRUCTS else name.lower()
        message = f"{name}(...) has no matching {expected}(...) in GROUP BY"
        hint = f"the window is {window.name}: select {START} and {END}, or write the same arguments in both places"
        raise make("INVALID_WINDOW", message=message, hint=hint, span=span_of(node))


def _functions(edge_name: str) -> set[str]:
    return {f"{kind}_{word}" for kind in RELATION_WINDOWS for word, name in _FUNCTIONS.items() if name == edge_name}


def _same(one: WindowCall, other: WindowCall) -> bool:
    """True if two calls mean the same window, however its lengths and its time column are written."""
    times = [time.name if isinstance(time, exp.Column) else _text(time) for time in (one.time, other.time)]
    if one.time is not None and other.time is not None and times[0].casefold() != times[1].casefold():
        return False
    sizes = zip(one.parts[1:], other.parts[1:], strict=True)
    return one.kind == other.kind and all(_size(left) == _size(right) for left, right in sizes)


def _size(tree: exp.Expr | None) -> object:
    return None if tree is None else length(tree) or _text(tree)


def _text(tree: exp.Expr | None) -> str:
    return "" if tree is None else tree.sql(dialect="spark")


def _column(name: str, table: exp.Expr | None) -> exp.Column:
    return exp.Column(this=exp.to_identifier(name, quoted=True), table=table.copy() if table is not None else None)


def _struct() -> exp.Expr:
    parts: list[exp.Expr] = []
    for field, name in _FIELDS.items():
        parts += [exp.Literal.string(field), _column(name, None)]
    return exp.Anonymous(this="named_struct", expressions=parts)


def _before_end(table: exp.Expr | None, unit: str) -> exp.Expr:
    """The last millisecond (Flink) or microsecond (Spark) of a window."""
    step = exp.Interval(this=exp.Literal.string("1"), unit=exp.Var(this=unit))
    return exp.Paren(this=exp.Sub(this=_column(END, table), expression=step))


def _with_span(new: exp.Expr, old: exp.Expr) -> exp.Expr:
    span = span_of(old)
    if span is not None:
        for node in new.walk():
            node.meta.update(start=span.start, end=span.end - 1)
    return new
