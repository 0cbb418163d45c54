"""The shape of a view's query: where its windows are, and which columns close its rows.

The batch query reads rows whose windows the oracle has assigned: `FROM TUMBLE(bids, ts, d)` and `GROUP BY TUMBLE(ts,
d)` both become a table of accepted rows with the columns `window_start` and `window_end`."""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from tidegate.sql.window_spellings import normalise_windows, window_tables
from tidegate.sql.windows import WindowCall, table_window
from tidegate.testing.oracle.amounts import Unknown, duration
from tidegate.testing.oracle.windows import Window

START, END = "window_start", "window_end"
CLOSE = "__close"


@dataclass(frozen=True)
class Windowed:
    """A window of one SELECT. `table` is its name in the batch query, `time` None for the relation's own time column.

    `grouped`: the SELECT groups by the window, so that rows can be late. Sessions are partitioned by `keys`."""

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
    """`tree` is the query over plain tables, `closing` the same with added columns `__close0`, ... that close its rows;
    of a session also those that identify it.
    `core` is what is below projections and filters: `window` (a row closes at the end of its window), `group` (by its
    keys) or `rows` (by its own columns). `select` is that part of the tree."""

    tree: exp.Query
    closing: exp.Query
    windows: tuple[Windowed, ...]
    core: str
    select: exp.Select | None = None
    window: Windowed | None = None


def shape_of(query: exp.Query, prefix: str) -> Shape:
    """Analyse a query. The names of its windowed tables begin with `prefix`."""
    windows: list[Windowed] = []
    tree = _replace_windows(query.copy(), windows, prefix)
    chain = _chain(tree)
    if not chain:
        return Shape(tree, tree, tuple(windows), "rows")
    core = chain[-1]
    keys = group_keys(core)
    window = next((each for each in windows if _reads(core, each.table)), None)
    if window is not None and (window.grouped or keys is None):
        edge: exp.Expr = exp.column(END, quoted=True)
        columns = [exp.Max(this=edge) if window.grouped else edge]
        if window.grouped and window.window.kind == "session":
            columns += _session_identity(keys or ())
        return Shape(tree, _closing(tree, columns), tuple(windows), "window", core, window)
    if keys is not None:
        return Shape(tree, _closing(tree, list(keys)), tuple(windows), "group", core)
    return Shape(tree, tree, tuple(windows), "rows", core)


def _session_identity(keys: tuple[exp.Expr, ...]) -> list[exp.Expr]:
    """What a session keeps while it grows: its start and its group."""
    others = [key for key in keys if not (isinstance(key, exp.Column) and key.name.lower() in (START, END))]
    return [exp.Max(this=exp.column(START, quoted=True)), *others]


def _closing(tree: exp.Query, columns: list[exp.Expr]) -> exp.Query:
    """The query with more columns at its core, passed through the SELECTs above."""
    result = tree.copy()
    chain = _chain(result)
    for index, column in enumerate(columns):
        name = f"{CLOSE}{index}"
        chain[-1].append("expressions", exp.alias_(column.copy(), name))
        for select in chain[:-1]:
            if not any(isinstance(item, exp.Star) for item in select.expressions):
                select.append("expressions", exp.column(name, quoted=True))
    return result


def _replace_windows(query: exp.Expr, windows: list[Windowed], prefix: str) -> exp.Query:
    """The query with every window replaced by a table; adds the windows to `windows`."""

    def replace(node: exp.Expr) -> exp.Expr:
        return _replace_window(node, windows, prefix) if isinstance(node, exp.Select) else node

    result = query.transform(replace)
    assert isinstance(result, exp.Query)
    return result


def _replace_window(select: exp.Select, windows: list[Windowed], prefix: str) -> exp.Select:
    normalised = normalise_windows(select)
    tables = list(window_tables(normalised.select))
    if not tables and normalised.window is None:
        return select
    tree = normalised.select.copy() if normalised.select is select else normalised.select
    if tree.args.get("joins"):
        raise Unknown("it joins windows")
    table = f"{prefix}{len(windows)}"
    if tables:
        relation, window = table_window(next(iter(window_tables(tree))))
    else:
        origin = tree.args.get("from_")
        assert origin is not None and normalised.window is not None
        relation, window = origin.this, normalised.window
    if not isinstance(relation, exp.Table) or not isinstance(relation.this, exp.Identifier):
        raise Unknown("its window is over a subquery")
    alias = tree.args["from_"].this.alias or relation.name
    named = exp.TableAlias(this=exp.to_identifier(alias))
    tree.args["from_"].set("this", exp.Table(this=exp.to_identifier(table), alias=named))
    windows.append(_windowed(tree, table, relation.name.lower(), alias, window))
    return tree


def _windowed(tree: exp.Select, table: str, relation: str, alias: str, window: WindowCall) -> Windowed:
    if window.time is not None and not isinstance(window.time, exp.Column):
        raise Unknown("the time of its window is computed")
    keys = group_keys(tree)
    edges = {key.name for key in keys or () if isinstance(key, exp.Column)} & {START, END}
    grouped = edges == {START, END}
    if edges and not grouped:
        raise Unknown("it groups by one edge of a window, which does not identify it")
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
        Window(window.kind, duration(window.size), duration(window.slide) if window.slide else None, _offset(window)),
        window.time.name if window.time is not None else None,
        where.this if where is not None else None,
        others,
        grouped,
    )


def _offset(window: WindowCall) -> int:
    return duration(window.offset).micros if window.offset is not None else 0


def group_keys(select: exp.Select) -> tuple[exp.Expr, ...] | None:
    """The expressions that a SELECT groups by, positions and aliases resolved; None if it does not aggregate. DISTINCT
    does not count as aggregation."""
    group = select.args.get("group")
    if group is None:
        aggregated = any(_aggregates(item) for item in select.expressions) or select.args.get("having") is not None
        return () if aggregated else None
    if group.args.get("all"):
        return tuple(item.unalias() for item in select.expressions if not _aggregates(item))
    return tuple(_resolve_key(key, select) for key in group.expressions)


def _aggregates(item: exp.Expr) -> bool:
    return any(not isinstance(function.parent, exp.Window) for function in item.find_all(exp.AggFunc))


def _resolve_key(key: exp.Expr, select: exp.Select) -> exp.Expr:
    if isinstance(key, exp.Literal) and key.is_int:
        item: exp.Expr = select.expressions[int(key.name) - 1].unalias()
        return item
    if isinstance(key, exp.Column) and not key.table:
        aliases = [item for item in select.expressions if isinstance(item, exp.Alias)]
        named = [alias.this for alias in aliases if alias.alias.lower() == key.name.lower()]
        computed = [tree for tree in named if not isinstance(tree, exp.Column) and not _aggregates(tree)]
        return computed[0] if computed else key
    return key


def _chain(query: exp.Expr) -> list[exp.Select]:
    """A SELECT and those below it, as long as each only projects and filters the next; empty if the query is no SELECT,
    or has LIMIT, DISTINCT, joins or window functions."""
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
