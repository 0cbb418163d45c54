"""What stands at the door of a view over the event bus: its own time, and what is wrong with events."""

from __future__ import annotations

from sqlglot import exp

from tidegate.bind.context import Bound, Context
from tidegate.plan import Door, Filter, Node, Project, Scalar, kept
from tidegate.plan.scalar import column_tree
from tidegate.sql.event_views import ROW, EventDoor
from tidegate.traits.waterline import Frontier

OF_VIEW = "'s events"
DEFAULT_GROUPS = 100_000
DEFAULT_IDLE = "10s"


def events_of(view: str) -> str:
    """The name under which the events that a view counts are known."""
    return f"{view}{OF_VIEW}"


def with_door(bound: Bound, door: EventDoor, context: Context) -> Bound:
    """The events behind the door: those without a time are not among them."""
    name = events_of(context.name)
    columns = {field.name: field.column for field in bound.fields}
    checks = tuple((columns[check.column], check.code) for check in door.checks)
    declared: tuple[tuple[str, Frontier], ...] = ()
    if door.time is not None:
        time = columns[door.time]
        kind = next(column.type for column in bound.plan.schema if column.name == time)
        declared = ((time, Frontier(kind, name, time, "watermark", None)),)
    plan: Node = Door(bound.plan, name, declared, checks, columns[ROW] if checks else None)
    if door.time is not None:
        plan = Filter(plan, Scalar(column_tree(columns[door.time]).is_(exp.null()).not_()))
    hidden = {column for column, _ in checks} | ({columns[ROW]} if checks else set())
    fields = tuple(field for field in bound.fields if field.column not in hidden)
    return Bound(Project(plan, tuple(kept(plan, field.column) for field in fields)), fields)
