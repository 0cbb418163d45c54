"""Windows: a relation with the start and end of each row's windows as two more columns, and GROUP BY over them.

Groups that are windows close at their end; all others are ordinary groups. A query often groups by a window of a
subquery, so `lift_window` moves a window above projections and filters.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from tidegate.bind.aggregates import is_aggregate
from tidegate.bind.context import Bound, Context, unique
from tidegate.bind.expressions import ComputedColumns
from tidegate.bind.grouping import Grouped, Windows, group
from tidegate.bind.scope import Field, Scope, resolve, source_text
from tidegate.bind.temporal import Where
from tidegate.errors import Error, make
from tidegate.ir.windows import WINDOW_KINDS
from tidegate.plan import Filter, Item, Node, Project, Scalar, Window, keep
from tidegate.plan.scalar import column_tree
from tidegate.sql import length, span_of
from tidegate.sql.window_edges import EDGES, END, START
from tidegate.sql.window_spellings import window_spec
from tidegate.sql.windows import WindowCall

TIMES = ("timestamp", "timestamp_ntz", "date")


def add_window(bound: Bound, scope: Scope, call: WindowCall, context: Context) -> Bound:
    """The relation with its windows. Their edges hide columns of the relation with the same names."""
    columns = ComputedColumns(context.analyzer, bound.plan, "__time")
    time = columns.name(_time(bound, scope, call))
    partition = tuple(columns.name(resolve(tree, scope)) for tree in call.partition or ())
    plan, renamed = _rename_edges(columns.plan())
    time = renamed.get(time, time)
    _check_time(plan, time, call)
    window = Window(plan, window_spec(call, time), tuple(renamed.get(name, name) for name in partition))
    edges = tuple(Field(each.name, each.name, each.type, each.nullable) for each in window.schema[-2:])
    own = tuple(field for field in bound.fields if field.name.casefold() not in EDGES)
    return Bound(window, (*(_rename(field, renamed) for field in own), *edges))


def _rename(field: Field, renamed: dict[str, str]) -> Field:
    return Field(field.name, renamed.get(field.column, field.column), field.type, field.nullable, field.span)


def _rename_edges(plan: Node) -> tuple[Node, dict[str, str]]:
    """Rename columns that are named like a window's edges: the relation, and old name -> new name."""
    taken = {name.casefold() for name in (*plan.columns, START, END)}
    renamed = {name: unique(name, taken) for name in plan.columns if name.casefold() in (START, END)}
    if not renamed:
        return plan, {}
    return Project(plan, tuple(keep(plan, name, renamed.get(name)) for name in plan.columns)), renamed


def _time(bound: Bound, scope: Scope, call: WindowCall) -> exp.Expr:
    """The time of a row: the one that the window names, or the only column that has a watermark."""
    if call.time is not None:
        _check_order(call, call.time, scope)
        return resolve(call.time, scope)
    candidates = [name for name, _ in bound.plan.traits.watermarks]
    timed = [field for field in scope.fields if field.column in candidates and field.type in TIMES]
    if len(timed) == 1:
        return column_tree(timed[0].column)
    raise _no_time(timed or [field for field in scope.fields if field.type in TIMES], bool(timed), call)


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
    text = source_text(call.time) if call.time is not None else time
    convert = {"string": f"CAST({text} AS TIMESTAMP)", "bigint": f"timestamp_millis({text})"}.get(kind)
    hint = "a window needs a TIMESTAMP, TIMESTAMP_NTZ or DATE"
    if convert is not None:
        hint += f": in a subquery, {convert} is one"
    span = span_of(call.time) if call.time is not None else call.span
    raise make("INVALID_WINDOW", message=f"{text} is {kind.upper()}, not a time", hint=hint, span=span or call.span)


def lift_window(plan: Node) -> Window | None:
    """Move a window above the projections and filters of rows over it; None if there are other nodes between.

    `Project(Filter(Window(rows)))` -> `Window(Project(Filter(rows)))`. Sessions are not moved: a filter below would
    change them.
    """
    if isinstance(plan, Window):
        return None if plan.window.kind == "session" else plan
    if not isinstance(plan, Project | Filter):
        return None
    below = lift_window(plan.input)
    if below is None:
        return None
    return _over_filter(plan, below) if isinstance(plan, Filter) else _over_projection(plan, below)


def _over_filter(plan: Filter, window: Window) -> Window | None:
    if plan.condition.columns & {window.window.start, window.window.end}:
        return None
    return replace(window, input=Filter(window.input, plan.condition))


def _over_projection(plan: Project, window: Window) -> Window | None:
    """None if the projection computes something from the edges; it may rename them."""
    spec = window.window
    names = {edge: plan.renames.get(edge, edge) for edge in (spec.start, spec.end)}
    rows = [item for item in plan.items if item.expression.column not in names]
    if len(plan.items) - len(rows) > len(names) or any(item.expression.columns & set(names) for item in rows):
        return None
    taken = {item.name.casefold() for item in rows}
    if any(name.casefold() in taken for name in names.values()):
        return None
    items, time = _with_time(window.input, rows, spec.time)
    renamed = replace(spec, time=time, start=names[spec.start], end=names[spec.end])
    return Window(Project(window.input, tuple(items)), renamed)


def _with_time(rows: Node, items: list[Item], time: str) -> tuple[list[Item], str]:
    """The items of a projection of rows, with the time of rows among them, and its name."""
    named = next((item.name for item in items if item.expression.column == time), None)
    if named is not None:
        return items, named
    hidden = "__window_time"
    return [*items, keep(rows, time, hidden)], hidden


@dataclass(frozen=True)
class Split:
    """The parts of WHERE: over rows alone, over windows alone, over both, and all those with an edge of a window."""

    rows: Where
    windows: Where
    mixed: Where
    with_edges: Where


def filter_windows(context: Context, window: Window, where: Where) -> Node:
    """The windows of the rows that pass WHERE. Conditions on rows alone are tested before windows are assigned."""
    split = _split(window, where)
    rows = replace(window, input=split.rows.apply(context.analyzer, window.input))
    return split.with_edges.apply(context.analyzer, rows)


def group_rows(
    context: Context, plan: Node, where: Where, keys: Sequence[exp.Expr], trees: Sequence[exp.Expr]
) -> Grouped:
    """Aggregate the rows that pass WHERE: per window if each group is one window."""
    window = plan if isinstance(plan, Window) else lift_window(plan)
    if window is not None and _groups_by_window(window, where, keys, trees):
        return _group_windows(context, window, where, keys, trees)
    if not isinstance(plan, Window):
        return group(context.analyzer, where.apply(context.analyzer, plan), keys, trees)
    others = [key for key in keys if not _reads_edges(key, plan)]
    rows = filter_windows(context, _partition_sessions(context, plan, others), where)
    return group(context.analyzer, rows, keys, trees)


def _groups_by_window(window: Window, where: Where, keys: Sequence[exp.Expr], trees: Sequence[exp.Expr]) -> bool:
    """True if each group is one window, and nothing in it is computed from the window's edges."""
    if _split(window, where).mixed or not _by_window(window, keys) or _aggregates_edges(window, trees):
        return False
    others = {key.unnest().name if isinstance(key.unnest(), exp.Column) else "" for key in keys}
    return not window.partition or others - _edges(window) == set(window.partition)


def _group_windows(
    context: Context, window: Window, where: Where, keys: Sequence[exp.Expr], trees: Sequence[exp.Expr]
) -> Grouped:
    split = _split(window, where)
    rows = split.rows.apply(context.analyzer, window.input)
    others = [key for key in keys if not _reads_edges(key, window)]
    windows = Windows(window.window, context.lateness, context.max_groups)
    grouped = group(context.analyzer, rows, others, trees, windows)
    return replace(grouped, plan=split.windows.apply(context.analyzer, grouped.plan))


def _split(window: Window, where: Where) -> Split:
    parts, edges = where.split(), _edges(window)
    return Split(
        rows=parts.only(lambda columns: not columns & edges),
        windows=parts.only(lambda columns: bool(columns) and columns <= edges),
        mixed=parts.only(lambda columns: bool(columns & edges) and not columns <= edges),
        with_edges=parts.only(lambda columns: bool(columns & edges)),
    )


def _edges(window: Window) -> frozenset[str]:
    return frozenset({window.window.start, window.window.end})


def _reads_edges(tree: exp.Expr, window: Window) -> bool:
    return bool(Scalar(tree).columns & _edges(window))


def _by_window(window: Window, keys: Sequence[exp.Expr]) -> bool:
    """True if all rows of a group are in one window: an edge that identifies windows is a key, and no key is computed
    from edges and other columns."""
    named = {key.unnest().name for key in keys if isinstance(key.unnest(), exp.Column)} & _edges(window)
    identified = window.window.end in named if WINDOW_KINDS[window.window.kind].shared_start else bool(named)
    used = [Scalar(key).columns for key in keys]
    return identified and all(not columns & _edges(window) or columns <= named for columns in used)


def _aggregates_edges(window: Window, trees: Sequence[exp.Expr]) -> bool:
    calls = (node for tree in trees for node in tree.walk(prune=is_aggregate) if is_aggregate(node))
    return any(_reads_edges(node, window) for node in calls)


def _partition_sessions(context: Context, window: Window, keys: Sequence[exp.Expr]) -> Window:
    """Partition sessions by the other keys of their grouping, unless they have PARTITION BY."""
    if window.window.kind != "session" or window.partition:
        return window
    columns = ComputedColumns(context.analyzer, window.input, "__per")
    names = tuple(columns.name(key) for key in keys)
    return Window(columns.plan(), window.window, names)
