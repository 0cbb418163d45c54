"""EMIT: the gate of a view, and errors for strategies that cannot work."""

from __future__ import annotations

from dataclasses import dataclass, replace

from sqlglot import exp

from tidegate.errors import Error, Span, make
from tidegate.plan import Aggregate, Closing, Filter, Gate, Node, Project, Window, WindowAggregate
from tidegate.sql import render, span_of
from tidegate.sql.durations import length
from tidegate.sql.statements import Query
from tidegate.traits.kind import KEYED


@dataclass(frozen=True)
class Strategy:
    """How a view emits. `name` is one of the six; `every` and `lateness` are microseconds."""

    name: str
    every: int | None = None
    lateness: int = 0
    span: Span | None = None

    @property
    def words(self) -> str:
        return self.name.replace("_", " ").upper()


def strategy_of(query: Query, plan: Node, forced: str | None = None) -> Strategy | None:
    """The strategy that the query names, or the default: a window over WATERMARK FOR waits for its end."""
    lateness = lateness_of(query)
    if forced is not None:
        return Strategy(forced, None, lateness)
    if query.emit is None:
        return Strategy("on_watermark", None, lateness) if _waits_by_default(plan) else None
    every = None
    if query.emit.interval is not None:
        every = micros_of(query.emit.interval, "EMIT EVERY")
    if query.emit.strategy == "final" and query.allowed_lateness is not None and lateness:
        raise make("EMIT_FINAL_LATENESS", span=span_of(query.allowed_lateness) or query.emit.span)
    return Strategy(query.emit.strategy, every, lateness, query.emit.span)


def waits_unasked(query: Query, plan: Node, strategy: Strategy | None) -> bool:
    """True if rows that no GROUP BY combines wait for the end of their window, and the query does not say so."""
    return query.emit is None and strategy is not None and isinstance(_core(plan), Window)


def lateness_of(query: Query) -> int:
    """ALLOWED LATENESS in microseconds."""
    if query.allowed_lateness is None:
        return 0
    return micros_of(query.allowed_lateness, "ALLOWED LATENESS", zero=True)


def micros_of(tree: exp.Expr, what: str, zero: bool = False) -> int:
    """The microseconds of a duration that does not depend on the calendar."""
    duration = length(tree)
    if duration is None or duration.months or duration.micros < 0 or (duration.micros == 0 and not zero):
        raise make(
            "INVALID_WINDOW",
            message=f"{what} {render(tree)} is not a fixed length of time above zero",
            hint=f"write {what} INTERVAL '10' SECOND",
            span=span_of(tree),
        )
    return duration.micros


def add_gate(plan: Node, strategy: Strategy, visible: int, span: Span) -> Node:
    """The plan with the gate of its strategy, as deep as possible: directly above its aggregate."""
    if strategy.name in KEYED and plan.traits.key is None:
        raise make("EMIT_NEEDS_KEY", strategy=strategy.words, span=strategy.span or span)
    if strategy.name in ("changes", "on_update"):
        return plan
    core = _core(plan)
    if isinstance(core, Aggregate | WindowAggregate | Window):
        return _replace_core(plan, core, _gate(core, strategy, core.columns, span))
    return _gate(plan, strategy, plan.columns[:visible], span)


def cap_groups(plan: Node, most: int | None) -> Node:
    """Apply `max_groups` to a view that groups by keys and not by windows, which have it already."""
    core = _core(plan)
    if most is None or not isinstance(core, Aggregate) or not core.keys:
        return plan
    return _replace_core(plan, core, replace(core, max_groups=most))


def final_gate(plan: Node, column: str, span: Span | None) -> Node:
    """The gate of `emit_final`: a row is emitted once a column of it is below its watermark."""
    watermark = plan.traits.watermark(column)
    if watermark is None:
        raise _no_watermark_error("emit_final", column, dict(plan.traits.lost).get(column), plan, span)
    return Gate(plan, "final", (Closing(column, watermark, watermark),))


def _waits_by_default(plan: Node) -> bool:
    core = _core(plan)
    if isinstance(core, WindowAggregate):
        watermark = core.watermark
    elif isinstance(core, Window):
        watermark = core.input.traits.watermark(core.window.time)
    else:
        return False
    return watermark is not None and any(each.note == "watermark" for each in watermark.declarations)


def _core(plan: Node) -> Node:
    """The node below the projections and filters of a view."""
    while isinstance(plan, Project | Filter):
        plan = plan.input
    return plan


def _replace_core(plan: Node, core: Node, by: Node) -> Node:
    if plan is core:
        return by
    return plan.with_inputs((_replace_core(plan.inputs[0], core, by),))


def _gate(node: Node, strategy: Strategy, columns: tuple[str, ...], span: Span) -> Node:
    closing = _closing(node, strategy, columns)
    if strategy.name == "every":
        assert strategy.every is not None
        return Gate(node, "every", closing, every=strategy.every)
    if not closing:
        raise _unclosable_error(node, strategy, columns, span)
    corrects = strategy.name == "on_watermark" and strategy.lateness > 0
    return Gate(node, strategy.name, closing, corrects=corrects)


def _closing(node: Node, strategy: Strategy, columns: tuple[str, ...]) -> tuple[Closing, ...]:
    """The columns by which rows close: a window's end, else all that have a watermark."""
    if isinstance(node, WindowAggregate | Window):
        time = node.input.traits.watermark(node.window.time)
        candidates = [(node.window.end, time, True)] if time is not None else []
    else:
        candidates = [(column, watermark, False) for column, watermark in node.traits.watermarks if column in columns]
    closing = []
    for column, watermark, inclusive in candidates:
        release = watermark.lag_by(strategy.lateness if strategy.name == "on_window_close" else 0)
        late = watermark.lag_by(strategy.lateness)
        if release is not None and late is not None:
            closing.append(Closing(column, release, late, inclusive))
    return tuple(closing)


def _unclosable_error(node: Node, strategy: Strategy, columns: tuple[str, ...], span: Span) -> Error:
    lost = {column: why for column, why in node.traits.lost if column in columns}
    span = strategy.span or span
    if isinstance(node, WindowAggregate | Window):
        below = dict(node.input.traits.lost)
        return _no_watermark_error(strategy.words, node.window.time, below.get(node.window.time), node, span)
    if lost:
        column, why = next(iter(lost.items()))
        return _no_watermark_error(strategy.words, column, why, node, span)
    if isinstance(node, Aggregate):
        return _not_grouped_by_time_error(node, strategy, span)
    named = [column for column in columns if not column.startswith("__")]
    return _no_watermark_error(strategy.words, ", ".join(named) or "this view", None, node, span)


def _not_grouped_by_time_error(node: Aggregate, strategy: Strategy, span: Span) -> Error:
    times = _times_below(node)
    keys = ", ".join(key for key in node.keys if not key.startswith("__"))
    grouping = f"GROUP BY {keys}" if keys else "this aggregate"
    hint = "GROUP BY a window, such as TUMBLE(ts, INTERVAL '1' MINUTE), or write EMIT CHANGES"
    if times:
        hint = f"GROUP BY a window of it too, such as TUMBLE({times[0]}, INTERVAL '1' MINUTE), or write EMIT CHANGES"
    return make(
        "EMIT_NEEDS_WATERLINE",
        message=f"EMIT {strategy.words} waits for groups to close, and those of {grouping} never do",
        detail="no column of the group has a watermark",
        hint=hint,
        span=span,
    )


def _no_watermark_error(words: str, column: str, why: str | None, node: Node, span: Span | None) -> Error:
    emit = words if words == "emit_final" else f"EMIT {words}"
    instead = "or leave it out" if words == "emit_final" else "or write EMIT CHANGES"
    known = [name for name, _ in node.traits.watermarks if not name.startswith("__")]
    times = _times_below(node)
    if why:
        hint = f"select the time column itself or a monotone expression of it, {instead}"
    elif known:
        hint = f"columns with a watermark: {', '.join(known)}"
    elif times and column not in times:
        hint = f"select {times[0]}, which has a watermark, {instead}"
    else:
        hint = f"declare one: WATERMARK FOR {column} AS {column} - INTERVAL '5' SECOND, {instead}"
    hidden = column.startswith("__") and why is not None
    return make(
        "EMIT_NEEDS_WATERLINE",
        message=f"{emit} waits for a watermark, but {why if hidden else column} has none",
        detail=f"the watermark is lost in {why}" if why and not hidden else None,
        hint=hint,
        span=span,
    )


def _times_below(node: Node) -> list[str]:
    """Columns further below that have a watermark, the nearest first."""
    times = [name for name, _ in node.traits.watermarks if not name.startswith("__")]
    return times or [name for below in node.inputs for name in _times_below(below)]
