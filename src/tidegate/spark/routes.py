"""Outputs that only select columns of their op: workers write them without Spark SQL."""

from __future__ import annotations

from dataclasses import replace

from tidegate.circuit.model import Op, Output, Project
from tidegate.ir.specs import AggregateSpec, GatedAggregateSpec, TableSpec, WindowAggregateSpec
from tidegate.spark.consumers import Consumer
from tidegate.spark.level import Direct
from tidegate.spark.wide_frame import is_name


def routes(readers: tuple[Consumer, ...], op: Op | None) -> tuple[bool, tuple[Direct, ...]]:
    """True if some reader needs Spark SQL, and the readers that need none. `op`: the op whose changes they receive,
    None if they receive its content."""
    pairs = [(direct_route(reader), reader.output) for reader in readers]
    direct = tuple(
        replace(route, key=None if op is None or output is None else _settled_key(route, output, op))
        for route, output in pairs
        if route is not None
    )
    return len(direct) < len(pairs), direct


def _settled_key(route: Direct, output: Output, op: Op) -> tuple[str, ...] | None:
    """The key of an output, if it includes the columns that determine an op's bucket, all of it is visible, and the op
    is the only producer of the output."""
    if output.key is None or output.hidden or output.mark or output.kind == "append" or len(output.branches) > 1:
        return None
    if len(op.ports) > 1 or not isinstance(
        op.kernel, AggregateSpec | WindowAggregateSpec | GatedAggregateSpec | TableSpec
    ):
        return None
    visible = {source for name, source in route.columns if name in output.key}
    return output.key if visible.issuperset(op.ports[0].key) else None


def direct_route(consumer: Consumer) -> Direct | None:
    """An output that only selects columns of its op."""
    if consumer.op is not None or consumer.ingress is not None:
        return None
    columns = {column.name: column.name for column in consumer.branch.columns}
    if not consumer.branch.steps:
        return Direct(consumer.address, tuple(columns.items()))
    selected: dict[str, str] | None = None
    for step in consumer.branch.steps:
        if not isinstance(step, Project) or any(not is_name(sql) for _, sql in step.items):
            return None
        names = {name: sql[1:-1].replace("``", "`") for name, sql in step.items}
        selected = {name: selected[source] if selected else source for name, source in names.items()}
    assert selected is not None
    return Direct(consumer.address, tuple(selected.items()))
