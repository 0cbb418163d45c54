"""Logical plan -> branches and ops. Equal ops, of whatever views, become one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import singledispatchmethod

from tidegate import plan as logical
from tidegate.catalog.schema import Schema, names
from tidegate.circuit.identity import op_id
from tidegate.circuit.labels import label
from tidegate.circuit.model import Branch, Filter, Input, Op, Port, Project
from tidegate.kernels import aggregates
from tidegate.kernels.specs import AggregateSpec, DistinctSpec, KernelSpec, SetOpSpec, TableSpec, TopNSpec
from tidegate.kernels.top_n import ROW_HASH
from tidegate.plan import Node
from tidegate.plan.words import quoted

Branches = tuple[Branch, ...]


class Lowering:
    """Collects the inputs and ops of plans. `rows(relation, plan)` says where the rows of a relation come from.

    `begun` is the step after which each relation begins. An op over a source sees only what comes after that, so it is
    the same op as another only if both began together; what is read from tables and views does not depend on it.
    """

    def __init__(self, begun: Mapping[str, int]) -> None:
        self.inputs: dict[str, Input] = {}
        self.ops: dict[str, Op] = {}
        self._begun = {name.casefold(): step for name, step in begun.items()}
        self._known: dict[tuple[int, Node], Branches] = {}
        self._since = 0
        self._sources: set[str] = set()

    def rows(self, relation: str, plan: Node) -> Branches:
        """The branches of a relation's plan."""
        outside, self._since = self._since, self._begun.get(relation.casefold(), 0)
        try:
            return self.branches(plan)
        finally:
            self._since = outside

    def branches(self, node: Node) -> Branches:
        found = self._known.get((self._since, node))
        if found is None:
            found = self._known[self._since, node] = self._lower(node)
        return found

    @singledispatchmethod
    def _lower(self, node: Node) -> Branches:
        raise TypeError(f"{type(node).__name__} cannot be maintained")

    @_lower.register
    def _(self, node: logical.Scan) -> Branches:
        relation = node.relation
        given = self.inputs.setdefault(relation.name, Input(relation.name, relation.columns))
        if relation.kind == "source":
            self._sources.add(given.producer)
        rows = (Branch(given.producer, (), relation.columns),)
        if not node.stored:
            return rows
        columns, key = names(relation.columns), relation.primary_key
        spec = TableSpec(relation.name, columns, key, relation.append_only)
        port = Port(rows, relation.columns, key or _hashable(relation.columns), ordered=True)
        return self._op(spec, (port,), relation.columns, self._begun.get(relation.name.casefold(), 0))

    @_lower.register
    def _(self, node: logical.View) -> Branches:
        return self.rows(node.name, node.plan)

    @_lower.register
    def _(self, node: logical.Project) -> Branches:
        step = Project(tuple((item.name, item.expression.sql) for item in node.items))
        return tuple(_followed(branch, step, node.schema) for branch in self.branches(node.input))

    @_lower.register
    def _(self, node: logical.Filter) -> Branches:
        step = Filter(node.condition.sql)
        return tuple(_followed(branch, step, branch.columns) for branch in self.branches(node.input))

    @_lower.register
    def _(self, node: logical.UnionAll) -> Branches:
        return tuple(branch for side in node.sides for branch in self.branches(side))

    @_lower.register
    def _(self, node: logical.Aggregate) -> Branches:
        spec = AggregateSpec(node.keys, node.calls, node.input.traits.append_only, scalar=not node.keys)
        port = replace(
            self._port(node.input, node.keys), hashes=aggregates.hashes(spec), ordered=aggregates.ordered(spec)
        )
        return self._op(spec, (port,), node.schema)

    @_lower.register
    def _(self, node: logical.Distinct) -> Branches:
        spec = DistinctSpec(node.columns, node.input.traits.append_only)
        return self._op(spec, (self._port(node.input, node.columns),), node.schema)

    @_lower.register
    def _(self, node: logical.SetOp) -> Branches:
        spec = SetOpSpec(node.kind, node.all, node.columns)
        ports = tuple(self._port(side, node.columns) for side in node.inputs)
        return self._op(spec, ports, node.schema)

    @_lower.register
    def _(self, node: logical.TopN) -> Branches:
        spec = TopNSpec(
            columns=node.input.columns,
            partition=node.partition,
            order=node.order,
            limit=node.limit,
            offset=node.offset,
            function=node.function,
            rank=node.rank,
        )
        hashes = ((ROW_HASH, _hashable(node.input.schema)),)
        port = replace(self._port(node.input, node.partition), hashes=hashes)
        return self._op(spec, (port,), node.schema)

    def _port(self, node: Node, key: tuple[str, ...]) -> Port:
        return Port(self.branches(node), node.schema, key)

    def _op(self, spec: KernelSpec, ports: tuple[Port, ...], columns: Schema, since: int | None = None) -> Branches:
        from_source = any(branch.producer in self._sources for branch in _all(ports))
        begins = since if since is not None else self._since if from_source else 0
        identity = op_id(spec, ports, columns, begins)
        if identity not in self.ops:
            level = 1 + max(self._level(branch.producer) for branch in _all(ports))
            self.ops[identity] = Op(identity, level, spec, ports, columns, label(spec))
        return (Branch(identity, (), columns),)

    def _level(self, producer: str) -> int:
        return self.ops[producer].level if producer in self.ops else 0


def _all(ports: Iterable[Port]) -> Iterable[Branch]:
    return (branch for port in ports for branch in port.branches)


def _followed(branch: Branch, step: Filter | Project, columns: Schema) -> Branch:
    """The branch with one more step; a selection of plain columns becomes part of the projection before it."""
    last = branch.steps[-1] if branch.steps else None
    if isinstance(last, Project) and isinstance(step, Project):
        computed = {quoted(name): sql for name, sql in last.items}
        if all(sql in computed for _, sql in step.items):
            chosen = Project(tuple((name, computed[sql]) for name, sql in step.items))
            return Branch(branch.producer, (*branch.steps[:-1], chosen), columns)
    return Branch(branch.producer, (*branch.steps, step), columns)


def _hashable(columns: Schema) -> tuple[str, ...]:
    """The columns that Spark can hash: maps have no hash."""
    return tuple(column.name for column in columns if "map<" not in column.type)
