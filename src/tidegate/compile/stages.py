"""EXPLAIN: what comes out of each stage of compiling a query or a relation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tidegate.bind.context import Analyzer
from tidegate.bind.events.paths import with_paths
from tidegate.catalog import Catalog, Relation
from tidegate.circuit.explain import explain_circuit
from tidegate.circuit.lower import circuit_of
from tidegate.compile.views import CompiledView, compile_query, definition, relation_rows
from tidegate.plan import Node
from tidegate.plan.explain import Explanation, explain_plan
from tidegate.plan.labels import label
from tidegate.plan.unbounded import unbounded
from tidegate.rules import rewrite
from tidegate.sql import render
from tidegate.sql.statements import CreateView, Query

NAME = "query"


def explain_query(query: Query, catalog: Catalog, analyzer: Analyzer, stage: str) -> Explanation:
    """A stage of a query, compiled as if it were a view."""
    if stage == "parsed":
        return _explain_parsed(query)
    return _view_stage(compile_query(NAME, query, (), catalog, analyzer), stage, {})


def explain_relation(
    relation: Relation, catalog: Catalog, analyzer: Analyzer, stage: str, begun: Mapping[str, int] | None = None
) -> Explanation:
    """A stage of a relation of the catalog. `begun`: the step after which each relation begins."""
    statement = relation.statement
    query = getattr(statement, "query", None)
    if stage == "parsed":
        return _explain_parsed(query) if isinstance(query, Query) else Explanation.of(_text(relation.sql))
    if isinstance(query, Query):
        return _view_stage(definition(relation, catalog, analyzer), stage, begun or {})
    read = catalog.get(relation.dependencies[0]) if relation.kind == "sink" else relation
    if isinstance(statement, CreateView) or read.kind == "view":
        return explain_relation(read, catalog, analyzer, stage, begun)
    rows = relation_rows(read, catalog, analyzer).plan
    return _stage(read.name, rows, rewrite(rows), read.changes, len(read.columns), stage, begun or {})


def _view_stage(view: CompiledView, stage: str, begun: Mapping[str, int]) -> Explanation:
    return _stage(view.name, view.bound, view.emitted, view.kind, len(view.columns), stage, begun)


def _stage(
    name: str, bound: Node, rewritten: Node, kind: str, visible: int, stage: str, begun: Mapping[str, int]
) -> Explanation:
    if stage == "bound":
        return explain_plan(bound)
    if stage == "rewritten":
        return explain_plan(rewritten)
    tree = explain_circuit(circuit_of(name, rewritten, kind, visible, begun)).tree
    tree["inputs"] += [_unbounded(node, bound_by) for node, bound_by in unbounded(rewritten)]
    return Explanation.of(tree)


def _unbounded(node: Node, bound_by: str) -> dict[str, Any]:
    traits = {"state": node.traits.state, "would be bounded by": bound_by}
    return {"node": f"Unbounded state of {label(node)}", "traits": traits, "inputs": []}


def _explain_parsed(query: Query) -> Explanation:
    """The query in Spark SQL, followed by Tidegate's own clauses."""
    tree = _text(render(with_paths(query.select)))
    if query.allowed_lateness is not None:
        tree["inputs"].append(_text(f"ALLOWED LATENESS {render(query.allowed_lateness)}"))
    if query.late_data_to is not None:
        tree["inputs"].append(_text(f"LATE DATA TO {query.late_data_to.text}"))
    if query.emit is not None:
        every = f" {render(query.emit.interval)}" if query.emit.interval is not None else ""
        tree["inputs"].append(_text("EMIT " + query.emit.strategy.replace("_", " ").upper() + every))
    return Explanation.of(tree)


def _text(sql: str) -> dict[str, Any]:
    return {"node": sql, "inputs": []}
