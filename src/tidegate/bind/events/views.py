"""Views over the event bus: the subquery that they read, and their event time.

`SELECT channel, SUM(payload.amount) FROM pgcdc_events WHERE operation = 'INSERT' GROUP BY channel EVENT TIME BY
payload.at TUMBLING WINDOW 5m` reads a subquery in place of the bus: the events that pass WHERE and are not results of
views, with the event time of the view, and with the columns of its checks. The values of its paths are extracted once,
in a subquery below that.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from dataclasses import replace

from sqlglot import exp

from tidegate.bind.events.checks import EVENT_TIME, add_checks, strip_qualifiers
from tidegate.bind.events.paths import (
    Columns,
    convert_compared,
    from_tables,
    is_bus_table,
    reads_bus,
    replace_paths,
    windowed_bus,
)
from tidegate.bind.events.values import PATH, is_path
from tidegate.catalog.bus import BUS, EVENTS, RESULTS, TIME
from tidegate.errors import Error, Span, make
from tidegate.sql.clauses import META, clauses
from tidegate.sql.spans import mark, span_of
from tidegate.sql.window_edges import EDGES, END, START

WINDOW_EDGES = ("__window_start", "__window_end")
"""The columns of results that return to the bus beside those of their view: the edges of the window."""
EXTRACTED = "__path"
"""Prefix of the columns that hold the values of paths."""


def over_events(query: exp.Query, columns: Columns = lambda name: None) -> exp.Query:
    """Rewrite a view's query that reads the bus; any other query is returned as it is. `columns` gives the columns of
    the other relations that it reads."""
    if not any(reads_bus(select) for select in query.find_all(exp.Select)):
        return query
    result = query.copy()
    replace_paths(result)
    for select in list(result.find_all(exp.Select)):
        if reads_bus(select) is not None:
            _check_channels(select)
            convert_compared(select, columns)
            _nest(select)
    return result


def with_window_edges(query: exp.Query) -> exp.Query:
    """Select the edges of a query's window too; a query without a window is returned as it is."""
    if not isinstance(query, exp.Select) or query.args.get("distinct"):
        return query
    if clauses(query).window is None and not any(windowed_bus(table) for table in from_tables(query)):
        return query
    result = query.copy()
    for edge, name in zip((START, END), WINDOW_EDGES, strict=True):
        result.append("expressions", exp.alias_(exp.column(edge), name, quoted=True))
    return result


def _check_channels(select: exp.Select) -> None:
    for literal in select.find_all(exp.Literal):
        if literal.is_string and literal.name.casefold().startswith(RESULTS):
            raise make("VIEW_READS_VIEWS", channel=literal.name, span=span_of(literal))


def _nest(select: exp.Select) -> None:
    _expand_stars(select)
    _distinct_in_windows(select)
    tables = [table for table in from_tables(select) if is_bus_table(table) or windowed_bus(table) is not None]
    own = clauses(select)
    alone = len(list(from_tables(select))) == 1 and not select.args.get("joins")
    by_path = own.event_time is not None and is_path(own.event_time)
    if by_path and not (alone and is_bus_table(tables[0])):
        raise make(
            "NOT_SUPPORTED",
            message="EVENT TIME BY belongs to one relation, and FROM has several",
            hint="read each in a view of its own with EVENT TIME BY, or join by created_at",
            span=own.span("event_time"),
        )
    if own.window is not None and own.event_time is None and len(tables) > 1:
        select.meta[META] = replace(own, event_time=_first_time(tables[0], own.window.span))
    paths = _extract_paths(select)
    own = clauses(select)
    for table in tables:
        inner = _events(select, paths, alone)
        if is_bus_table(table):
            alias = table.args.get("alias") or exp.TableAlias(this=exp.to_identifier(BUS))
            table.replace(exp.Subquery(this=inner, alias=alias.copy()))
        else:
            argument = windowed_bus(table)
            assert argument is not None
            if not table.alias:
                table.set("alias", exp.TableAlias(this=exp.to_identifier(BUS)))
            holder = argument.parent if isinstance(argument.parent, exp.Anonymous) else argument
            (holder if _is_table_call(holder) else argument).replace(exp.Subquery(this=inner))
    if own.event_time is not None and alone:
        by = exp.column(EVENT_TIME, quoted=True)
        by.meta[PATH] = own.event_time.meta.get(PATH) or own.event_time.sql(dialect="spark")
        if (span := span_of(own.event_time)) is not None:
            mark(by, span.start, span.end)
        select.meta[META] = replace(own, event_time=by)


def _distinct_in_windows(select: exp.Select) -> None:
    """DISTINCT over a window clause becomes GROUP BY: each row once per window."""
    items = [item.unalias() for item in select.expressions]
    if clauses(select).window is None or not select.args.get("distinct") or select.args.get("group"):
        return
    if not any(item.find(exp.AggFunc, exp.Star) for item in items):
        select.set("distinct", None)
        select.set("group", exp.Group(expressions=[item.copy() for item in items]))


def _first_time(table: exp.Table, span: Span) -> exp.Expr:
    """The time of a window over pairs of events: that of the first of them."""
    time = exp.column(TIME, table=table.alias_or_name)
    mark(time, span.start, span.end)
    return time


def _extract_paths(select: exp.Select) -> dict[str, exp.Expr]:
    """Replace the paths of a SELECT by columns; returns column name -> path, each path once."""
    paths: dict[str, exp.Expr] = {}
    names: dict[str, str] = {}
    own = clauses(select)
    if own.event_time is not None:
        select.meta[META] = replace(
            own, event_time=_replace_paths(exp.Paren(this=own.event_time.copy()), paths, names).this
        )
    for clause, part in list(select.args.items()):
        if clause not in ("from_", "with_") and part is not None:
            for each in part if isinstance(part, list) else [part]:
                if isinstance(each, exp.Expr):
                    _replace_paths(each, paths, names)
    return paths


def _replace_paths(tree: exp.Expr, paths: dict[str, exp.Expr], names: dict[str, str]) -> exp.Expr:
    home = tree.find_ancestor(exp.Query)
    for node in [each for each in tree.walk() if is_path(each) and each.find_ancestor(exp.Query) is home]:
        plain = strip_qualifiers(node)
        name = names.setdefault(plain.sql(), f"{EXTRACTED}{len(names)}")
        paths[name] = plain
        column = exp.Column(this=exp.to_identifier(name, quoted=True))
        qualifier = next(node.find_all(exp.Column)).args.get("table")
        if qualifier is not None:
            column.set("table", qualifier.copy())
        column.meta.update(node.meta)
        if node.parent is not None:
            node.replace(column)
    return tree


@contextlib.contextmanager
def paths_in_errors(query: exp.Query) -> Iterator[None]:
    """Let errors about a rewritten query name the paths that its columns hold."""
    try:
        yield
    except Error as error:
        paths: dict[str, set[str]] = {}
        for column in query.find_all(exp.Column):
            paths.setdefault(column.name, set()).add(column.meta.get(PATH, "payload"))

        def path(match: re.Match[str]) -> str:
            known = paths.get(match[0], set())
            return next(iter(known)) if len(known) == 1 else "payload"

        error.message = re.sub(rf"{EXTRACTED}\d+", path, error.message)
        error.hint = error.hint and re.sub(rf"{EXTRACTED}\d+", path, error.hint)
        raise


def _is_table_call(node: exp.Expr) -> bool:
    return isinstance(node, exp.Anonymous) and node.name.casefold() == "table"


def _expand_stars(select: exp.Select) -> None:
    """Expand `*` to the columns of the bus, without those that are added for the view."""
    if select.args.get("joins") or not any(isinstance(item, exp.Star) and not item.args for item in select.expressions):
        return
    windowed = any(windowed_bus(table) is not None for table in from_tables(select))
    names = [column.name for column in EVENTS.columns] + (list(EDGES) if windowed else [])
    items: list[exp.Expr] = []
    for item in select.expressions:
        items += [exp.column(name) for name in names] if isinstance(item, exp.Star) else [item]
    select.set("expressions", items)


def _events(select: exp.Select, paths: dict[str, exp.Expr], alone: bool) -> exp.Select:
    """The subquery of the events that a view reads. In a join both sides have the paths of both."""
    extracted = [exp.alias_(path.copy(), name, quoted=True) for name, path in paths.items()]
    below = exp.Select(expressions=[*(exp.column(column.name) for column in EVENTS.columns), *extracted])
    below.set("from_", exp.From(this=exp.to_table(BUS)))
    below.set("where", exp.Where(this=_not_a_result()))
    if not alone:
        return below
    known = [exp.column(name, quoted=True) for name in paths]
    inner = exp.Select(expressions=[*(exp.column(column.name) for column in EVENTS.columns), *known])
    inner.set("from_", exp.From(this=exp.Subquery(this=below, alias=exp.TableAlias(this=exp.to_identifier(BUS)))))
    where = select.args.get("where")
    if where is not None and not _mentions_windows(where):
        inner.set("where", exp.Where(this=strip_qualifiers(where.this)))
        select.set("where", None)
    add_checks(select, inner)
    return inner


def _not_a_result() -> exp.Expr:
    """True for events that are not results of views. An event without a channel is none."""
    channel = exp.Anonymous(this="coalesce", expressions=[exp.column("channel"), exp.Literal.string("")])
    return exp.not_(exp.Anonymous(this="startswith", expressions=[channel, exp.Literal.string(RESULTS)]))


def _mentions_windows(where: exp.Expr) -> bool:
    return any(column.name.casefold() in EDGES for column in where.find_all(exp.Column))
