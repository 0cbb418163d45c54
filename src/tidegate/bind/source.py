"""FROM with one relation: a relation of the catalog, a named subquery, a subquery, or a window over one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from sqlglot import exp

from tidegate.bind.context import Bound, Context
from tidegate.bind.events.checks import event_checks, with_checks
from tidegate.bind.scope import Field, Scope
from tidegate.bind.unsupported import check_table, unsupported
from tidegate.bind.windows import add_window
from tidegate.catalog import Relation
from tidegate.catalog.system import PREFIX
from tidegate.errors import make
from tidegate.plan import Clocks, Node, Scan
from tidegate.sql import span_of
from tidegate.sql.window_edges import EDGES
from tidegate.sql.windows import table_window, window_function

BindQuery = Callable[[exp.Query, Context], Bound]


def bind_from(select: exp.Select, context: Context, bind_query: BindQuery) -> tuple[Bound, Scope]:
    """The relation of a SELECT and the names of its columns."""
    clause = select.args.get("from_")
    if clause is None:
        raise unsupported(
            "a SELECT without FROM", span_of(select), "a view needs a relation to read: insert constant rows"
        )
    return bind_item(clause.this, context, bind_query)


def bind_item(source: exp.Expr, context: Context, bind_query: BindQuery) -> tuple[Bound, Scope]:
    """One relation in FROM, with its alias and column aliases."""
    if isinstance(source, exp.Table) and window_function(source.this):
        return _bind_window(source, context, bind_query)
    bound = _bind_source(source, context, bind_query)
    fields = _rename(bound.fields, source)
    return Bound(bound.plan, fields), Scope(_alias(source), fields)


def _bind_window(table: exp.Table, context: Context, bind_query: BindQuery) -> tuple[Bound, Scope]:
    """`TUMBLE(bids, ts, size) AS w`. Without an alias the relation's own name is the qualifier."""
    relation, call = table_window(table)
    rows, scope = bind_item(relation, context, bind_query)
    bound = add_window(rows, scope, call, context)
    fields = _rename(bound.fields, table)
    if table.alias:
        return Bound(bound.plan, fields), Scope(table.alias, fields)
    shadowed = frozenset(field.name.casefold() for field in rows.fields) & set(EDGES)
    return Bound(bound.plan, fields), Scope(scope.alias, fields, shadowed)


def _bind_source(source: exp.Expr, context: Context, bind_query: BindQuery) -> Bound:
    if isinstance(source, exp.Table):
        check_table(source)
        return _bind_name(source, context, bind_query)
    if isinstance(source, exp.Subquery):
        if source.args.get("joins") or source.args.get("pivots") or source.args.get("sample"):
            raise unsupported("this kind of subquery", span_of(source))
        checks, bound = event_checks(source.this), bind_query(source.this, context)
        return bound if checks is None else with_checks(bound, checks, context)
    if isinstance(source, exp.Values):
        raise unsupported("VALUES in a view", span_of(source), "create a table and insert the rows")
    if isinstance(source, exp.Lateral | exp.Unnest):
        raise unsupported("a generator in FROM", span_of(source), "insert one row per element")
    raise unsupported("this in FROM", span_of(source), "read a source, table, view or subquery")


def _bind_name(table: exp.Table, context: Context, bind_query: BindQuery) -> Bound:
    name = relation_name(table)
    entry = context.ctes.get(name.casefold())
    if entry is not None:
        cte, outside = entry
        outside = replace(outside, dependencies=context.dependencies)
        bound = bind_query(cte.this, outside)
        return Bound(bound.plan, _rename(bound.fields, cte))
    relation = context.catalog.readable(name, span_of(table))
    if relation.name.startswith(PREFIX):
        raise unsupported(
            f"a view of {relation.name}", span_of(table), "query it ad hoc: SELECT ... FROM " + relation.name
        )
    context.dependencies[relation.name] = None
    return bind_relation(relation, context)


def bind_relation(relation: Relation, context: Context) -> Bound:
    """The rows of a relation of the catalog."""
    if relation.kind == "view":
        return context.view(relation)
    scan = Scan(relation)
    clocks = tuple(note.column for note in relation.times if note.kind == "proctime")
    return Bound(Clocks(scan, clocks), fields_of(Clocks(scan, clocks))) if clocks else Bound(scan, fields_of(scan))


def fields_of(plan: Node) -> tuple[Field, ...]:
    """All columns of a plan, visible under their own names."""
    return tuple(
        Field(column.name, column.name, column.type, column.nullable, clock=column.name in plan.traits.clocks)
        for column in plan.schema
    )


def relation_name(table: exp.Table) -> str:
    """The name as the catalog has it: `bids`, `system.errors`."""
    return ".".join(part.name for part in table.parts)


def _alias(source: exp.Expr) -> str | None:
    alias = source.alias
    if alias:
        return str(alias)
    return source.name if isinstance(source, exp.Table) else None


def _rename(fields: tuple[Field, ...], source: exp.Expr) -> tuple[Field, ...]:
    """`t AS x (a, b)` gives the columns other names."""
    alias = source.args.get("alias")
    if not isinstance(alias, exp.TableAlias) or not alias.args.get("columns"):
        return fields
    names = alias.args["columns"]
    if len(names) != len(fields):
        message = f"{alias.name} names {len(names)} columns, there are {len(fields)}"
        raise make("TYPE_MISMATCH", message=message, hint="name all columns or none", span=span_of(alias))
    return tuple(replace(field, name=name.name) for field, name in zip(fields, names, strict=True))
