"""GROUP BY over windows. Groups that are windows close at their end; all others are groups as ever."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from tidegate.bind.aggregates import is_aggregate
from tidegate.bind.context import Context
from tidegate.bind.grouping import Grouped, Windows, group
from tidegate.bind.ranking import Columns
from tidegate.plan import Filter, Node, Scalar, Window, conjunction, conjuncts


@dataclass(frozen=True)
class Split:
    """The parts of WHERE: over rows alone, over windows alone, and over both."""

    rows: tuple[Scalar, ...]
    windows: tuple[Scalar, ...]
    mixed: tuple[Scalar, ...]


def filtered(window: Window, where: exp.Expr | None) -> Node:
    """The windows of the rows that pass WHERE: what can be asked of a row is asked before it gets its windows."""
    split = _split(window, where)
    return _kept(_over(window, split.rows), (*split.windows, *split.mixed))


def group_windows(
    context: Context, window: Window, where: exp.Expr | None, keys: Sequence[exp.Expr], trees: Sequence[exp.Expr]
) -> Grouped:
    """Aggregates the windows of the rows that pass WHERE."""
    split = _split(window, where)
    plan = _over(window, split.rows)
    others = [key for key in keys if not _mentions(key, window)]
    if split.mixed or not _by_window(window, keys) or _aggregates_edges(window, trees) or _per_others(window, others):
        rows = _kept(_per(context, plan, others), (*split.windows, *split.mixed))
        return group(context.analyzer, rows, keys, trees)
    grouped = group(
        context.analyzer, plan.input, others, trees, Windows(plan.window, context.lateness, context.max_groups)
    )
    return replace(grouped, plan=_kept(grouped.plan, split.windows))


def _over(window: Window, rows: tuple[Scalar, ...]) -> Window:
    return replace(window, input=_kept(window.input, rows))


def _kept(plan: Node, parts: tuple[Scalar, ...]) -> Node:
    return Filter(plan, conjunction(parts)) if parts else plan


def _split(window: Window, where: exp.Expr | None) -> Split:
    parts = () if where is None else conjuncts(Scalar(where))
    edges = _edges(window)
    return Split(
        tuple(part for part in parts if not part.columns & edges),
        tuple(part for part in parts if part.columns and part.columns <= edges),
        tuple(part for part in parts if part.columns & edges and not part.columns <= edges),
    )


def _edges(window: Window) -> frozenset[str]:
    return frozenset({window.window.start, window.window.end})


def _mentions(tree: exp.Expr, window: Window) -> bool:
    return bool(Scalar(tree).columns & _edges(window))


def _by_window(window: Window, keys: Sequence[exp.Expr]) -> bool:
    """Whether each group is one window (and more): an edge that tells windows apart is a key, and no key is made of
    edges and other columns."""
    named = {key.unnest().name for key in keys if isinstance(key.unnest(), exp.Column)} & _edges(window)
    told_apart = window.window.end in named if window.window.kind == "cumulate" else bool(named)
    used = [Scalar(key).columns for key in keys]
    return told_apart and all(not columns & _edges(window) or columns <= named for columns in used)


def _aggregates_edges(window: Window, trees: Sequence[exp.Expr]) -> bool:
    calls = (node for tree in trees for node in tree.walk(prune=is_aggregate) if is_aggregate(node))
    return any(_mentions(node, window) for node in calls)


def _per_others(window: Window, others: Sequence[exp.Expr]) -> bool:
    """Whether sessions are said to be per other columns than those of GROUP BY."""
    named = {key.unnest().name if isinstance(key.unnest(), exp.Column) else "" for key in others}
    return bool(window.partition) and named != set(window.partition)


def _per(context: Context, window: Window, others: Sequence[exp.Expr]) -> Window:
    """Sessions in a grouping are per its other keys, unless they say per what they are."""
    if window.window.kind != "session" or window.partition:
        return window
    columns = Columns(context.analyzer, window.input, "__per")
    names = tuple(columns.name(key) for key in others)
    return Window(columns.plan(), window.window, names)
