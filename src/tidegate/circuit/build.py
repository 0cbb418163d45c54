"""Catalog -> circuit: every table and materialized view, and what sinks read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from tidegate.bind.analyzer import Analyzer
from tidegate.bind.view import definition, relation_rows
from tidegate.catalog import Catalog, Relation
from tidegate.circuit.lower import Lowering
from tidegate.circuit.model import Branch, Circuit, Op, Output
from tidegate.plan import Node
from tidegate.rules import rewrite
from tidegate.sql import parse
from tidegate.sql.statements import CreateSink


def build(catalog: Catalog, analyzer: Analyzer, begun: Mapping[str, int] | None = None) -> Circuit:
    """What one pipeline computes. `begun`: the step after which each relation begins (0 where it is not named)."""
    lowering = Lowering(begun or {})
    outputs = tuple(_output(relation, catalog, analyzer, lowering) for relation in maintained(catalog))
    return _circuit(lowering, outputs)


def circuit_of(name: str, plan: Node, kind: str, visible: int, begun: Mapping[str, int] | None = None) -> Circuit:
    """The circuit of one plan alone, whose first `visible` columns can be seen."""
    lowering = Lowering(begun or {})
    return _circuit(lowering, (_assembled(name, plan, kind, visible, lowering),))


def _circuit(lowering: Lowering, outputs: tuple[Output, ...]) -> Circuit:
    inputs = tuple(lowering.inputs[name] for name in sorted(lowering.inputs))
    ops = tuple(sorted(lowering.ops.values(), key=lambda op: (op.level, op.id)))
    return Circuit(inputs, ops, outputs)


def maintained(catalog: Catalog) -> tuple[Relation, ...]:
    """The relations whose changes are logged, in order of creation."""
    read = {name for sink in catalog.of_kind("sink") if not _has_query(sink) for name in sink.dependencies}
    return tuple(
        relation
        for relation in catalog
        if relation.kept or relation.name in read or (relation.kind == "sink" and _has_query(relation))
    )


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


def _has_query(sink: Relation) -> bool:
    statement = parse(sink.sql).statements[0]
    return isinstance(statement, CreateSink) and statement.query is not None


def _output(relation: Relation, catalog: Catalog, analyzer: Analyzer, lowering: Lowering) -> Output:
    if relation.kind in ("view", "sink"):
        view = definition(relation, catalog, analyzer)
        return _assembled(relation.name, view.plan, view.kind, len(view.columns), lowering)
    plan = rewrite(relation_rows(relation, catalog, analyzer).plan)
    return _assembled(relation.name, plan, relation.changes, len(relation.columns), lowering)


def _assembled(name: str, plan: Node, kind: str, visible: int, lowering: Lowering) -> Output:
    return Output(
        relation=name,
        branches=lowering.rows(name, plan),
        columns=plan.schema[:visible],
        hidden=plan.schema[visible:],
        key=plan.traits.key,
        kind=kind,
    )
