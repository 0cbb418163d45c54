"""EMIT strategies that a view does not state itself: from settings, and from the sink it flows into."""

from __future__ import annotations

from dataclasses import replace

from tidegate import bind, compile, errors
from tidegate.bind.context import Analyzer
from tidegate.catalog import Catalog
from tidegate.catalog.relation import Relation
from tidegate.connectors.contract import Sink
from tidegate.core.durations import parse_micros
from tidegate.plan import IntervalJoin, Node, View, WindowAggregate, walk
from tidegate.sql import parse
from tidegate.sql import statements as s
from tidegate.storage.ledger import Ledger

EARLY_FIRE = ("table.exec.emit.early-fire.enabled", "table.exec.emit.early-fire.delay")


def with_default_emit(statement: s.CreateView, catalog: Catalog, analyzer: Analyzer, ledger: Ledger) -> s.CreateView:
    """The view with the EMIT that Flink's early-fire settings set for a window without one."""
    enabled, delay = (ledger.setting(name) for name in EARLY_FIRE)
    if statement.query.emit is not None or (enabled or "").lower() != "true" or delay is None:
        return statement
    bound = compile.compile_view(statement, catalog, analyzer)
    if not any(isinstance(node, WindowAggregate) for node in walk(bound.plan)):
        return statement
    end = statement.query.span.end - statement.span.start
    emit = f" EMIT EVERY INTERVAL '{parse_micros(delay)}' MICROSECOND"
    rewritten = parse(statement.text[:end] + emit + statement.text[end:]).statements[0]
    assert isinstance(rewritten, s.CreateView)
    return rewritten


def _fires_early(plan: Node) -> bool:
    """True if a join anywhere below has EARLY_FIRE."""
    return any(
        _fires_early(node.plan) if isinstance(node, View) else isinstance(node, IntervalJoin) and node.early is not None
        for node in walk(plan)
    )


def with_forced_emit(
    sink: Sink, relation: Relation, statement: s.CreateSink, catalog: Catalog, analyzer: Analyzer
) -> Relation:
    """The sink's entry, with the strategy that it forces on a view without EMIT: a sink that only takes insertions
    gets closed windows, one that takes every change gets every change."""
    if sink.abilities.accepts == "upsert" or relation.changes == "append" or statement.relation is None:
        return relation
    view = catalog.get(statement.relation.text)
    declared = view.statement
    if not isinstance(declared, s.CreateView) or declared.query.emit is not None:
        return relation
    if sink.abilities.accepts == "changelog" and view.emit != "on_watermark":
        return relation
    if sink.abilities.accepts == "append" and _fires_early(compile.definition(view, catalog, analyzer).plan):
        raise errors.make(
            "SINK_CANNOT_TAKE",
            message=f"{sink.spec.kind} in append mode takes only insertions, and {view.name} takes early results back",
            detail="the hint EARLY_FIRE lets rows leave that a later match corrects",
            hint="leave EARLY_FIRE out, or write mode = 'changelog' to get every change with its op",
            span=statement.connector.span,
        )
    forced = "on_window_close" if sink.abilities.accepts == "append" else "changes"
    try:
        bound = compile.forced_view(relation.name, view, bind.Extras(forced=forced), catalog, analyzer)
    except errors.Error as error:
        if error.code != "EMIT_NEEDS_WATERLINE":
            raise
        raise errors.make(
            "SINK_CANNOT_TAKE",
            message=f"{sink.spec.kind} in append mode takes only insertions, and {view.name} also changes rows",
            detail=f"it cannot wait for rows that no longer change either: {error.message}",
            hint="write mode = 'changelog' to get every change with its op, or give the view a window to close",
            span=statement.connector.span,
        ) from None
    return replace(relation, emit=forced, changes=bound.kind, key=bound.key, hidden=bound.hidden)
