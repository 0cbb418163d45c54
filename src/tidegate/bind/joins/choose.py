"""Which join it is: a lookup, an interval join, or an incremental join.

| join | when |
|---|---|
| lookup | an append-only stream of sources meets a table by its whole key (INNER, LEFT), or FOR SYSTEM_TIME says so |
| interval | both sides have a time with a watermark (or PROCTIME()), and ON bounds their distance on both sides |
| incremental | everything else |
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from sqlglot import exp

from tidegate.bind.context import Context, unique
from tidegate.bind.joins.bounds import Interval, interval_of
from tidegate.bind.joins.conditions import Compared, Conditions, taken_apart
from tidegate.bind.joins.hint import Hint, ignored
from tidegate.bind.joins.sides import Side, by_pairs, comparison, held, key_pair
from tidegate.bind.scope import written
from tidegate.bind.unsupported import cast, unsupported
from tidegate.catalog import Relation
from tidegate.errors import Span, make, warning
from tidegate.ir.joins import ANTI, FULL, INNER, LEFT, RIGHT, SEMI, Comparison, EarlyFire
from tidegate.plan import Filter, IntervalJoin, Join, Lookup, Node, Scalar, Scan, View, conjunction
from tidegate.plan.scalar import column_tree
from tidegate.sql import span_of

MARK = "__m"
TIMES = ("timestamp", "timestamp_ntz", "date")
FILTERS_LEFT, FILTERS_RIGHT = (INNER, RIGHT, SEMI), (INNER, LEFT, SEMI, ANTI)
"""The kinds for which a condition on one side only takes rows of that side away."""


@dataclass(frozen=True)
class JoinRequest:
    """One join as written: its kind, what ON says, the tables of both sides (None: it is no plain table), whether the
    right is looked up as of now, EARLY_FIRE if it is for this join, and the place."""

    kind: str
    on: tuple[exp.Expr, ...]
    tables: tuple[Relation | None, Relation | None] = (None, None)
    as_of_now: bool = False
    hint: Hint | None = None
    span: Span | None = None


def joined(wanted: JoinRequest, left: Side, right: Side, taken: set[str], context: Context) -> Node:
    """The plan of a join."""
    found = taken_apart(wanted.on, frozenset(left.columns), frozenset(right.columns))
    return (
        _looked_up(wanted, found, left, right, context)
        or _timed(wanted, found, left, right, taken, context)
        or _incremental(wanted, found, left, right, taken, context)
    )


def _looked_up(wanted: JoinRequest, found: Conditions, left: Side, right: Side, context: Context) -> Node | None:
    """A lookup, also where the table stands on the left."""
    node = _lookup(wanted, found, left, right)
    if node is None and wanted.tables[0] is not None and wanted.kind in (INNER, RIGHT):
        kind = INNER if wanted.kind == INNER else LEFT
        swapped = replace(wanted, kind=kind, tables=(wanted.tables[1], wanted.tables[0]))
        mirrored = taken_apart(wanted.on, frozenset(right.columns), frozenset(left.columns))
        node = _lookup(swapped, mirrored, right, left)
    if node is not None and wanted.hint is not None:
        ignored(wanted.hint, context, "a row that is looked up does not wait")
    return node


def _lookup(wanted: JoinRequest, found: Conditions, left: Side, right: Side) -> Node | None:
    key = right.plan.traits.key
    if wanted.as_of_now:
        _check_lookup(wanted, found, left, right)
    elif wanted.kind not in (INNER, LEFT) or wanted.tables[1] is None or not from_sources(left.plan):
        return None
    covering = _covering(found, key or ())
    if not key or len(covering) < len(key) or not left.plan.traits.append_only:
        return None
    found.compare_bounds()
    if found.mixed and wanted.kind != INNER:
        raise _inseparable(found, wanted)
    keys = tuple(key_pair(left, right, each) for each in covering)
    rest = _conditions(wanted.kind, found, left, right, covering)
    node = Lookup(wanted.kind, left.plan, right.plan, keys, rest, _taken(wanted.kind, left, right))
    return _filtered(node, found)


def _check_lookup(wanted: JoinRequest, found: Conditions, left: Side, right: Side) -> None:
    key = right.plan.traits.key
    if wanted.kind not in (INNER, LEFT):
        hint = "write JOIN or LEFT JOIN, with the stream on the left"
        raise unsupported(f"FOR SYSTEM_TIME AS OF in a {wanted.kind.upper()} JOIN", wanted.span, hint)
    if not left.plan.traits.append_only:
        hint = "leave FOR SYSTEM_TIME out: the join is then kept up to date on both sides"
        detail = "a retraction needs the row that was looked up, which is not stored"
        raise unsupported("FOR SYSTEM_TIME AS OF for rows that can be retracted", wanted.span, hint, detail)
    if not key or len(_covering(found, key)) < len(key):
        named = f"its key, {', '.join(key)}" if key else "a key, and it has none"
        hint = f"join by all of ({', '.join(key)})" if key else "give the table a PRIMARY KEY"
        message = f"FOR SYSTEM_TIME AS OF looks rows up by {named}"
        raise make("NOT_SUPPORTED", message=message, hint=hint, span=wanted.span)


def _covering(found: Conditions, key: tuple[str, ...]) -> list[Compared]:
    """An equality for each column of a key."""
    by_column = {
        each.right.name: each for each in reversed(found.equalities) if isinstance(each.right.unnest(), exp.Column)
    }
    return [by_column[name] for name in key if name in by_column]


def from_sources(plan: Node) -> bool:
    """True if all rows come from sources; what is looked up for them adds none."""
    scans = list(_scans(plan))
    return bool(scans) and all(scan.relation.kind == "source" for scan in scans)


def _scans(plan: Node) -> list[Scan]:
    if isinstance(plan, Lookup):
        return _scans(plan.left)
    if isinstance(plan, View):
        return _scans(plan.plan)
    return [plan] if isinstance(plan, Scan) else [scan for below in plan.inputs for scan in _scans(below)]


def _timed(
    wanted: JoinRequest, found: Conditions, left: Side, right: Side, taken: set[str], context: Context
) -> Node | None:
    lines = dict((*left.plan.traits.watermarks, *right.plan.traits.watermarks))
    clocks = dict.fromkeys((*left.plan.traits.clocks, *right.plan.traits.clocks))
    bounds = [bound for bound, _, _ in found.bounds]
    by_clock = interval_of(bounds, clocks)
    interval = by_clock or interval_of(bounds, lines)
    if interval is None:
        return None
    found.bounds = [
        (bound, compared, tree)
        for bound, compared, tree in found.bounds
        if (bound.left, bound.right) != (interval.left, interval.right) or not bound.exact
    ]
    found.compare_bounds()
    if found.mixed and wanted.kind != INNER:
        raise _inseparable(found, wanted)
    keys = tuple(key_pair(left, right, each) for each in found.equalities)
    rest = _conditions(wanted.kind, found, left, right, found.equalities)
    micros = (_micros(left, interval.left), _micros(right, interval.right))
    early = _early(wanted, interval, by_clock is not None, context)
    node = IntervalJoin(
        kind=wanted.kind,
        left=left.plan,
        right=right.plan,
        keys=keys,
        conditions=rest,
        taken=_taken(wanted.kind, left, right),
        times=(interval.left, interval.right),
        micros=micros,
        lower=interval.lower,
        upper=interval.upper,
        proctime=by_clock is not None,
        early=early,
        mark=unique(MARK, taken) if early is not None else None,
    )
    return _filtered(node, found)


def _early(wanted: JoinRequest, interval: Interval, proctime: bool, context: Context) -> EarlyFire | None:
    if wanted.hint is None:
        return None
    early = wanted.hint.fire(proctime)
    if wanted.kind not in (LEFT, RIGHT, FULL):
        ignored(wanted.hint, context, f"a join that is {wanted.kind.upper()} pads no rows, so none can leave early")
        return None
    if interval.lower > interval.upper:
        ignored(wanted.hint, context, "the interval is empty, so rows do not wait")
        return None
    return early


def _micros(side: Side, column: str) -> str:
    moment = cast(column_tree(column), "timestamp")
    return side.column(exp.Anonymous(this="unix_micros", expressions=[moment]), "bigint")


def _incremental(
    wanted: JoinRequest, found: Conditions, left: Side, right: Side, taken: set[str], context: Context
) -> Node:
    if wanted.hint is not None:
        reason = "the join has no time bounds on both sides, so its rows do not wait"
        ignored(wanted.hint, context, reason)
    why = _why(wanted, found, left.plan, right.plan)
    found.compare_bounds()
    one_row = () in (left.plan.traits.key, right.plan.traits.key)
    if not found.equalities and not one_row:
        hint = "add an equality between the two: ON a.id = b.id"
        detail = "every row of one side would be compared with every row of the other"
        raise unsupported("a join without an equality", wanted.span, hint, detail)
    _warn(wanted, left.plan, right.plan, context)
    if found.mixed and wanted.kind != INNER:
        return by_pairs(wanted.kind, found, left, right, taken)
    keys = tuple(key_pair(left, right, each) for each in found.equalities)
    rest = _conditions(wanted.kind, found, left, right, found.equalities)
    node = Join(wanted.kind, left.plan, right.plan, keys, rest, _taken(wanted.kind, left, right), why)
    return _filtered(node, found)


def _why(wanted: JoinRequest, found: Conditions, left: Node, right: Node) -> str:
    """Why it is no interval join or lookup, where it might have been one: what would make it one."""
    types = {column.name: column.type for side in (left, right) for column in side.schema}
    lines = dict((*left.traits.watermarks, *right.traits.watermarks))
    times = [bound for bound, _, _ in found.bounds if types[bound.left] in TIMES and types[bound.right] in TIMES]
    for name in dict.fromkeys(name for bound in times for name in (bound.left, bound.right)):
        if name not in lines:
            return f"incremental: {name} has no watermark"
    if times:
        return "incremental: the time between both sides is bounded on one side only"
    if _both_streams(left, right):
        return "incremental: no time bounds, so every row is kept"
    table = wanted.tables[1]
    if table is not None and table.primary_key and from_sources(left) and wanted.kind in (INNER, LEFT):
        return f"incremental: not by the whole key of {table.name}, ({', '.join(table.primary_key)})"
    return "incremental"


def _both_streams(left: Node, right: Node) -> bool:
    return all(from_sources(side) and side.traits.append_only for side in (left, right))


def _warn(wanted: JoinRequest, left: Node, right: Node, context: Context) -> None:
    """A stream keeps coming: a join of two without time bounds keeps all of both."""
    if not _both_streams(left, right):
        return
    lines = (left.traits.watermarks, right.traits.watermarks)
    if all(lines):
        one, other = (names[0][0] for names in lines)
        fix = f"bound the time between them in ON: AND {one} BETWEEN {other} - INTERVAL '1' HOUR AND {other}"
    else:
        fix = "declare WATERMARK FOR a time column of both, and bound the time between them in ON"
    context.warnings.append(warning("UNBOUNDED_STATE", what="this join of two streams", hint=fix, span=wanted.span))


def _conditions(kind: str, found: Conditions, left: Side, right: Side, keys: list[Compared]) -> tuple[Comparison, ...]:
    """What else must hold for two rows to meet; what concerns one side only takes its rows away where it can."""
    kept = [] if kind in FILTERS_LEFT else [held(left, right, tree, True) for tree in found.left]
    kept += [] if kind in FILTERS_RIGHT else [held(left, right, tree, False) for tree in found.right]
    kept += [comparison(left, right, each) for each in found.compared if each not in keys]
    left.filter(found.left if kind in FILTERS_LEFT else ())
    right.filter(found.right if kind in FILTERS_RIGHT else ())
    return tuple(kept)


def _taken(kind: str, left: Side, right: Side) -> tuple[str, ...]:
    return left.columns if kind in (SEMI, ANTI) else (*left.columns, *right.columns)


def _filtered(node: Node, found: Conditions) -> Node:
    return Filter(node, conjunction(tuple(Scalar(tree) for tree in found.mixed))) if found.mixed else node


def _inseparable(found: Conditions, wanted: JoinRequest) -> Exception:
    tree = found.mixed[0]
    hint = "compare an expression of one side with an expression of the other: a.x < b.y - 1"
    return unsupported(f"{written(tree)} in ON of a {wanted.kind.upper()} join", span_of(tree) or wanted.span, hint)
