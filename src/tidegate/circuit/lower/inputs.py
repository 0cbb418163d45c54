"""Where rows enter: sources, tables, maintained views, and the checks on arrival."""

from __future__ import annotations

from dataclasses import replace

from tidegate import plan as logical
from tidegate.catalog.bus import EVENTS, RESULTS
from tidegate.catalog.relation import Relation
from tidegate.circuit.lower.branches import Branches, add_step, drop_late, hashable, keep_columns, selection
from tidegate.circuit.lower.builder import CircuitBuilder, lower
from tidegate.circuit.model import Branch, Filter, Ingress, ObservedColumn, Origin, Port, RejectedRows
from tidegate.core.columns import ORDER
from tidegate.core.durations import parse_micros
from tidegate.core.schema import Column, names
from tidegate.ir.specs import HoldBackSpec, TableSpec
from tidegate.ir.windows import WatermarkTest
from tidegate.plan import Node
from tidegate.traits.watermark import TIMESTAMPS, DeclaredWatermark, Watermarks, observed_name

NO_RESULT = f"NOT startswith(coalesce(`channel`, ''), '{RESULTS}')"


@lower.register
def _(node: logical.Scan, to: CircuitBuilder) -> Branches:
    relation = node.relation
    entry = to.input(relation)
    rows = _hold_back(to, relation, (Branch(entry.producer, (), relation.columns),))
    tests = _late_tests(to, relation.name, logical.declared_watermarks(relation))
    if not node.stored or not relation.primary_key:
        _ingress(to, relation, rows, tests)
        rows = drop_late(rows, tests)
    if not node.stored:
        return tuple(add_step(branch, selection(relation.columns), relation.columns) for branch in rows)
    stored = _table(to, relation, rows, tests if relation.primary_key else ())
    if relation.primary_key:
        _ingress(to, relation, stored, ())
    return stored


def _hold_back(to: CircuitBuilder, relation: Relation, rows: Branches) -> Branches:
    """Rows of a column with WATERMARK pass a reorder buffer first."""
    notes = [note for note in relation.times if note.kind == "hold_back"]
    if not notes:
        return rows
    types = {column.name: column.type for column in relation.columns}
    delays = {
        note.column: DeclaredWatermark(types[note.column], relation.name, note.column, "hold_back", note.sql)
        for note in notes
    }
    observed = tuple(ObservedColumn(column, watermark.name) for column, watermark in delays.items())
    name = f"{relation.name}, as it arrives"
    to.ingresses.setdefault(name, Ingress(relation.name, rows, relation.columns, (), observed))
    spec = HoldBackSpec(
        names(relation.columns),
        tuple(WatermarkTest(column, to.watermark(watermark), True) for column, watermark in delays.items()),
    )
    port = Port(rows, relation.columns, hashable(relation.columns), ordered=True)
    columns = (*relation.columns, Column(ORDER, "bigint", False))
    return to.op(spec, (port,), columns, to.begins(relation.name))


def _table(to: CircuitBuilder, relation: Relation, rows: Branches, lateness: tuple[WatermarkTest, ...]) -> Branches:
    columns, key = names(relation.columns), relation.primary_key
    spec = TableSpec(relation.name, columns, key, relation.append_only, lateness)
    rejected = _rejected_rows(relation, lateness)
    port = Port(rows, relation.columns, key or hashable(relation.columns), ordered=True, rejected=rejected)
    return to.op(spec, (port,), relation.columns, to.begins(relation.name))


def _late_tests(to: CircuitBuilder, relation: str, watermarks: Watermarks) -> tuple[WatermarkTest, ...]:
    """The tests of LATENESS. With WATERMARK FOR on the same column only LATENESS makes rows late."""
    declared = [
        (column, each)
        for column, watermark in watermarks
        for each in watermark.declarations
        if each.note == "lateness" and each.relation == relation
    ]
    return tuple(WatermarkTest(column, to.watermark(watermark)) for column, watermark in declared)


def _ingress(to: CircuitBuilder, relation: Relation, rows: Branches, tests: tuple[WatermarkTest, ...]) -> None:
    observed = tuple(
        ObservedColumn(column, observed_name(relation.name, column), _max_ahead(relation, watermark.type))
        for column, watermark in logical.declared_watermarks(relation)
    )
    if relation is EVENTS:
        rows = tuple(add_step(branch, Filter(NO_RESULT), branch.columns) for branch in rows)
        rows = keep_columns(rows, [each.column for each in observed])
    if observed or tests:
        to.ingresses.setdefault(relation.name, Ingress(relation.name, rows, relation.columns, tests, observed))


@lower.register
def _(node: logical.View, to: CircuitBuilder) -> Branches:
    return tuple(_with_origin(to, node.name, branch) for branch in to.rows(node.name, node.plan))


def _with_origin(to: CircuitBuilder, view: str, branch: Branch) -> Branch:
    op = to.ops.get(branch.producer)
    if op is None or not op.evicts:
        return branch
    return replace(branch, origin=Origin(view, len(branch.steps), branch.columns))


@lower.register
def _(node: logical.IngressCheck, to: CircuitBuilder) -> Branches:
    check_columns = _check_columns(node)
    rows = to.branches(_without(node.input, check_columns))
    late = [(column, watermark) for column, watermark in node.declared if watermark.strict]
    delayed = node.input.traits.delayed
    tests = tuple(WatermarkTest(column, to.watermark(watermark), delayed=delayed) for column, watermark in late)
    observed = tuple(ObservedColumn(column, observed_name(node.view, column)) for column, _ in node.declared)
    observed_columns = [each.column for each in observed]
    checked = rows if tests else keep_columns(to.branches(node.input), [*observed_columns, *check_columns])
    to.ingresses.setdefault(node.view, Ingress(node.view, checked, node.schema, tests, observed, node.checks, node.row))
    return drop_late(rows, tests)


def _check_columns(node: logical.IngressCheck) -> list[str]:
    return [*(column for column, _ in node.checks), *([node.row] if node.row is not None else [])]


def _without(node: Node, columns: list[str]) -> Node:
    """A projection without some of its columns: those of checks are computed only where they are read."""
    if not columns or not isinstance(node, logical.Project):
        return node
    return replace(node, items=tuple(item for item in node.items if item.name not in columns))


def _max_ahead(relation: Relation, type: str) -> int | None:
    option = relation.option("max_ahead")
    return parse_micros(option) if option is not None and type in TIMESTAMPS else None


def _rejected_rows(relation: Relation, lateness: tuple[WatermarkTest, ...]) -> RejectedRows | None:
    if not lateness:
        return None
    row = tuple((name, name) for name in names(relation.columns))
    return RejectedRows(relation.name, (), lateness[0].column, lateness[0].watermark, row)
