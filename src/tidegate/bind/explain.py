"""EXPLAIN of queries and relations, stage by stage."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tidegate.bind.analyzer import Analyzer
from tidegate.bind.events.paths import with_paths
from tidegate.bind.view import BoundView, bind_definition, definition, relation_rows
from tidegate.catalog import Catalog, Relation
from tidegate.plan import Node
from tidegate.plan.explain import Explanation, explain_plan
from tidegate.rules import rewrite
from tidegate.sql import parse, render
from tidegate.sql.statements import CreateView, Query

NAME = "query"


def explain_query(query: Query, catalog: Catalog, analyzer: Analyzer, stage: str) -> Explanation:
    """What would become of a query if it were a view."""
    if stage == "parsed":
        return _parsed(query)
    view = bind_definition(NAME, query, (), catalog, analyzer)
    return _stage(view, stage, {})


def explain_relation(
    relation: Relation, catalog: Catalog, analyzer: Analyzer, stage: str, begun: Mapping[str, int] | None = None
) -> tuple[str, dict[str, Any]]:
    """What has become of a relation, as text and as a tree."""
    found = _explained(relation, catalog, analyzer, stage, begun or {})
    return str(found), found.tree


def _explained(
    relation: Relation, catalog: Catalog, analyzer: Analyzer, stage: str, begun: Mapping[str, int]
) -> Explanation:
    statement = parse(relation.sql).statements[0] if relation.sql else None
    query = getattr(statement, "query", None)
    if stage == "parsed":
        return _parsed(query) if isinstance(query, Query) else Explanation.of(_text(relation.sql))
    if isinstance(query, Query):
        return _stage(definition(relation, catalog, analyzer), stage, begun)
    read = catalog.get(relation.dependencies[0]) if relation.kind == "sink" else relation
    if isinstance(statement, CreateView) or read.kind == "view":
        return _explained(read, catalog, analyzer, stage, begun)
    rows = relation_rows(read, catalog, analyzer).plan
    return _plan_stage(read.name, rows, rewrite(rows), read.changes, len(read.columns), stage, begun)


def _stage(view: BoundView, stage: str, begun: Mapping[str, int]) -> Explanation:
    return _plan_stage(view.name, view.bound, view.left, view.kind, len(view.columns), stage, begun)


def _plan_stage(
    name: str, bound: Node, plan: Node, kind: str, visible: int, stage: str, begun: Mapping[str, int]
) -> Explanation:
    if stage == "bound":
        return explain_plan(bound)
    if stage == "rewritten":
        return explain_plan(plan)
    # Circuits are built from bound views, so this can only be known when it is asked for.
    from tidegate.circuit.build import circuit_of
    from tidegate.circuit.explain import explain_circuit

    return explain_circuit(circuit_of(name, plan, kind, visible, begun))


def _parsed(query: Query) -> Explanation:
    """The query as it was read, in Spark SQL, with the clauses that are ours."""
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
