"""What a view's query is to the model of time: where its windows are, and by what its rows close.

The batch query reads rows with windows that the model has assigned: `FROM TUMBLE(bids, ts, d)` and `GROUP BY TUMBLE(ts,
d)` both become a table of accepted rows with the columns `window_start` and `window_end`."""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from tidegate.core.durations import CalendarInterval
from tidegate.sql.durations import length
from tidegate.sql.window_spellings import normalise_windows, window_tables
from tidegate.sql.windows import WindowCall, table_window
from tidegate.testing.time.amounts import Unknown
from tidegate.testing.time.windows import Window

START, END = "window_start", "window_end"
CLOSE = "__close"


@dataclass(frozen=True)
class Windowed:
    """A window of one SELECT. `table` is its name in the batch query, `time` None for the relation's own time column.

    `grouped`: by windows, so that rows can be late. Sessions are per `keys`."""

    table: str
    relation: str
    alias: str
    window: Window
    time: str | None
    where: exp.Expr | None
    keys: tuple[exp.Expr, ...]
    grouped: bool


@dataclass(frozen=True)
class Shape:
    """`tree` is the query over plain tables, `closing` the same with the columns by which its rows close, called
    `__close0` and so on. `core` says what its rows come from, below projections and filters: window (rows close at the
    end of one), group (by the keys) or rows (by their own columns). `select` is where that is in the tree."""

    tree: exp.Query
    closing: exp.Query
    windows: tuple[Windowed, ...]
    core: str
    select: exp.Select | None = None
    window: Windowed | None = None


def shape_of(query: exp.Query, prefix: str) -> Shape:
    """Reads a query. `prefix` makes the names of its windowed tables."""
    found: list[Windowed] = []
    tree = _spelled(query.copy(), found, prefix)
    chain = _chain(tree)
    if not chain:
        return Shape(tree, tree, tuple(found), "rows")
    core = chain[-1]
    keys = group_keys(core)
    window = next((one for one in found if _reads(core, one.table)), None)
    if window is not None and (window.grouped or keys is None):
        edge: exp.Expr = exp.column(END, quoted=True)
        columns = [exp.Max(this=edge) if window.grouped else edge]
        return Shape(tree, _closing(tree, columns), tuple(found), "window", core, window)
    if keys is not None:
        return Shape(tree, _closing(tree, list(keys)), tuple(found), "group", core)
    return Shape(tree, tree, tuple(found), "rows", core)


def _closing(tree: exp.Query, columns: list[exp.Expr]) -> exp.Query:
    """The query with more columns at its core, which pass through what is above."""
    result = tree.copy()
    chain = _chain(result)
    for place, column in enumerate(columns):
        name = f"{CLOSE}{place}"
        chain[-1].append("expressions", exp.alias_(column.copy(), name))
        for select in chain[:-1]:
            if not any(isinstance(one, exp.Star) for one in select.expressions):
                select.append("expressions", exp.column(name, quoted=True))
    return result


def _spelled(query: exp.Expr, found: list[Windowed], prefix: str) -> exp.Query:
    """The query with every window replaced by a table."""

    def replace(node: exp.Expr) -> exp.Expr:
        return _replaced(node, found, prefix) if isinstance(node, exp.Select) else node

    result = query.transform(replace)
    assert isinstance(result, exp.Query)
    return result


def _replaced(select: exp.Select, found: list[Windowed], prefix: str) -> exp.Select:
    said = normalise_windows(select)
    tables = list(window_tables(said.select))
    if not tables and said.window is None:
        return select
    tree = said.select.copy() if said.select is select else said.select
    if tree.args.get("joins"):
        raise Unknown("it joins windows")
    table = f"{prefix}{len(found)}"
    if tables:
        relation, window = table_window(next(iter(window_tables(tree))))
    else:
        origin = tree.args.get("from_")
        assert origin is not None and said.window is not None
        relation, window = origin.this, said.window
    if not isinstance(relation, exp.Table) or not isinstance(relation.this, exp.Identifier):
        raise Unknown("its window is over a subquery")
    place = tree.args["from_"].this
    alias = place.alias or relation.name
    named = exp.TableAlias(this=exp.to_identifier(alias))
    tree.args["from_"].set("this", exp.Table(this=exp.to_identifier(table), alias=named))
    found.append(_windowed(tree, table, relation.name.lower(), alias, window))
    return tree


def _windowed(tree: exp.Select, table: str, relation: str, alias: str, window: WindowCall) -> Windowed:
    if window.time is not None and not isinstance(window.time, exp.Column):
        raise Unknown("the time of its window is computed")
    keys = group_keys(tree)
    edges = {key.name for key in keys or () if isinstance(key, exp.Column)} & {START, END}
    grouped = edges == {START, END}
    if edges and not grouped:
        raise Unknown("it groups by one edge of a window that does not tell windows apart")
    others = tuple(key for key in keys or () if not (isinstance(key, exp.Column) and key.name in (START, END)))
    if window.partition is not None:
        others = window.partition
    elif window.kind == "session" and not grouped:
        others = ()
    where = tree.args.get("where")
    return Windowed(
        table,
        relation,
        alias,
        Window(window.kind, _length(window.size), _length(window.slide) if window.slide else None, _offset(window)),
        window.time.name if window.time is not None else None,
        where.this if where is not None else None,
        others,
        grouped,
    )


def _length(tree: exp.Expr) -> CalendarInterval:
    found = length(tree)
    if found is None:
        raise Unknown(f"{tree.sql()} is no length of time that the model knows")
    return found


def _offset(window: WindowCall) -> int:
    return _length(window.offset).micros if window.offset is not None else 0


def group_keys(select: exp.Select) -> tuple[exp.Expr, ...] | None:
    """What a SELECT groups by, positions and aliases resolved; None if it does not aggregate. DISTINCT does not count:
    what it lets through are rows."""
    group = select.args.get("group")
    if group is None:
        aggregated = any(_aggregates(item) for item in select.expressions) or select.args.get("having") is not None
        return () if aggregated else None
    if group.args.get("all"):
        return tuple(item.unalias() for item in select.expressions if not _aggregates(item))
    return tuple(_resolved(key, select) for key in group.expressions)


def _aggregates(item: exp.Expr) -> bool:
    return any(not isinstance(one.parent, exp.Window) for one in item.find_all(exp.AggFunc))


def _resolved(key: exp.Expr, select: exp.Select) -> exp.Expr:
    if isinstance(key, exp.Literal) and key.is_int:
        item: exp.Expr = select.expressions[int(key.name) - 1].unalias()
        return item
    if isinstance(key, exp.Column) and not key.table:
        aliases = [one for one in select.expressions if isinstance(one, exp.Alias)]
        named = [one.this for one in aliases if one.alias.lower() == key.name.lower()]
        computed = [one for one in named if not isinstance(one, exp.Column) and not _aggregates(one)]
        return computed[0] if computed else key
    return key


def _chain(query: exp.Expr) -> list[exp.Select]:
    """A SELECT and those below it, as long as each only projects and filters the next; empty if the query is no SELECT,
    or keeps only some of its rows."""
    chain: list[exp.Select] = []
    while True:
        query = query.unnest() if isinstance(query, exp.Subquery) else query
        if not isinstance(query, exp.Select) or query.args.get("limit") is not None or query.args.get("distinct"):
            return []
        if query.args.get("joins") or any(item.find(exp.Window) for item in query.expressions):
            return []
        chain.append(query)
        origin = query.args.get("from_")
        if group_keys(query) is not None or origin is None or not isinstance(origin.this, exp.Subquery):
            return chain
        query = origin.this.this


def _reads(select: exp.Select, table: str) -> bool:
    origin = select.args.get("from_")
    return origin is not None and isinstance(origin.this, exp.Table) and origin.this.name == table
