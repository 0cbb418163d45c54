"""Catalog -> circuit: every table and materialized view, and what sinks read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from tidegate.bind.context import Analyzer
from tidegate.catalog import Catalog, Relation
from tidegate.catalog.bus import BUS, EVENTS, RESULTS
from tidegate.catalog.maintained import event_views, maintained_relations, uses_bus
from tidegate.circuit.lower import CircuitBuilder
from tidegate.circuit.model import Circuit, Output, PublishedWatermark
from tidegate.compile.views import definition, relation_rows, results_of
from tidegate.plan import declared_watermarks
from tidegate.rules import rewrite


def build(catalog: Catalog, analyzer: Analyzer, begun: Mapping[str, int] | None = None) -> Circuit:
    """The circuit of a whole catalog. `begun`: the step after which each relation begins (default 0)."""
    builder = CircuitBuilder(begun or {})
    logged = maintained_relations(catalog)
    if uses_bus(catalog) or BUS in (begun or {}):
        logged = (EVENTS, *(relation for relation in logged if relation is not EVENTS))
    outputs = tuple(_output(relation, catalog, analyzer, builder) for relation in logged)
    outputs += tuple(_results(view, catalog, analyzer, builder) for view in event_views(catalog))
    published = tuple(
        each for relation in (EVENTS, *catalog) for each in _published_watermarks(relation, catalog, analyzer, builder)
    )
    late_to = tuple(
        (view.name, table)
        for view in catalog.of_kind("view")
        if (table := definition(view, catalog, analyzer).late_to) is not None
    )
    return replace(builder.circuit(outputs), published=published, late_to=late_to)


def _output(relation: Relation, catalog: Catalog, analyzer: Analyzer, builder: CircuitBuilder) -> Output:
    if relation.kind in ("view", "sink"):
        view = definition(relation, catalog, analyzer)
        output = builder.output(relation.name, view.emitted, view.kind, len(view.columns))
        return replace(output, on_error=dict(relation.options).get("on_error", output.on_error))
    plan = rewrite(relation_rows(relation, catalog, analyzer).plan)
    return builder.output(relation.name, plan, relation.changes, len(relation.columns))


def _results(view: Relation, catalog: Catalog, analyzer: Analyzer, builder: CircuitBuilder) -> Output:
    """What a view gives to the bus: its rows with the windows and keys that they belong to."""
    results = results_of(view, catalog, analyzer)
    plan = results.emitted
    return builder.output(RESULTS + view.name, plan, results.kind, len(plan.columns), owner=view.name)


def _published_watermarks(
    relation: Relation, catalog: Catalog, analyzer: Analyzer, builder: CircuitBuilder
) -> Iterator[PublishedWatermark]:
    """The watermarks of a relation's columns."""
    if relation.kind == "view":
        watermarks = definition(relation, catalog, analyzer).emitted.traits.watermarks
    elif relation.kind == "sink" or relation.name not in builder.inputs:
        return
    else:
        watermarks = declared_watermarks(relation)
    for column, watermark in watermarks:
        if relation.column(column) is not None:
            yield PublishedWatermark(relation.name, column, watermark.type, builder.watermark(watermark))
