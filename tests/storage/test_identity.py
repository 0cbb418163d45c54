"""Op ids identify state on disk. If an id in this file changes, the state in every data folder is lost: raise the
kernel's version if that is intended, otherwise keep the stored name or the default."""

from __future__ import annotations

from dataclasses import dataclass, fields, make_dataclass, replace
from typing import Any

import pytest

from tidegate.circuit.identity import op_id
from tidegate.circuit.model import Branch, Circuit, Filter, Input, LateFilter, Op, Output, Port, Project
from tidegate.circuit.stored import CODEC, KERNEL_VERSIONS, KINDS
from tidegate.core.columns import Producer
from tidegate.core.durations import CalendarInterval
from tidegate.core.records import Codec
from tidegate.core.schema import Column
from tidegate.ir import joins, specs, windows

COLUMNS = (Column("k", "string"), Column("n", "bigint", False))
NAMES = ("k", "n")
STEPS = (
    Filter("`n` > 0"),
    Project((("k", "`k`"), ("n", "`n` + 1"))),
    LateFilter((windows.WatermarkTest("n", "s.n"),)),
)
PORT = Port((Branch(Producer("in:s"), STEPS, COLUMNS),), COLUMNS, ("k",), (("h", ("k", "n")),), True)
TEST = windows.WatermarkTest("n", "s.n", True)
CALL = specs.AggregateCall("sum", ("n",), ("bigint",), "total", "bigint", filter="f", options=(("nulls", "ignore"),))
WINDOW = windows.WindowSpec("hop", "ts", CalendarInterval(60_000_000), CalendarInterval(months=1), 5)
AGGREGATE = specs.AggregateSpec(("k",), (CALL,), True, False, 100, (TEST,))
GATE = specs.GateSpec(NAMES, (TEST,), (TEST,), 1_000_000)
KEY = joins.KeyPair("k", "k", True)
OUT = joins.OutputColumn("k", 0, "k")
CONDITION = joins.Comparison("n", "<", "n")
SIDES = (NAMES, NAMES)

SPECS: dict[str, specs.KernelSpec] = {
    "aggregate": AGGREGATE,
    "assign_windows": specs.AssignWindowsSpec(WINDOW, NAMES, ("k",)),
    "distinct": specs.DistinctSpec(NAMES, False, (TEST,), True),
    "emit_gate": GATE,
    "evicting": specs.EvictingSpec(specs.SetOpSpec("intersect", False, NAMES), ("n", "n"), ((TEST,), ())),
    "gated": specs.GatedAggregateSpec(AGGREGATE, GATE),
    "hold_back": specs.HoldBackSpec(NAMES, (TEST,)),
    "interval_join": joins.IntervalJoinSpec(
        "left", (KEY,), (OUT,), SIDES, ("n", "n"), -5, 5, ("s.n", None), early=joins.EarlyFire(7, "rowtime")
    ),
    "join": joins.JoinSpec("full", (KEY,), (OUT,), SIDES, (CONDITION,), (True, False)),
    "lookup_join": joins.LookupJoinSpec("inner", (KEY,), (OUT,), SIDES, (CONDITION,)),
    "set_operation": specs.SetOpSpec("except", True, NAMES),
    "table": specs.TableSpec("t", NAMES, ("k",), False, (TEST,)),
    "temporal_filter": specs.TemporalFilterSpec(NAMES, "a", None),
    "top_n": specs.TopNSpec(NAMES, ("k",), (specs.Order("n", True, False),), 3, 1, "rank", "r"),
    "windowed": specs.WindowAggregateSpec(WINDOW, AGGREGATE, "s.n", 5),
}
GOLDEN = {
    "aggregate": "171ee98d2149",
    "assign_windows": "0cd1b696ea70",
    "distinct": "4e742cb21f5b",
    "emit_gate": "c83723c1f62b",
    "evicting": "18d4b447acdc",
    "gated": "cfc8d2a92c32",
    "hold_back": "21fd1b3f7122",
    "interval_join": "25c31c49bcbe",
    "join": "9666519480f7",
    "lookup_join": "24cd5e69307f",
    "set_operation": "4acd43387fbb",
    "table": "7ee2fdf4562b",
    "temporal_filter": "4d64b21a3f9d",
    "top_n": "6d291fa66b61",
    "windowed": "000aa1ee92dc",
}


def identity(spec: specs.KernelSpec, codec: Codec = CODEC) -> str:
    return op_id(spec, (PORT,), COLUMNS, 3, codec)


def test_every_kernel_has_a_version_and_an_example() -> None:
    assert SPECS.keys() == KERNEL_VERSIONS.keys()
    assert all(type(spec) is KINDS[name] for name, spec in SPECS.items())


@pytest.mark.parametrize("name", sorted(SPECS))
def test_the_id_of_an_op_never_changes(name: str) -> None:
    assert identity(SPECS[name]) == GOLDEN[name]


@pytest.mark.parametrize("name", sorted(SPECS))
def test_a_spec_is_the_same_after_json(name: str) -> None:
    spec: Any = SPECS[name]
    assert CODEC.decode(KINDS[name], CODEC.encode(spec)) == spec


def test_a_circuit_is_the_same_after_json() -> None:
    ops = tuple(Op(name, 1, spec, (PORT,), COLUMNS, name) for name, spec in SPECS.items())
    output = Output("v", (Branch("aggregate", (), COLUMNS),), COLUMNS, (), ("k",), "upsert")
    circuit = Circuit((Input("s", COLUMNS),), ops, (output,))
    assert CODEC.decode(Circuit, CODEC.encode(circuit)) == circuit


def test_every_field_counts() -> None:
    ids = {identity(spec) for spec in SPECS.values()}
    ids |= {identity(replace(AGGREGATE, **change)) for change in ({"scalar": True}, {"keys": ()}, {"max_groups": None})}
    ids |= {
        op_id(AGGREGATE, (PORT, PORT), COLUMNS, 3),
        op_id(AGGREGATE, (replace(PORT, ordered=False),), COLUMNS, 3),
        op_id(AGGREGATE, (PORT,), COLUMNS[:1], 3),
        op_id(AGGREGATE, (PORT,), COLUMNS, 4),
    }
    assert len(ids) == len(SPECS) + 7


@pytest.mark.parametrize("name", ["aggregate", "distinct", "join", "set_operation", "top_n"])
def test_eviction_does_not_count(name: str) -> None:
    """It changes no answer, and the op takes over the state of a version that evicted less."""
    evicting = specs.EvictingSpec(SPECS[name], ("n",), ((TEST,),))  # type: ignore[arg-type]
    assert identity(evicting) == identity(SPECS[name])


def test_that_a_top_n_stores_only_its_top_does_not_count() -> None:
    spec = SPECS["top_n"]
    assert isinstance(spec, specs.TopNSpec)
    assert identity(replace(spec, append_only=True)) == identity(spec)


def test_nullability_does_not_count() -> None:
    nullable = tuple(replace(column, nullable=not column.nullable) for column in COLUMNS)
    assert op_id(AGGREGATE, (PORT,), nullable, 3) == identity(AGGREGATE)


def test_a_new_field_with_a_default_changes_no_id() -> None:
    existing = [(each.name, each.type, each) for each in fields(specs.DistinctSpec)]
    wider: Any = make_dataclass("Renamed", [*existing, ("added", "int", 0)], frozen=True)
    codec = Codec({**KINDS, "distinct": wider}, KERNEL_VERSIONS)
    spec = SPECS["distinct"]
    again = wider(**{each.name: getattr(spec, each.name) for each in fields(specs.DistinctSpec)})
    assert identity(again, codec) == identity(spec)
    assert identity(replace(again, added=1), codec) != identity(spec)


def test_a_new_version_of_a_kernel_changes_its_ids_alone() -> None:
    codec = Codec(KINDS, {**KERNEL_VERSIONS, "distinct": 2})
    changed = {name for name, spec in SPECS.items() if identity(spec, codec) != identity(spec)}
    assert changed == {"distinct"}
    assert codec.decode(specs.DistinctSpec, CODEC.encode(SPECS["distinct"])) == SPECS["distinct"], "old files are read"


@dataclass(frozen=True)
class NotRegistered:
    """A spec that is missing from the registry."""

    keys: tuple[str, ...] = ()


def test_every_part_of_a_circuit_is_registered() -> None:
    """A class without a stable name would be written with all its fields, and defaults would count."""
    assert "@kind" not in CODEC.encode(NotRegistered())
    for name, spec in SPECS.items():
        assert _kinds_missing(CODEC.encode(spec)) == [], name


def _kinds_missing(document: Any) -> list[Any]:
    if isinstance(document, dict):
        own = [] if "@kind" in document else [document]
        return own + [missing for value in document.values() for missing in _kinds_missing(value)]
    if isinstance(document, list):
        return [missing for value in document for missing in _kinds_missing(value)]
    return []


def test_a_producer_is_stored_as_its_text_and_read_as_a_producer() -> None:
    branch = Branch(Producer.of_input("s"), (), COLUMNS)
    document = CODEC.encode(branch)
    assert document["producer"] == "in:s"
    producer = CODEC.decode(Branch, document).producer
    assert (type(producer), producer.is_input, producer.relation, producer.op) == (Producer, True, "s", None)
    assert (Producer("4a3b").is_input, Producer("4a3b").relation, Producer("4a3b").op) == (False, None, "4a3b")
