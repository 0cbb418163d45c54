"""Windows in plain Spark SQL, for queries that Spark runs as a batch: ad-hoc ones, and the oracle of the tests.

Every spelling of a window becomes a subquery with the columns `window_start` and `window_end`, exact to the microsecond
and for times before 1970. Spellings and sizes are read as by the binder; the arithmetic is not that of the kernels.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sqlglot import exp

from tidegate.bind.adhoc.window_rows import rows_with_sessions, rows_with_windows
from tidegate.errors import make
from tidegate.sql.clauses import META
from tidegate.sql.window_edges import EDGES
from tidegate.sql.window_spellings import normalise_windows, window_spec, window_tables
from tidegate.sql.windows import WindowCall, table_window, window_function

Columns = Callable[[str], tuple[str, ...] | None]


def spark_windows(query: exp.Query, columns: Columns, times: Columns | None = None) -> exp.Query:
    """A query that Spark can run. `columns` gives the columns of a relation by its name, None if it is not known;
    `times` those with a watermark, for windows that do not name their time column."""
    result = query.copy()
    ctes = {cte.alias.casefold(): cte.this for cte in result.find_all(exp.CTE)}
    known = _Known(columns, times or (lambda _: ()), ctes)
    selects = list(result.find_all(exp.Select))
    for select in reversed(selects):
        new = _rewrite(select, known)
        if select is result:
            result = new
        elif new is not select:
            select.replace(new)
    return result


class _Known:
    """The columns of relations of the catalog and of the query's WITH and FROM."""

    def __init__(self, columns: Columns, times: Columns, ctes: dict[str, exp.Expr]) -> None:
        self._columns, self._times, self._ctes = columns, times, ctes

    def columns(self, source: exp.Expr) -> tuple[str, ...]:
        """The names of the columns of an item of FROM, as far as they are known."""
        alias = source.args.get("alias")
        if isinstance(alias, exp.TableAlias) and alias.args.get("columns"):
            return tuple(each.name for each in alias.args["columns"])
        if isinstance(source, exp.Table) and not isinstance(source.this, exp.Func):
            name = ".".join(part.name for part in source.parts)
            inner = self._ctes.get(name.casefold())
            return self._outputs(inner) if inner is not None else self._columns(name) or ()
        if isinstance(source, exp.Table) and window_function(source.this):
            return (*self.columns(table_window(source)[0]), *EDGES[:2])
        return self._outputs(source.this) if isinstance(source, exp.Subquery) else ()

    def time(self, source: exp.Expr, call: WindowCall) -> exp.Expr:
        """The time column of a window."""
        if call.time is not None:
            return call.time
        times = (self._times(source.name) or ()) if isinstance(source, exp.Table) else ()
        if len(times) == 1:
            return exp.column(times[0], quoted=True)
        message = f"{call.name} does not say by which time"
        raise make("INVALID_WINDOW", message=message, hint="write EVENT TIME BY and a column", span=call.span)

    def _outputs(self, query: exp.Expr) -> tuple[str, ...]:
        while isinstance(query, exp.SetOperation | exp.Subquery):
            query = query.this
        names: list[str] = []
        for item in query.expressions:
            from_ = query.args.get("from_")
            star = item.find(exp.Star) is not None and item.find(exp.Func) is None
            names += self.columns(from_.this) if star and from_ is not None else [item.alias_or_name]
        return tuple(names)


def _rewrite(select: exp.Select, known: _Known) -> exp.Select:
    """Rewrite one SELECT whose inner SELECTs are rewritten."""
    normal = normalise_windows(select)
    if normal.window is None and not any(window_tables(normal.select)):
        return select
    result = normal.select.copy() if normal.select is select else normal.select
    result.meta.pop(META, None)
    for table in list(window_tables(result)):
        relation, call = table_window(table)
        names = [name for name in (table.alias, relation.alias_or_name) if name]
        table.replace(_add_windows(result, relation, call, known, names, table.args.get("alias")))
    if normal.window is not None:
        _window_from(result, normal.window, known)
    return result


def _window_from(select: exp.Select, call: WindowCall, known: _Known) -> None:
    """Add the windows of a clause to the relation of FROM."""
    if select.args.get("joins"):
        message = f"{call.name} over a join cannot be run as a batch"
        hint = "join in a subquery: FROM (SELECT ... JOIN ...)"
        raise make("NOT_SUPPORTED", message=message, hint=hint, span=call.span)
    source = select.args["from_"].this
    names = [name for name in (source.alias_or_name,) if name]
    source.replace(_add_windows(select, source.copy(), call, known, names, None))


def _add_windows(
    select: exp.Select,
    relation: exp.Expr,
    call: WindowCall,
    known: _Known,
    names: Sequence[str],
    alias: exp.TableAlias | None,
) -> exp.Subquery:
    """A relation with its windows, under the name that it has in the query."""
    if isinstance(relation, exp.Table) and window_function(relation.this):
        inner, inner_call = table_window(relation)
        relation = _add_windows(select, inner, inner_call, known, [inner.alias_or_name], None)
    own = [name for name in known.columns(relation) if name.casefold() in EDGES]
    time = bare(known.time(relation, call), names)
    spec = window_spec(call, "")
    if spec.kind == "session":
        per = [bare(tree, names) for tree in _per(select, relation, call, known)]
        rows = rows_with_sessions(relation, spec, time, own, per, _own_conditions(select, names))
    else:
        rows = rows_with_windows(relation, spec, time, own)
    if alias is None or alias.this is None:
        alias = exp.TableAlias(this=exp.to_identifier(names[0], quoted=True)) if names else None
    return exp.Subquery(this=rows, alias=alias.copy() if alias is not None else None)


def _per(select: exp.Select, relation: exp.Expr, call: WindowCall, known: _Known) -> list[exp.Expr]:
    """The keys of sessions: their PARTITION BY, or the other keys of GROUP BY."""
    group = select.args.get("group")
    if call.partition is not None or group is None:
        return list(call.partition or ())
    own = {name.casefold() for name in known.columns(relation)}
    keys = [_resolve_key(key, select, own) for key in group.expressions]
    return [key for key in keys if not _mentions_edges(key)]


def _resolve_key(key: exp.Expr, select: exp.Select, own: set[str]) -> exp.Expr:
    items = select.expressions
    if isinstance(key, exp.Literal) and key.is_int and 0 < int(key.name) <= len(items):
        item: exp.Expr = items[int(key.name) - 1].unalias()
        return item
    if isinstance(key, exp.Column) and not key.table and key.name.casefold() not in own:
        named = (item for item in items if isinstance(item, exp.Alias) and item.alias.casefold() == key.name.casefold())
        return next((item.this for item in named), key)
    return key


def _own_conditions(select: exp.Select, names: Sequence[str]) -> list[exp.Expr]:
    """The parts of WHERE that read rows and not their sessions: they filter before sessions are built."""
    where = select.args.get("where")
    if where is None or select.args.get("joins"):
        return []
    parts = list(where.this.flatten()) if isinstance(where.this, exp.And) else [where.this]
    return [bare(part, names) for part in parts if not _mentions_edges(part)]


def _mentions_edges(tree: exp.Expr) -> bool:
    return any(column.name.casefold() in EDGES for column in tree.find_all(exp.Column))


def bare(tree: exp.Expr, names: Sequence[str]) -> exp.Expr:
    """The expression without the relation's name in front of its columns."""
    folded = {name.casefold() for name in names}

    def replace(node: exp.Expr) -> exp.Expr:
        if isinstance(node, exp.Column) and len(node.parts) == 2 and node.table.casefold() in folded:
            return exp.Column(this=node.this.copy())
        return node

    return tree.transform(replace)
