"""Checks of the events that a view reads: its event time must be a time, aggregated paths must be numbers.

Each check is a column of the subquery that stands in place of the bus, NULL for an event that passes. The plan node
above it reports the events that fail, and drops those without an event time.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from tidegate.bind.context import Bound, Context
from tidegate.bind.events.values import PATH, aggregated_paths, is_path, number
from tidegate.catalog.bus import EVENTS, events_of
from tidegate.plan import Filter, IngressCheck, Node, Project, Scalar, keep
from tidegate.plan.scalar import column_tree
from tidegate.sql.clauses import clauses
from tidegate.traits.watermark import DeclaredWatermark

EVENT_TIME = "__event_time"
META = "event_checks"
ROW = "__event"
_RFC_3339 = "^[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt ][0-9]{2}:[0-9]{2}:[0-9]{2}([.][0-9]+)?([Zz]|[+-][0-9]{2}:[0-9]{2})$"


@dataclass(frozen=True)
class Check:
    """A column with the error message of an event (NULL: it passes), and the code of that error."""

    column: str
    code: str


@dataclass(frozen=True)
class EventChecks:
    """The checks of a view over the bus. `time` is its event time column, None if that is the bus's own."""

    time: str | None
    checks: tuple[Check, ...]


def event_checks(query: exp.Expr) -> EventChecks | None:
    """The checks of a subquery over the bus."""
    checks = query.meta.get(META)
    return checks if isinstance(checks, EventChecks) else None


def with_checks(bound: Bound, checked: EventChecks, context: Context) -> Bound:
    """The events that have an event time, below a node that reports those that fail a check."""
    name = events_of(context.name)
    columns = {field.name: field.column for field in bound.fields}
    checks = tuple((columns[check.column], check.code) for check in checked.checks)
    declared: tuple[tuple[str, DeclaredWatermark], ...] = ()
    if checked.time is not None:
        time = columns[checked.time]
        kind = next(column.type for column in bound.plan.schema if column.name == time)
        declared = ((time, DeclaredWatermark(kind, name, time, "watermark", None)),)
    plan: Node = IngressCheck(bound.plan, name, declared, checks, columns[ROW] if checks else None)
    if checked.time is not None:
        plan = Filter(plan, Scalar(column_tree(columns[checked.time]).is_(exp.null()).not_()))
    hidden = {column for column, _ in checks} | ({columns[ROW]} if checks else set())
    fields = tuple(field for field in bound.fields if field.column not in hidden)
    return Bound(Project(plan, tuple(keep(plan, field.column) for field in fields)), fields)


def strip_qualifiers(tree: exp.Expr) -> exp.Expr:
    """A copy whose columns have no qualifier."""
    tree = tree.copy()
    for column in list(tree.find_all(exp.Column)):
        if column.find_ancestor(exp.Select) is None and column.args.get("table"):
            column.set("table", None)
    return tree


def add_checks(select: exp.Select, inner: exp.Select) -> None:
    """Add the check columns of a SELECT over the bus to the subquery that it reads."""
    own = clauses(select)
    checks: list[Check] = []
    if own.event_time is not None:
        text = strip_qualifiers(own.event_time)
        time = _time(text)
        inner.append("expressions", exp.alias_(time, EVENT_TIME, quoted=True))
        label = own.event_time.meta.get(PATH) or own.event_time.sql(dialect="spark")
        checks.append(_add_check(inner, len(checks), time, f"{label} is no time: ", text, "BAD_TIME", missing=True))
    seen: set[str] = set()
    for path in aggregated_paths(select):
        plain = strip_qualifiers(path)
        if plain.sql() not in seen:
            seen.add(plain.sql())
            label = f"{path.meta[PATH]} is no number: "
            checks.append(_add_check(inner, len(checks), number(plain), label, plain, "TYPE_MISMATCH", missing=False))
    if checks:
        inner.append("expressions", _row(inner, checks))
    inner.meta[META] = EventChecks(EVENT_TIME if own.event_time is not None else None, tuple(checks))


def _time(text: exp.Expr) -> exp.Expr:
    """The TIMESTAMP of RFC 3339 text, whose `t` and `z` may be small; NULL for other text. What is not a path is a
    TIMESTAMP already."""
    if not is_path(text):
        return text.copy()
    fits = exp.Anonymous(
        this="regexp_extract", expressions=[text.copy(), exp.Literal.string(_RFC_3339), exp.Literal.number(0)]
    )
    capitals = exp.Anonymous(this="upper", expressions=[fits])
    return exp.TryCast(this=capitals, to=exp.DataType.build("timestamp"))


def _add_check(
    inner: exp.Select, number: int, value: exp.Expr, label: str, text: exp.Expr, code: str, missing: bool
) -> Check:
    """Add a column with an error message, NULL for a valid value. `missing`: NULL is invalid too."""
    name = f"__wrong{number}"
    excerpt = exp.Anonymous(
        this="coalesce",
        expressions=[
            exp.Anonymous(
                this="left",
                expressions=[exp.Cast(this=text.copy(), to=exp.DataType.build("string")), exp.Literal.number(80)],
            ),
            exp.Literal.string("NULL"),
        ],
    )
    message = exp.Anonymous(this="concat", expressions=[exp.Literal.string(label), excerpt])
    fails: exp.Expr = value.copy().is_(exp.null())
    if not missing:
        fails = exp.and_(text.copy().is_(exp.null()).not_(), fails)
    case = exp.Case(ifs=[exp.If(this=fails, true=message)])
    inner.append("expressions", exp.alias_(case, name, quoted=True))
    return Check(name, code)


def _row(inner: exp.Select, checks: list[Check]) -> exp.Expr:
    """The event as JSON if it fails a check, else NULL."""
    wrong = {alias.alias: alias.this for alias in inner.expressions if isinstance(alias, exp.Alias)}
    either = exp.or_(*(wrong[check.column].args["ifs"][0].this.copy() for check in checks), wrap=False)
    fields: list[exp.Expr] = []
    for column in EVENTS.columns:
        fields += [exp.Literal.string(column.name), exp.column(column.name)]
    struct = exp.Anonymous(this="named_struct", expressions=fields)
    text = exp.Anonymous(this="to_json", expressions=[struct])
    return exp.alias_(exp.Case(ifs=[exp.If(this=either, true=text)]), ROW, quoted=True)
