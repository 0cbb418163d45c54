"""Logical plan -> branches and ops. Equal ops, of whatever views, become one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import singledispatchmethod

from tidegate import plan as logical
from tidegate.catalog.bus import EVENTS, RESULTS
from tidegate.catalog.relation import Relation
from tidegate.circuit.identity import op_id
from tidegate.circuit.joins import interval_spec, join_spec, lookup_spec
from tidegate.circuit.labels import label
from tidegate.circuit.model import (
    Branch,
    Circuit,
    Filter,
    Ingress,
    Input,
    LateFilter,
    ObservedColumn,
    Op,
    Origin,
    Output,
    Port,
    Project,
    RejectedRows,
)
from tidegate.circuit.rejected_rows import port_columns, with_row
from tidegate.core.columns import ORDER
from tidegate.core.durations import parse_micros
from tidegate.core.schema import Column, Schema, names
from tidegate.ir.joins import IntervalJoinSpec, LookupJoinSpec
from tidegate.ir.specs import (
    AggregateSpec,
    AssignWindowsSpec,
    DistinctSpec,
    GatedAggregateSpec,
    GateSpec,
    HoldBackSpec,
    KernelSpec,
    SetOpSpec,
    TableSpec,
    TemporalFilterSpec,
    TopNSpec,
    WindowAggregateSpec,
)
from tidegate.ir.windows import WatermarkTest, WindowSpec
from tidegate.kernels import aggregates
from tidegate.kernels.joins.pairs import kept as stored_columns
from tidegate.kernels.top_n import ROW_HASH
from tidegate.kernels.windowed import on_port
from tidegate.plan import Node
from tidegate.plan.words import quoted
from tidegate.traits.watermark import TIMESTAMPS, DeclaredWatermark, Watermark, Watermarks, observed_name

Branches = tuple[Branch, ...]
EVICTING = (WindowAggregateSpec, GateSpec, GatedAggregateSpec, TemporalFilterSpec, IntervalJoinSpec, LookupJoinSpec)
NO_RESULT = f"NOT startswith(coalesce(`channel`, ''), '{RESULTS}')"
EXACT_GROUPS = 10_000
"""Up to so many groups a cap is exact: they are all in one bucket."""


class Lowering:
    """Collects the inputs and ops of plans. `rows(relation, plan)` says where the rows of a relation come from.

    `begun` is the step after which each relation begins. An op over a source sees only what comes after that, so it is
    the same op as another only if both began together; so is one that forgets what is over. What else is read from
    tables and views does not depend on it.
    """

    def __init__(self, begun: Mapping[str, int]) -> None:
        self.inputs: dict[str, Input] = {}
        self.ops: dict[str, Op] = {}
        self._begun = {name.casefold(): step for name, step in begun.items()}
        self.ingresses: dict[str, Ingress] = {}
        self.watermarks: dict[str, Watermark] = {}
        self._known: dict[tuple[int, str, Node], Branches] = {}
        self._since = 0
        self._sources: set[str] = set()
        self._relation = ""

    def rows(self, relation: str, plan: Node) -> Branches:
        """The branches of a relation's plan."""
        outside = self._since, self._relation
        self._since, self._relation = self._begun.get(relation.casefold(), 0), relation
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

    def watermark(self, line: Watermark) -> str:
        """The name of a line that something is held against."""
        self.watermarks.setdefault(line.name, line)
        return line.name

    def branches(self, node: Node) -> Branches:
        place = (self._since, self._relation, node)
        found = self._known.get(place)
        if found is None:
            found = self._known[place] = self._lower(node)
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
        rows = self._held_back(relation, (Branch(given.producer, (), relation.columns),))
        tests = self._late_tests(relation.name, logical.declared_watermarks(relation))
        if not node.stored or not relation.primary_key:
            self._ingress(relation, rows, tests)
            rows = _late_filtered(rows, tests)
        if not node.stored:
            return tuple(_followed(branch, _selected(relation.columns), relation.columns) for branch in rows)
        stored = self._table(relation, rows, tests if relation.primary_key else ())
        if relation.primary_key:
            self._ingress(relation, stored, ())
        return stored

    def _held_back(self, relation: Relation, rows: Branches) -> Branches:
        """Rows that wait until later ones were seen come through an op of their own."""
        notes = [note for note in relation.times if note.kind == "hold_back"]
        if not notes:
            return rows
        types = {column.name: column.type for column in relation.columns}
        held = {
            note.column: DeclaredWatermark(types[note.column], relation.name, note.column, "hold_back", note.sql)
            for note in notes
        }
        seen = tuple(ObservedColumn(column, line.name) for column, line in held.items())
        name = f"{relation.name}, as it arrives"
        self.ingresses.setdefault(name, Ingress(relation.name, rows, relation.columns, (), seen))
        spec = HoldBackSpec(
            names(relation.columns),
            tuple(WatermarkTest(column, self.watermark(line), True) for column, line in held.items()),
        )
        port = Port(rows, relation.columns, _hashable(relation.columns), ordered=True)
        columns = (*relation.columns, Column(ORDER, "bigint", False))
        return self._op(spec, (port,), columns, self._begun.get(relation.name.casefold(), 0))

    def _table(self, relation: Relation, rows: Branches, lateness: tuple[WatermarkTest, ...]) -> Branches:
        columns, key = names(relation.columns), relation.primary_key
        spec = TableSpec(relation.name, columns, key, relation.append_only, lateness)
        rejected = _rejected_of(relation, lateness)
        port = Port(rows, relation.columns, key or _hashable(relation.columns), ordered=True, rejected=rejected)
        return self._op(spec, (port,), relation.columns, self._begun.get(relation.name.casefold(), 0))

    def _late_tests(self, relation: str, lines: Watermarks) -> tuple[WatermarkTest, ...]:
        """The tests of LATENESS. With WATERMARK FOR on the same column only LATENESS closes the door."""
        found = [
            (column, each)
            for column, line in lines
            for each in line.declarations
            if each.note == "lateness" and each.relation == relation
        ]
        return tuple(WatermarkTest(column, self.watermark(line)) for column, line in found)

    def _ingress(self, relation: Relation, rows: Branches, tests: tuple[WatermarkTest, ...]) -> None:
        seen = tuple(
            ObservedColumn(column, observed_name(relation.name, column), _max_ahead(relation, line.type))
            for column, line in logical.declared_watermarks(relation)
        )
        if relation is EVENTS:
            rows = tuple(_followed(branch, Filter(NO_RESULT), branch.columns) for branch in rows)
            rows = _narrowed(rows, [each.column for each in seen])
        if seen or tests:
            self.ingresses.setdefault(relation.name, Ingress(relation.name, rows, relation.columns, tests, seen))

    @_lower.register
    def _(self, node: logical.View) -> Branches:
        return tuple(self._through(node.name, branch) for branch in self.rows(node.name, node.plan))

    def _through(self, view: str, branch: Branch) -> Branch:
        op = self.ops.get(branch.producer)
        if op is None or not op.evicts:
            return branch
        return replace(branch, origin=Origin(view, len(branch.steps), branch.columns))

    @_lower.register
    def _(self, node: logical.Project) -> Branches:
        step = Project(tuple((item.name, item.expression.sql) for item in node.items))
        return tuple(_followed(branch, step, node.schema) for branch in self.branches(node.input))

    @_lower.register
    def _(self, node: logical.Clocks) -> Branches:
        kept = [(name, quoted(name)) for name in node.input.columns]
        step = Project((*kept, *((name, "CAST(NULL AS TIMESTAMP)") for name in node.names)))
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
        return self._op(self._aggregate(node), (self._aggregate_port(node),), node.schema)

    def _aggregate(self, node: logical.Aggregate) -> AggregateSpec:
        below, cap = node.input.traits, node.max_groups
        over = self._eviction(node.input, node.keys) if cap is None else ()
        return AggregateSpec(node.keys, node.calls, below.append_only, not node.keys, cap, over, below.delayed)

    def _eviction(self, below: Node, columns: tuple[str, ...]) -> tuple[WatermarkTest, ...]:
        """Eviction test: groups below this strict watermark can never change."""
        lines = [(name, line) for name in columns if (line := below.traits.watermark(name)) is not None and line.strict]
        return tuple(WatermarkTest(name, self.watermark(line)) for name, line in lines[:1])

    def _aggregate_port(self, node: logical.Aggregate) -> Port:
        spec = self._aggregate(node)
        key = () if node.max_groups is not None and node.max_groups <= EXACT_GROUPS else node.keys
        port = replace(self._port(node.input, key), hashes=aggregates.hashes(spec), ordered=aggregates.ordered(spec))
        return port if node.max_groups is None else self._rejecting(port, node.input, (WatermarkTest("", ""),))

    @_lower.register
    def _(self, node: logical.WindowAggregate) -> Branches:
        spec = self._windowed(node)
        return self._op(spec, (self._window_port(node, spec),), node.schema)

    @_lower.register
    def _(self, node: logical.Window) -> Branches:
        spec = AssignWindowsSpec(_typed(node.window, node.input), names(node.input.schema), node.partition)
        key = node.partition if node.window.kind == "session" else _hashable(node.input.schema)
        return self._op(spec, (self._port(node.input, key),), node.schema)

    @_lower.register
    def _(self, node: logical.Gate) -> Branches:
        gate = GateSpec(
            columns=node.columns,
            release=tuple(
                WatermarkTest(each.column, self.watermark(each.release), each.inclusive) for each in node.closing
            ),
            late=()
            if node.every
            else tuple(WatermarkTest(e.column, self.watermark(e.late), e.inclusive) for e in node.closing),
            every=node.every,
            delayed=node.input.traits.delayed,
        )
        below = node.input
        if isinstance(below, logical.WindowAggregate):
            spec = self._windowed(below)
            return self._op(GatedAggregateSpec(spec, gate), (self._window_port(below, spec),), node.schema)
        if isinstance(below, logical.Aggregate):
            gate = replace(gate, delayed=below.input.traits.delayed)
            port = self._rejecting(self._aggregate_port(below), below.input, gate.late)
            return self._op(GatedAggregateSpec(self._aggregate(below), gate), (port,), node.schema)
        port = self._rejecting(self._port(below, _hashable(below.schema)), below, gate.late)
        return self._op(gate, (port,), node.schema)

    @_lower.register
    def _(self, node: logical.TemporalFilter) -> Branches:
        spec = TemporalFilterSpec(node.columns, node.since, node.until)
        return self._op(spec, (self._port(node.input, _hashable(node.schema)),), node.schema)

    @_lower.register
    def _(self, node: logical.IngressCheck) -> Branches:
        told = _told(node)
        rows = self.branches(_without(node.input, told))
        late = [(column, line) for column, line in node.declared if line.strict]
        tests = tuple(WatermarkTest(column, self.watermark(line)) for column, line in late)
        seen = tuple(ObservedColumn(column, observed_name(node.view, column)) for column, _ in node.declared)
        seen_columns = [each.column for each in seen]
        looked_at = rows if tests else _narrowed(self.branches(node.input), [*seen_columns, *told])
        self.ingresses.setdefault(
            node.view, Ingress(node.view, looked_at, node.schema, tests, seen, node.checks, node.row)
        )
        return _late_filtered(rows, tests)

    def _windowed(self, node: logical.WindowAggregate) -> WindowAggregateSpec:
        window, below = _typed(node.window, node.input), node.input.traits
        keys = (*node.keys, window.start, window.end)
        aggregate = AggregateSpec(keys, node.calls, below.append_only, scalar=False, max_groups=node.max_groups)
        line = None if node.watermark is None else self.watermark(node.watermark)
        return WindowAggregateSpec(window, aggregate, line, node.lateness, below.delayed)

    def _window_port(self, node: logical.WindowAggregate, spec: WindowAggregateSpec) -> Port:
        key = () if node.max_groups is not None and node.max_groups <= EXACT_GROUPS else node.keys
        rows = on_port(spec)
        port = replace(self._port(node.input, key), hashes=aggregates.hashes(rows), ordered=aggregates.ordered(rows))
        late = WatermarkTest(node.window.time, spec.watermark or "")
        return self._rejecting(port, node.input, (late,))

    def _rejecting(self, port: Port, below: Node, late: tuple[WatermarkTest, ...]) -> Port:
        """The port with all columns of the rows that it may refuse, for the record."""
        found = with_row(below)
        if not late:
            return port
        if found is None:
            row = tuple((name, name) for name in port_columns(below))
            return replace(port, rejected=RejectedRows(None, (self._relation,), late[0].column, late[0].watermark, row))
        plan, relation, row = found
        carried = tuple(name for name in plan.columns if name not in below.columns)
        rejected = RejectedRows(relation, (self._relation,), late[0].column, late[0].watermark, row, carried)
        return replace(port, branches=self.branches(plan), columns=plan.schema, rejected=rejected)

    @_lower.register
    def _(self, node: logical.Distinct) -> Branches:
        below = node.input.traits
        over = self._eviction(node.input, node.columns)
        spec = DistinctSpec(node.columns, below.append_only, over, below.delayed)
        return self._op(spec, (self._port(node.input, node.columns),), node.schema)

    @_lower.register
    def _(self, node: logical.SetOp) -> Branches:
        spec = SetOpSpec(node.kind, node.all, node.columns)
        ports = tuple(self._port(side, node.columns) for side in node.inputs)
        return self._op(spec, ports, node.schema)

    @_lower.register
    def _(self, node: logical.Join) -> Branches:
        spec = join_spec(node)
        types = {column.name: column for side in node.inputs for column in side.schema}
        ports = tuple(
            replace(port, hashes=((ROW_HASH, _hashable(tuple(types[name] for name in columns))),))
            for port, columns in zip(self._sides(node), stored_columns(spec), strict=True)
        )
        return self._op(spec, ports, node.schema)

    @_lower.register
    def _(self, node: logical.Lookup) -> Branches:
        return self._op(lookup_spec(node), self._sides(node), node.schema)

    @_lower.register
    def _(self, node: logical.IntervalJoin) -> Branches:
        lines = tuple(None if line is None else self.watermark(line) for line in node.watermarks)
        ports = tuple(
            port if line is None else self._rejecting(port, side, (WatermarkTest(time, line),))
            for port, side, time, line in zip(self._sides(node), node.inputs, node.times, lines, strict=True)
        )
        return self._op(interval_spec(node, (lines[0], lines[1])), ports, node.schema)

    def _sides(self, node: logical.AnyJoin) -> tuple[Port, ...]:
        keys = tuple(pair.left for pair in node.keys), tuple(pair.right for pair in node.keys)
        return tuple(self._port(side, key) for side, key in zip(node.inputs, keys, strict=True))

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
        own = from_source or isinstance(spec, EVICTING)
        begins = since if since is not None else self._since if own else 0
        identity = op_id(spec, ports, columns, begins)
        if identity not in self.ops:
            level = 1 + max(self._level(branch.producer) for branch in _all(ports))
            self.ops[identity] = Op(identity, level, spec, ports, columns, label(spec))
        else:
            self.ops[identity] = _also_rejected_by(self.ops[identity], self._relation)
        return (Branch(identity, (), columns),)

    def _level(self, producer: str) -> int:
        return self.ops[producer].level if producer in self.ops else 0


def circuit_of(name: str, plan: Node, kind: str, visible: int, begun: Mapping[str, int] | None = None) -> Circuit:
    """The circuit of one plan alone, whose first `visible` columns can be seen."""
    lowering = Lowering(begun or {})
    return lowering.circuit((lowering.output(name, plan, kind, visible),))


def _told(node: logical.IngressCheck) -> list[str]:
    return [*(column for column, _ in node.checks), *([node.row] if node.row is not None else [])]


def _without(node: Node, columns: list[str]) -> Node:
    """A projection without some of its columns: what is only looked at is not computed where it is not."""
    if not columns or not isinstance(node, logical.Project):
        return node
    return replace(node, items=tuple(item for item in node.items if item.name not in columns))


def _narrowed(rows: Branches, wanted: list[str]) -> Branches:
    """Only some of the columns."""
    found = []
    for branch in rows:
        columns = tuple(column for column in branch.columns if column.name in wanted)
        found.append(_followed(branch, _selected(columns), columns))
    return tuple(found)


def _all(ports: Iterable[Port]) -> Iterable[Branch]:
    return (branch for port in ports for branch in port.branches)


def _max_ahead(relation: Relation, type: str) -> int | None:
    option = relation.option("max_ahead")
    return parse_micros(option) if option is not None and type in TIMESTAMPS else None


def _typed(window: WindowSpec, input: Node) -> WindowSpec:
    """The window with the type of its time."""
    return replace(window, type=next(column.type for column in input.schema if column.name == window.time))


def _also_rejected_by(op: Op, view: str) -> Op:
    """A shared op refuses rows for every view that it serves."""

    def noted(port: Port) -> Port:
        rejected = port.rejected
        if rejected is None or not rejected.views or view in rejected.views:
            return port
        return replace(port, rejected=replace(rejected, views=(*rejected.views, view)))

    return replace(op, ports=tuple(noted(port) for port in op.ports))


def _late_filtered(rows: Branches, tests: tuple[WatermarkTest, ...]) -> Branches:
    return tuple(replace(branch, steps=(*branch.steps, LateFilter(tests))) for branch in rows) if tests else rows


def _selected(columns: Schema) -> Project:
    return Project(tuple((name, quoted(name)) for name in names(columns)))


def _rejected_of(relation: Relation, lateness: tuple[WatermarkTest, ...]) -> RejectedRows | None:
    if not lateness:
        return None
    row = tuple((name, name) for name in names(relation.columns))
    return RejectedRows(relation.name, (), lateness[0].column, lateness[0].watermark, row)


def _followed(branch: Branch, step: Filter | Project, columns: Schema) -> Branch:
    """The branch with one more step; a selection of plain columns becomes part of the projection before it."""
    if isinstance(step, Project) and step == _selected(branch.columns):
        return branch
    whole = branch.origin is not None and branch.origin.steps == len(branch.steps)
    last = branch.steps[-1] if branch.steps and not whole else None
    if isinstance(last, Project) and isinstance(step, Project):
        computed = {quoted(name): sql for name, sql in last.items}
        if all(sql in computed for _, sql in step.items):
            chosen = Project(tuple((name, computed[sql]) for name, sql in step.items))
            return replace(branch, steps=(*branch.steps[:-1], chosen), columns=columns)
    return replace(branch, steps=(*branch.steps, step), columns=columns)


def _hashable(columns: Schema) -> tuple[str, ...]:
    """The columns that Spark can hash: maps have no hash."""
    return tuple(column.name for column in columns if "map<" not in column.type)
