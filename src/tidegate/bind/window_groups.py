"""GROUP BY over windows. Groups that are windows close at their end; all others are groups as ever.

What a query groups by is often a window inside of a subquery: `raised` lifts it above its projections and filters.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from tidegate.bind.aggregates import is_aggregate
from tidegate.bind.context import Context
from tidegate.bind.grouping import Grouped, Windows, group
from tidegate.bind.ranking import Columns
from tidegate.bind.temporal import Where
from tidegate.ir.windows import WINDOW_KINDS
from tidegate.plan import Filter, Item, Node, Project, Scalar, Window, keep


def lift_window(plan: Node) -> Window | None:
    """The same rows with their windows on top, if only projections and filters of rows stand above the window.

    `Project(Filter(Window(rows)))` -> `Window(Project(Filter(rows)))`. Sessions stay where they are: in a grouping
    they would be others.
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
    """Edges may get other names, but nothing may be computed from them."""
    spec = window.window
    names = {edge: plan.kept.get(edge, edge) for edge in (spec.start, spec.end)}
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
    """The projection of rows, with their time among them, and its name there."""
    named = next((item.name for item in items if item.expression.column == time), None)
    if named is not None:
        return items, named
    hidden = "__window_time"
    return [*items, keep(rows, time, hidden)], hidden


@dataclass(frozen=True)
class Split:
    """The parts of WHERE: over rows alone, over windows alone, and over both."""

    rows: Where
    windows: Where
    mixed: Where
    about_windows: Where


def filtered(context: Context, window: Window, where: Where) -> Node:
    """The windows of the rows that pass WHERE: what can be asked of a row is asked before it gets its windows."""
    split = _split(window, where)
    rows = replace(window, input=split.rows.of(context.analyzer, window.input))
    return split.about_windows.of(context.analyzer, rows)


def group_rows(
    context: Context, plan: Node, where: Where, keys: Sequence[exp.Expr], trees: Sequence[exp.Expr]
) -> Grouped:
    """Aggregates the rows that pass WHERE: per window, if that is what the keys say."""
    window = plan if isinstance(plan, Window) else lift_window(plan)
    if window is not None and _groups_by_window(window, where, keys, trees):
        return _group_windows(context, window, where, keys, trees)
    if not isinstance(plan, Window):
        return group(context.analyzer, where.of(context.analyzer, plan), keys, trees)
    others = [key for key in keys if not _mentions(key, plan)]
    rows = filtered(context, _per(context, plan, others), where)
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
    rows = split.rows.of(context.analyzer, window.input)
    others = [key for key in keys if not _mentions(key, window)]
    windows = Windows(window.window, context.lateness, context.max_groups)
    grouped = group(context.analyzer, rows, others, trees, windows)
    return replace(grouped, plan=split.windows.of(context.analyzer, grouped.plan))


def _split(window: Window, where: Where) -> Split:
    parts, edges = where.parted(), _edges(window)
    return Split(
        rows=parts.only(lambda columns: not columns & edges),
        windows=parts.only(lambda columns: bool(columns) and columns <= edges),
        mixed=parts.only(lambda columns: bool(columns & edges) and not columns <= edges),
        about_windows=parts.only(lambda columns: bool(columns & edges)),
    )


def _edges(window: Window) -> frozenset[str]:
    return frozenset({window.window.start, window.window.end})


def _mentions(tree: exp.Expr, window: Window) -> bool:
    return bool(Scalar(tree).columns & _edges(window))


def _by_window(window: Window, keys: Sequence[exp.Expr]) -> bool:
    """True if each group is one window (and more): an edge that tells windows apart is a key, and no key is made of
    edges and other columns."""
    named = {key.unnest().name for key in keys if isinstance(key.unnest(), exp.Column)} & _edges(window)
    told_apart = window.window.end in named if WINDOW_KINDS[window.window.kind].shared_start else bool(named)
    used = [Scalar(key).columns for key in keys]
    return told_apart and all(not columns & _edges(window) or columns <= named for columns in used)


def _aggregates_edges(window: Window, trees: Sequence[exp.Expr]) -> bool:
    calls = (node for tree in trees for node in tree.walk(prune=is_aggregate) if is_aggregate(node))
    return any(_mentions(node, window) for node in calls)


def _per(context: Context, window: Window, others: Sequence[exp.Expr]) -> Window:
    """Sessions in a grouping are per its other keys, unless they say per what they are."""
    if window.window.kind != "session" or window.partition:
        return window
    columns = Columns(context.analyzer, window.input, "__per")
    names = tuple(columns.name(key) for key in others)
    return Window(columns.plan(), window.window, names)
