"""Windows that stand inside of a subquery: what a query groups by is often a window of the relation it reads."""

from __future__ import annotations

from dataclasses import replace

from tidegate.plan import Filter, Item, Node, Project, Window, kept


def raised(plan: Node) -> Window | None:
    """The same rows with their windows on top, if only projections and filters of rows stand above the window.

    `Project(Filter(Window(rows)))` -> `Window(Project(Filter(rows)))`. Sessions stay where they are: in a grouping
    they would be others.
    """
    if isinstance(plan, Window):
        return None if plan.window.kind == "session" else plan
    if not isinstance(plan, Project | Filter):
        return None
    below = raised(plan.input)
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
    return [*items, kept(rows, time, hidden)], hidden
