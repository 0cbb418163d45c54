"""The order in which the sources of a step are asked how far the step shall reach.

Spark asks one source after the other. What is written in between belongs to the step if its source is asked later. So
streams are asked first and tables last: a stream row joins all that was in a table before the row was written."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from tidegate.circuit.model import Circuit, Port, upstream
from tidegate.connectors.contract import StreamSource
from tidegate.ir.joins import LookupJoinSpec
from tidegate.spark import compat

FEED = 0
"""The position of the feed among the sources of a query; connectors follow in the order of their definition."""
_JAVA = Path(__file__).with_name("SourceOrder.java")
_CLASS = "tidegate.SourceOrder"


def asking_order(circuit: Circuit, sources: Mapping[str, StreamSource]) -> list[int]:
    """The positions of all sources in the order in which they must be asked; empty if any order will do.

    What a lookup joins comes after the rows that it joins it to. Where lookups leave it open, or want both of two
    sources after the other, the order is streams, feed, tables.
    """
    positions = {relation: number for number, relation in enumerate(sources, start=FEED + 1)}
    pairs = {pair for pair in _pairs(circuit, positions) if pair[0] != pair[1]}
    if not pairs:
        return []
    waiting = [number for relation, number in positions.items() if not sources[relation].spec.key]
    waiting += [FEED, *(number for relation, number in positions.items() if sources[relation].spec.key)]
    order: list[int] = []
    while waiting:
        free = [each for each in waiting if not any(before in waiting for before, after in pairs if after == each)]
        order.append((free or waiting)[0])
        waiting.remove(order[-1])
    return order


def start(spark: SparkSession, writer: DataStreamWriter, name: str, order: list[int]) -> StreamingQuery:
    """Start a query of a new name, which asks its sources in an order."""
    if not order:
        return writer.start()
    listener: Any = compat.instance_of(spark, _JAVA.read_text(), _CLASS)
    session: Any = spark._jsparkSession
    listener.prepare(session, name, order)
    session.streams().addListener(listener)
    try:
        query = writer.queryName(name).start()
    finally:
        session.streams().removeListener(listener)
    failure = listener.failure()
    if failure is not None:
        query.stop()
        raise RuntimeError(f"the order of the sources cannot be set: {failure.toString()}")
    return query


def _pairs(circuit: Circuit, positions: Mapping[str, int]) -> Iterator[tuple[int, int]]:
    """The positions of a source of rows and of a source of what a lookup joins to them, for all lookups."""
    for op in circuit.ops:
        if isinstance(op.kernel, LookupJoinSpec):
            left, right = (_sources_of(circuit, port, positions) for port in op.ports)
            yield from ((before, after) for before in left for after in right)


def _sources_of(circuit: Circuit, port: Port, positions: Mapping[str, int]) -> set[int]:
    """The positions of all sources whose rows reach a port."""
    branches = [*port.branches]
    for op in upstream(circuit, port.branches):
        branches += [branch for each in op.ports for branch in each.branches]
    relations = {branch.producer.relation for branch in branches}
    return {positions.get(relation, FEED) for relation in relations if relation is not None}
