"""The builder of a circuit: collects inputs, ops, ingresses and watermarks. Equal ops of several views become one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import singledispatch

from tidegate.catalog.relation import Relation
from tidegate.circuit.identity import op_id
from tidegate.circuit.labels import label
from tidegate.circuit.lower.branches import Branches
from tidegate.circuit.lower.rejected_rows import port_columns, with_row
from tidegate.circuit.model import Branch, Circuit, Ingress, Input, Op, Output, Port, RejectedRows
from tidegate.core.columns import Producer
from tidegate.core.schema import Schema
from tidegate.ir.joins import IntervalJoinSpec, LookupJoinSpec
from tidegate.ir.specs import (
    EvictingSpec,
    GatedAggregateSpec,
    GateSpec,
    KernelSpec,
    TemporalFilterSpec,
    WindowAggregateSpec,
)
from tidegate.ir.windows import WatermarkTest
from tidegate.plan import Node
from tidegate.traits.watermark import Watermark

EVICTING = (WindowAggregateSpec, GateSpec, GatedAggregateSpec, TemporalFilterSpec, IntervalJoinSpec, LookupJoinSpec)


class CircuitBuilder:
    """Collects the inputs and ops of plans. `rows(relation, plan)` gives the branches of a relation.

    `begun` is the step after which each relation begins. An op over a source reads only rows of later steps, so it
    equals another op only if both begin together; the same holds for ops that evict. Other ops over tables and views do
    not depend on it.
    """

    def __init__(self, begun: Mapping[str, int]) -> None:
        self.inputs: dict[str, Input] = {}
        self.ops: dict[str, Op] = {}
        self._begun = {name.casefold(): step for name, step in begun.items()}
        self.ingresses: dict[str, Ingress] = {}
        self.watermarks: dict[str, Watermark] = {}
        self._lowered: dict[tuple[int, str, Node], Branches] = {}
        self._since = 0
        self._sources: set[Producer] = set()
        self._relation = ""
        self._dated: dict[str, set[str]] = {}

    def rows(self, relation: str, plan: Node) -> Branches:
        """The branches of a relation's plan."""
        outside = self._since, self._relation
        self._since, self._relation = self.begins(relation), relation
        try:
            return self.branches(plan)
        finally:
            self._since, self._relation = outside

    def output(self, name: str, plan: Node, kind: str, visible: int, owner: str | None = None) -> Output:
        """The output of a plan whose first `visible` columns can be seen. `owner`: the relation it is computed for."""
        return Output(
            relation=name,
            branches=self.rows(owner or name, plan),
            columns=plan.schema[:visible],
            hidden=plan.schema[visible:],
            key=plan.traits.key,
            kind=kind,
            mark=plan.traits.mark,
        )

    def circuit(self, outputs: tuple[Output, ...]) -> Circuit:
        """Everything that was lowered, with these outputs."""
        inputs = tuple(self.inputs[name] for name in sorted(self.inputs))
        ingresses = tuple(self.ingresses[name] for name in sorted(self.ingresses))
        ops = tuple(sorted(self.ops.values(), key=lambda op: (op.level, op.id)))
        return Circuit(
            inputs, ops, outputs, ingresses, tuple(self.watermarks[name] for name in sorted(self.watermarks))
        )

    def watermark(self, watermark: Watermark) -> str:
        """Register a watermark that something is compared with; returns its name."""
        self.watermarks.setdefault(watermark.name, watermark)
        return watermark.name

    def input(self, relation: Relation) -> Input:
        """Register a relation that feeds the circuit."""
        entry = self.inputs.setdefault(relation.name, Input(relation.name, relation.columns))
        if relation.kind == "source":
            self._sources.add(entry.producer)
        return entry

    def begins(self, relation: str) -> int:
        """The step after which a relation begins."""
        return self._begun.get(relation.casefold(), 0)

    def branches(self, node: Node) -> Branches:
        """The branches of a node, lowered once for each relation and beginning."""
        key = (self._since, self._relation, node)
        if key not in self._lowered:
            self._lowered[key] = lower(node, self)
        return self._lowered[key]

    def port(self, node: Node, key: tuple[str, ...]) -> Port:
        """A port over a node's rows, hashed by `key`."""
        return Port(self.branches(node), node.schema, key)

    def op(self, spec: KernelSpec, ports: tuple[Port, ...], columns: Schema, since: int | None = None) -> Branches:
        """Add an op, or find the equal one; returns the branch of its output."""
        from_source = any(branch.producer in self._sources for branch in _all(ports))
        own = from_source or isinstance(spec, EVICTING) or self._loses_content(spec, ports)
        begins = since if since is not None else self._since if own else 0
        identity = op_id(spec, ports, columns, begins)
        self._dated.setdefault(identity, set()).update(self._dated_by(ports), {self._relation} if own else ())
        if identity not in self.ops:
            level = 1 + max(self._level(branch.producer) for branch in _all(ports))
            self.ops[identity] = Op(identity, level, spec, ports, columns, label(spec))
        else:
            self.ops[identity] = _add_rejecting_view(self.ops[identity], self._relation)
        return (Branch(Producer(identity), (), columns),)

    def rejecting(self, port: Port, below: Node, late: tuple[WatermarkTest, ...]) -> Port:
        """The port with all columns of the rows that it may reject, so that they can be recorded whole."""
        carrying = with_row(below)
        if not late or carrying is None:
            return self.recording(port, below, late)
        plan, relation, row = carrying
        carried = tuple(name for name in plan.columns if name not in below.columns)
        rejected = RejectedRows(relation, (self._relation,), late[0].column, late[0].watermark, row, carried)
        return replace(port, branches=self.branches(plan), columns=plan.schema, rejected=rejected)

    def recording(self, port: Port, below: Node, late: tuple[WatermarkTest, ...]) -> Port:
        """The port, whose rejected rows are recorded with the columns that it has."""
        if not late:
            return port
        whole = with_row(below)
        relation, row = (None, ()) if whole is None else whole[1:]
        row = tuple(each for each in row if each[1] in below.columns) or tuple((n, n) for n in port_columns(below))
        return replace(port, rejected=RejectedRows(relation, (self._relation,), late[0].column, late[0].watermark, row))

    def _loses_content(self, spec: KernelSpec, ports: tuple[Port, ...]) -> bool:
        """True for an op that evicts, if no op before it is of this relation's beginning: a relation that begins later
        could share it, and would lack what was evicted."""
        return isinstance(spec, EvictingSpec) and self._relation not in self._dated_by(ports)

    def _dated_by(self, ports: tuple[Port, ...]) -> set[str]:
        """The relations whose beginning is part of the identity of an op before these ports."""
        return {name for branch in _all(ports) for name in self._dated.get(branch.producer, ())}

    def _level(self, producer: Producer) -> int:
        return self.ops[producer].level if producer in self.ops else 0


@singledispatch
def lower(node: Node, to: CircuitBuilder) -> Branches:
    """The branches that a node's rows come through; its ops are added to `to`."""
    raise TypeError(f"{type(node).__name__} cannot be maintained")


def circuit_of(name: str, plan: Node, kind: str, visible: int, begun: Mapping[str, int] | None = None) -> Circuit:
    """The circuit of one plan alone, whose first `visible` columns can be seen."""
    builder = CircuitBuilder(begun or {})
    return builder.circuit((builder.output(name, plan, kind, visible),))


def _all(ports: Iterable[Port]) -> Iterable[Branch]:
    return (branch for port in ports for branch in port.branches)


def _add_rejecting_view(op: Op, view: str) -> Op:
    """A shared op rejects rows for every view that it serves."""

    def add_view(port: Port) -> Port:
        rejected = port.rejected
        if rejected is None or not rejected.views or view in rejected.views:
            return port
        return replace(port, rejected=replace(rejected, views=(*rejected.views, view)))

    return replace(op, ports=tuple(add_view(port) for port in op.ports))
