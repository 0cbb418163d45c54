"""The order in which the sources of a step are asked for their ends."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from tidegate.circuit.model import Branch, Circuit, Input, Op, Port
from tidegate.connectors.contract import SourceSpec
from tidegate.core.columns import Producer
from tidegate.ir.joins import LookupJoinSpec
from tidegate.ir.specs import TableSpec
from tidegate.spark.source_order import asking_order

LOOKUP = LookupJoinSpec("inner", (), (), ((), ()))


def sources(*names: str) -> dict[str, Any]:
    """Connectors of relations; a relation whose name begins with `t` is a table with a key."""
    keys = {name: ("id",) if name.startswith("t") else () for name in names}
    return {name: SimpleNamespace(spec=SourceSpec("KAFKA", name, (), key=key)) for name, key in keys.items()}


def circuit(*lookups: tuple[str, str]) -> Circuit:
    """A circuit of lookups (left, right), where the rows of the right side pass an op that stores them."""
    ops = []
    for number, (left, right) in enumerate(lookups):
        stored = Op(
            f"stored {number}", 1, TableSpec(right, (), ("id",), False), (port(Producer.of_input(right)),), (), ""
        )
        ops += [stored, Op(f"{number}", 2, LOOKUP, (port(Producer.of_input(left)), port(Producer(stored.id))), (), "")]
    names = {name for lookup in lookups for name in lookup}
    return Circuit(tuple(Input(name, ()) for name in names), tuple(ops), ())


def port(producer: Producer) -> Port:
    return Port((Branch(producer, (), ()),), (), ())


def test_streams_are_asked_first_then_the_feed_then_tables() -> None:
    assert asking_order(circuit(("s1", "t1")), sources("t1", "s1", "t2", "s2")) == [2, 4, 0, 1, 3]


def test_any_order_will_do_without_lookups_between_sources() -> None:
    assert asking_order(circuit(), sources("t1", "s1")) == []
    assert asking_order(circuit(("given", "also_given")), sources("t1", "s1")) == []


def test_the_feed_is_asked_between_what_joins_it_and_what_it_joins() -> None:
    assert asking_order(circuit(("s1", "given"), ("given", "t1")), sources("t1", "s1")) == [2, 0, 1]


def test_a_stream_behind_a_view_that_is_looked_up_is_asked_after_the_streams_that_do() -> None:
    lookups = circuit(("s2", "s1"), ("given", "s1"), ("s1", "t1"))
    assert asking_order(lookups, sources("s1", "t1", "s2")) == [3, 0, 1, 2]


def test_of_sources_that_look_up_each_other_the_first_is_asked_first() -> None:
    assert asking_order(circuit(("s1", "s2"), ("s2", "s1"), ("s2", "t1")), sources("t1", "s1", "s2")) == [0, 2, 3, 1]
