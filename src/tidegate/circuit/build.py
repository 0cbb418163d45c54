"""Catalog -> circuit: every table and materialized view, and what sinks read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from tidegate.bind.analyzer import Analyzer
from tidegate.bind.view import definition, relation_rows, results_of
from tidegate.catalog import Catalog, Relation
from tidegate.catalog.bus import BUS, EVENTS, RESULTS
from tidegate.circuit.lower import Lowering
from tidegate.circuit.model import Branch, Circuit, Op, Output, Watched
from tidegate.plan import Node, frontiers
from tidegate.rules import rewrite
from tidegate.sql import parse
from tidegate.sql.statements import CreateSink


def build(catalog: Catalog, analyzer: Analyzer, begun: Mapping[str, int] | None = None) -> Circuit:
    """What one pipeline computes. `begun`: the step after which each relation begins (0 where it is not named)."""
    lowering = Lowering(begun or {})
    logged = maintained(catalog)
    if uses_bus(catalog) or BUS in (begun or {}):
        logged = (EVENTS, *(relation for relation in logged if relation is not EVENTS))
    outputs = tuple(_output(relation, catalog, analyzer, lowering) for relation in logged)
    outputs += tuple(_results(view, catalog, analyzer, lowering) for view in event_views(catalog))
    watched = tuple(each for relation in (EVENTS, *catalog) for each in _watched(relation, catalog, analyzer, lowering))
    late_to = tuple(
        (view.name, table)
        for view in catalog.of_kind("view")
        if (table := definition(view, catalog, analyzer).late_to) is not None
    )
    return replace(_circuit(lowering, outputs), watched=watched, late_to=late_to)


def _watched(relation: Relation, catalog: Catalog, analyzer: Analyzer, lowering: Lowering) -> Iterator[Watched]:
    """The waterlines of a relation's columns."""
    if relation.kind == "view":
        lines = definition(relation, catalog, analyzer).left.traits.waterlines
    elif relation.kind == "sink" or relation.name not in lowering.inputs:
        return
    else:
        lines = frontiers(relation)
    for column, line in lines:
        if relation.column(column) is not None:
            yield Watched(relation.name, column, line.type, lowering.line(line))


def circuit_of(name: str, plan: Node, kind: str, visible: int, begun: Mapping[str, int] | None = None) -> Circuit:
    """The circuit of one plan alone, whose first `visible` columns can be seen."""
    lowering = Lowering(begun or {})
    return _circuit(lowering, (_assembled(name, plan, kind, visible, lowering),))


def _circuit(lowering: Lowering, outputs: tuple[Output, ...]) -> Circuit:
    inputs = tuple(lowering.inputs[name] for name in sorted(lowering.inputs))
    doors = tuple(lowering.doors[name] for name in sorted(lowering.doors))
    ops = tuple(sorted(lowering.ops.values(), key=lambda op: (op.level, op.id)))
    return Circuit(inputs, ops, outputs, doors, tuple(lowering.lines[name] for name in sorted(lowering.lines)))


def maintained(catalog: Catalog) -> tuple[Relation, ...]:
    """The relations whose changes are logged, in order of creation."""
    read = {name for sink in catalog.of_kind("sink") if not own_rows(sink) for name in sink.dependencies}
    return tuple(
        relation
        for relation in catalog
        if relation.kept or relation.name in read or (relation.kind == "sink" and own_rows(relation))
    )


def uses_bus(catalog: Catalog) -> bool:
    """Whether something feeds or reads the event bus."""
    return any(BUS in relation.dependencies or not relation.columns for relation in catalog)


def event_views(catalog: Catalog) -> tuple[Relation, ...]:
    """The views over the event bus, whose results return to it."""
    return tuple(view for view in catalog.of_kind("view") if BUS in view.dependencies and view.option("emit") != "none")


def _results(view: Relation, catalog: Catalog, analyzer: Analyzer, lowering: Lowering) -> Output:
    """What a view gives to the bus: its rows with the windows and keys that they belong to."""
    results = results_of(view, catalog, analyzer)
    plan = results.left
    return _assembled(RESULTS + view.name, plan, results.kind, len(plan.columns), lowering, view.name)


def ops_behind(circuit: Circuit, output: Output) -> tuple[str, ...]:
    """The ids of the ops that an output needs."""
    return tuple(op.id for op in upstream(circuit, output.branches))


def upstream(circuit: Circuit, branches: Iterable[Branch]) -> Iterator[Op]:
    """The ops that branches come from, directly or not, each once."""
    by_id = {op.id: op for op in circuit.ops}
    seen: set[str] = set()
    waiting = [branch.producer for branch in branches]
    while waiting:
        producer = waiting.pop(0)
        if producer in by_id and producer not in seen:
            seen.add(producer)
            yield by_id[producer]
            waiting += [branch.producer for port in by_id[producer].ports for branch in port.branches]


def own_rows(sink: Relation) -> bool:
    """Whether what a sink gets is logged under its own name: it has a query, or forces its view to emit otherwise."""
    statement = parse(sink.sql).statements[0]
    return sink.emit is not None or (isinstance(statement, CreateSink) and statement.query is not None)


def _output(relation: Relation, catalog: Catalog, analyzer: Analyzer, lowering: Lowering) -> Output:
    if relation.kind in ("view", "sink"):
        view = definition(relation, catalog, analyzer)
        return _assembled(relation.name, view.left, view.kind, len(view.columns), lowering)
    plan = rewrite(relation_rows(relation, catalog, analyzer).plan)
    return _assembled(relation.name, plan, relation.changes, len(relation.columns), lowering)


def _assembled(name: str, plan: Node, kind: str, visible: int, lowering: Lowering, owner: str | None = None) -> Output:
    return Output(
        relation=name,
        branches=lowering.rows(owner or name, plan),
        columns=plan.schema[:visible],
        hidden=plan.schema[visible:],
        key=plan.traits.key,
        kind=kind,
        mark=plan.traits.mark,
    )
