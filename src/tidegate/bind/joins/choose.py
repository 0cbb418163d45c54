"""Chooses between a lookup, an interval join and an incremental join.

| join | when |
|---|---|
| lookup | append-only rows of sources join a table by its whole key (INNER, LEFT), or FOR SYSTEM_TIME asks for it |
| interval | both sides have a time with a watermark (or PROCTIME()), and ON bounds their distance on both sides |
| incremental | everything else |
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from sqlglot import exp

from tidegate.bind.context import Context, unique
from tidegate.bind.joins.conditions import Compared, Conditions, Interval, interval_of, split_condition
from tidegate.bind.joins.hint import Hint, warn_ignored
from tidegate.bind.joins.sides import Side, by_pairs, filter_pairs, join_conditions, key_pair, output_columns
from tidegate.bind.scope import source_text
from tidegate.bind.unsupported import cast, unsupported
from tidegate.catalog import Relation
from tidegate.errors import Span, make, warning
from tidegate.ir.joins import FULL, INNER, LEFT, RIGHT, Comparison, EarlyFire, KeyPair
from tidegate.plan import (
    IntervalJoin,
    Item,
    Join,
    Lookup,
    Node,
    Project,
    Scalar,
    Scan,
    View,
    Window,
    WindowAggregate,
    conjunction,
    keep,
    walk,
)
from tidegate.plan.scalar import column_tree
from tidegate.plan.unbounded import bound_of
from tidegate.sql import span_of

MARK = "__m"
TIMES = ("timestamp", "timestamp_ntz", "date")


@dataclass(frozen=True)
class JoinRequest:
    """One join as written: its kind, the conditions of ON, the tables of both sides (None: not a plain table), whether
    the right is looked up as of now, EARLY_FIRE if it is for this join, and the span."""

    kind: str
    on: tuple[exp.Expr, ...]
    tables: tuple[Relation | None, Relation | None] = (None, None)
    as_of_now: bool = False
    hint: Hint | None = None
    span: Span | None = None


def choose_join(request: JoinRequest, left: Side, right: Side, taken: set[str], context: Context) -> Node:
    """The plan of a join. `taken` are the column names in use."""
    on = split_condition(request.on, frozenset(left.columns), frozenset(right.columns))
    return (
        _try_lookup(request, on, left, right, taken, context)
        or _try_interval(request, on, left, right, taken, context)
        or _incremental(request, on, left, right, taken, context)
    )


def _try_lookup(
    request: JoinRequest, on: Conditions, left: Side, right: Side, taken: set[str], context: Context
) -> Node | None:
    """A lookup, also if the table is the left side; None if it cannot be one."""
    node = _lookup(request, on, left, right, taken)
    if node is None and request.tables[0] is not None and request.kind in (INNER, RIGHT):
        kind = INNER if request.kind == INNER else LEFT
        swapped = replace(request, kind=kind, tables=(request.tables[1], request.tables[0]))
        mirrored = split_condition(request.on, frozenset(right.columns), frozenset(left.columns))
        node = _lookup(swapped, mirrored, right, left, taken)
    if node is not None and request.hint is not None:
        warn_ignored(request.hint, context, "a row that is looked up does not wait")
    return node


def _lookup(request: JoinRequest, on: Conditions, left: Side, right: Side, taken: set[str]) -> Node | None:
    key = right.plan.traits.key
    if request.as_of_now:
        _check_lookup(request, on, left, right)
    elif request.kind not in (INNER, LEFT) or request.tables[1] is None or not from_sources(left.plan):
        return None
    covering = _covering(on, key or ())
    if not key or len(covering) < len(key) or not left.plan.traits.append_only:
        return None
    on.compare_bounds()
    keys = tuple(key_pair(left, right, each) for each in covering)
    rest = join_conditions(request.kind, on, left, right, covering)
    if request.kind == INNER or not on.mixed:
        outputs = output_columns(request.kind, left, right)
        return filter_pairs(Lookup(request.kind, left.plan, right.plan, keys, rest, outputs), on)
    return _padded_lookup(on.mixed, keys, rest, left, right, taken)


def _padded_lookup(
    conditions: list[exp.Expr],
    keys: tuple[KeyPair, ...],
    rest: tuple[Comparison, ...],
    left: Side,
    right: Side,
    taken: set[str],
) -> Node:
    """A LEFT lookup with NULL in the columns of the right unless the conditions hold. A row finds one row at most, so
    the pair that fails them is the only one it had."""
    found, holds = right.column(exp.true(), "boolean"), unique("__on", taken)
    node: Node = Lookup(LEFT, left.plan, right.plan, keys, rest, (*left.columns, *right.columns, found))
    kept = tuple(keep(node, name) for name in (*left.columns, *right.columns))
    test = conjunction(tuple(Scalar(tree) for tree in (column_tree(found), *conditions)))
    node = Project(node, (*kept, Item(holds, test, "boolean", True)))
    types = {column.name: column.type for column in node.schema}
    padded = tuple(Item(name, _case(holds, name), types[name], True) for name in right.columns)
    return Project(node, (*(keep(node, name) for name in left.columns), *padded))


def _case(condition: str, column: str) -> Scalar:
    return Scalar(exp.Case(ifs=[exp.If(this=column_tree(condition), true=column_tree(column))]))


def _check_lookup(request: JoinRequest, on: Conditions, left: Side, right: Side) -> None:
    key = right.plan.traits.key
    if request.kind not in (INNER, LEFT):
        hint = "write JOIN or LEFT JOIN, with the stream on the left"
        raise unsupported(f"FOR SYSTEM_TIME AS OF in a {request.kind.upper()} JOIN", request.span, hint)
    if not left.plan.traits.append_only:
        hint = "leave FOR SYSTEM_TIME out: the join is then kept up to date on both sides"
        detail = "a retraction needs the row that was looked up, which is not stored"
        raise unsupported("FOR SYSTEM_TIME AS OF for rows that can be retracted", request.span, hint, detail)
    if not key or len(_covering(on, key)) < len(key):
        named = f"its key, {', '.join(key)}" if key else "a key, and it has none"
        hint = f"join by all of ({', '.join(key)})" if key else "give the table a PRIMARY KEY"
        message = f"FOR SYSTEM_TIME AS OF looks rows up by {named}"
        raise make("NOT_SUPPORTED", message=message, hint=hint, span=request.span)


def _covering(on: Conditions, key: tuple[str, ...]) -> list[Compared]:
    """An equality for each column of a key."""
    by_column = {
        each.right.name: each for each in reversed(on.equalities) if isinstance(each.right.unnest(), exp.Column)
    }
    return [by_column[name] for name in key if name in by_column]


def from_sources(plan: Node) -> bool:
    """True if all rows come from sources; a lookup adds none."""
    scans = list(_scans(plan))
    return bool(scans) and all(scan.relation.kind == "source" for scan in scans)


def _scans(plan: Node) -> list[Scan]:
    if isinstance(plan, Lookup):
        return _scans(plan.left)
    if isinstance(plan, View):
        return _scans(plan.plan)
    return [plan] if isinstance(plan, Scan) else [scan for below in plan.inputs for scan in _scans(below)]


def _try_interval(
    request: JoinRequest, on: Conditions, left: Side, right: Side, taken: set[str], context: Context
) -> Node | None:
    watermarks = dict((*left.plan.traits.watermarks, *right.plan.traits.watermarks))
    clocks = dict.fromkeys((*left.plan.traits.clocks, *right.plan.traits.clocks))
    bounds = [bound for bound, _, _ in on.bounds]
    by_clock = interval_of(bounds, clocks)
    interval = by_clock or interval_of(bounds, watermarks)
    if interval is None:
        return None
    on.bounds = [
        (bound, compared, tree)
        for bound, compared, tree in on.bounds
        if (bound.left, bound.right) != (interval.left, interval.right) or not bound.exact
    ]
    on.compare_bounds()
    if on.mixed and request.kind != INNER:
        raise _inseparable(on, request)
    keys = tuple(key_pair(left, right, each) for each in on.equalities)
    rest = join_conditions(request.kind, on, left, right, on.equalities)
    micros = (_micros(left, interval.left), _micros(right, interval.right))
    early = _early(request, interval, by_clock is not None, context)
    node = IntervalJoin(
        kind=request.kind,
        left=left.plan,
        right=right.plan,
        keys=keys,
        conditions=rest,
        outputs=output_columns(request.kind, left, right),
        times=(interval.left, interval.right),
        micros=micros,
        lower=interval.lower,
        upper=interval.upper,
        proctime=by_clock is not None,
        early=early,
        mark=unique(MARK, taken) if early is not None else None,
    )
    return filter_pairs(node, on)


def _early(request: JoinRequest, interval: Interval, proctime: bool, context: Context) -> EarlyFire | None:
    if request.hint is None:
        return None
    early = request.hint.fire(proctime)
    if request.kind not in (LEFT, RIGHT, FULL):
        warn_ignored(
            request.hint, context, f"a join that is {request.kind.upper()} pads no rows, so none can leave early"
        )
        return None
    if interval.lower > interval.upper:
        warn_ignored(request.hint, context, "the interval is empty, so rows do not wait")
        return None
    return early


def _micros(side: Side, column: str) -> str:
    time = cast(column_tree(column), "timestamp")
    return side.column(exp.Anonymous(this="unix_micros", expressions=[time]), "bigint")


def _incremental(
    request: JoinRequest, on: Conditions, left: Side, right: Side, taken: set[str], context: Context
) -> Node:
    if request.hint is not None:
        warn_ignored(request.hint, context, "the join has no time bounds on both sides, so its rows do not wait")
    reason = _reason(request, on, left.plan, right.plan)
    on.compare_bounds()
    one_row = () in (left.plan.traits.key, right.plan.traits.key)
    if not on.equalities and not one_row:
        hint = "add an equality between the two: ON a.id = b.id"
        detail = "every row of one side would be compared with every row of the other"
        raise unsupported("a join without an equality", request.span, hint, detail)
    if on.mixed and request.kind != INNER:
        node = by_pairs(request.kind, on, left, right, taken)
    else:
        keys = tuple(key_pair(left, right, each) for each in on.equalities)
        rest = join_conditions(request.kind, on, left, right, on.equalities)
        outputs = output_columns(request.kind, left, right)
        join = Join(request.kind, left.plan, right.plan, keys, rest, outputs, reason)
        node = filter_pairs(replace(join, why="incremental") if bound_of(join) is None else join, on)
    _warn(request, next(each for each in walk(node) if isinstance(each, Join)), context)
    return node


def _reason(request: JoinRequest, on: Conditions, left: Node, right: Node) -> str:
    """Why it is neither an interval join nor a lookup, for EXPLAIN."""
    types = {column.name: column.type for side in (left, right) for column in side.schema}
    watermarks = dict((*left.traits.watermarks, *right.traits.watermarks))
    times = [bound for bound, _, _ in on.bounds if types[bound.left] in TIMES and types[bound.right] in TIMES]
    for name in dict.fromkeys(name for bound in times for name in (bound.left, bound.right)):
        if name not in watermarks:
            return f"incremental: {name} has no watermark"
    if times:
        return "incremental: the time between both sides is bounded on one side only"
    if _both_streams(left, right):
        return "incremental: no time bounds, so every row is kept"
    table = request.tables[1]
    if table is not None and table.primary_key and from_sources(left) and request.kind in (INNER, LEFT):
        return f"incremental: not by the whole key of {table.name}, ({', '.join(table.primary_key)})"
    return "incremental"


def _both_streams(left: Node, right: Node) -> bool:
    return all(from_sources(side) and side.traits.append_only for side in (left, right))


def _warn(request: JoinRequest, join: Join, context: Context) -> None:
    """Warn about a join of two streams, or of results of their windows, that no time bounds: it keeps all rows."""
    if bound_of(join) is None or not (_endless(join.left) and _endless(join.right)):
        return
    sides = (join.left, join.right)
    watermarks = [[name for name, _ in side.traits.watermarks if not name.startswith("__")] for side in sides]
    settled = [
        [name for name, each in side.traits.watermarks if each.settled and name in named]
        for side, named in zip(sides, watermarks, strict=True)
    ]
    if all(settled):
        fix = f"join results of the same time: AND {settled[0][0]} = {settled[1][0]}"
    elif all(watermarks):
        one, other = (names[0] for names in watermarks)
        fix = f"bound the time between them in ON: AND {one} BETWEEN {other} - INTERVAL '1' HOUR AND {other}"
    else:
        fix = "declare WATERMARK FOR a time column of both, and bound the time between them in ON"
    context.warnings.append(warning("UNBOUNDED_STATE", what="this join of two streams", hint=fix, span=request.span))


def _endless(side: Node) -> bool:
    """True for rows of sources that are never taken back, and for results of windows over sources: more and more of
    them. Other results are bounded by the number of their keys."""
    return from_sources(side) and (side.traits.append_only or _has_windows(side))


def _has_windows(plan: Node) -> bool:
    below = (plan.plan,) if isinstance(plan, View) else plan.inputs
    return isinstance(plan, Window | WindowAggregate) or any(_has_windows(each) for each in below)


def _inseparable(on: Conditions, request: JoinRequest) -> Exception:
    tree = on.mixed[0]
    hint = "compare an expression of one side with an expression of the other: a.x < b.y - 1"
    return unsupported(
        f"{source_text(tree)} in ON of a {request.kind.upper()} join", span_of(tree) or request.span, hint
    )
