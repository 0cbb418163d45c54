"""Windows -> plan: a relation with the start and end of each row's windows as two more columns."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from tidegate.bind.context import Bound, Context, unique
from tidegate.bind.ranking import Columns
from tidegate.bind.scope import Field, Scope, resolve, written
from tidegate.errors import Error, make
from tidegate.plan import Node, Project, Window, keep
from tidegate.plan.scalar import column_tree
from tidegate.sql import length, span_of
from tidegate.sql.window_edges import EDGES, END, START
from tidegate.sql.window_spellings import window_spec
from tidegate.sql.windows import WindowCall

TIMES = ("timestamp", "timestamp_ntz", "date")


def add_window(bound: Bound, scope: Scope, call: WindowCall, context: Context) -> Bound:
    """The relation with its windows. Columns of its own that are called like theirs can no longer be seen."""
    columns = Columns(context.analyzer, bound.plan, "__time")
    time = columns.name(_time(bound, scope, call))
    partition = tuple(columns.name(resolve(tree, scope)) for tree in call.partition or ())
    plan, renamed = _without_edges(columns.plan())
    time = renamed.get(time, time)
    _check_time(plan, time, call)
    window = Window(plan, window_spec(call, time), tuple(renamed.get(name, name) for name in partition))
    edges = tuple(Field(each.name, each.name, each.type, each.nullable) for each in window.schema[-2:])
    own = tuple(field for field in bound.fields if field.name.casefold() not in EDGES)
    return Bound(window, (*(_rename(field, renamed) for field in own), *edges))


def _rename(field: Field, renamed: dict[str, str]) -> Field:
    return Field(field.name, renamed.get(field.column, field.column), field.type, field.nullable, field.span)


def _without_edges(plan: Node) -> tuple[Node, dict[str, str]]:
    """The relation with other names for columns that are called like a window's: old name -> new name."""
    taken = {name.casefold() for name in (*plan.columns, START, END)}
    renamed = {name: unique(name, taken) for name in plan.columns if name.casefold() in (START, END)}
    if not renamed:
        return plan, {}
    return Project(plan, tuple(keep(plan, name, renamed.get(name)) for name in plan.columns)), renamed


def _time(bound: Bound, scope: Scope, call: WindowCall) -> exp.Expr:
    """The time of a row: what was said, or the only column that has a watermark."""
    if call.time is not None:
        _check_order(call, call.time, scope)
        return resolve(call.time, scope)
    candidates = [name for name, _ in bound.plan.traits.watermarks]
    found = [field for field in scope.fields if field.column in candidates and field.type in TIMES]
    if len(found) == 1:
        return column_tree(found[0].column)
    raise _no_time(found or [field for field in scope.fields if field.type in TIMES], bool(found), call)


def _check_order(call: WindowCall, time: exp.Expr, scope: Scope) -> None:
    if length(time) is not None and not (isinstance(time, exp.Column) and scope.find(time.name)):
        message = f"{call.name} needs a time column before its size, and has a duration there"
        raise make("WINDOW_ARGUMENTS", message=message, hint=f"write {call.usage}", span=span_of(time) or call.span)


def _no_time(candidates: Sequence[Field], several: bool, call: WindowCall) -> Error:
    names = ", ".join(field.name for field in candidates)
    message = f"{call.name} does not say by which time"
    if not candidates:
        return make("INVALID_WINDOW", message=message, hint="a window needs a TIMESTAMP column", span=call.span)
    detail = f"columns with a watermark are {names}" if several else f"no column has a watermark; times are {names}"
    hint = f"write EVENT TIME BY {candidates[0].name}"
    if not several:
        hint += f", or declare WATERMARK FOR {candidates[0].name}"
    return make("INVALID_WINDOW", message=message, detail=detail, hint=hint, span=call.span)


def _check_time(plan: Node, time: str, call: WindowCall) -> None:
    kind = next(each.type for each in plan.schema if each.name == time)
    if kind in TIMES:
        return
    shown = written(call.time) if call.time is not None else time
    convert = {"string": f"CAST({shown} AS TIMESTAMP)", "bigint": f"timestamp_millis({shown})"}.get(kind)
    hint = "a window needs a TIMESTAMP, TIMESTAMP_NTZ or DATE"
    if convert is not None:
        hint += f": in a subquery, {convert} is one"
    span = span_of(call.time) if call.time is not None else call.span
    raise make("INVALID_WINDOW", message=f"{shown} is {kind.upper()}, not a time", hint=hint, span=span or call.span)
