"""The Debezium envelope: changes with before and after."""

from __future__ import annotations

import datetime as dt
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from tests.formats.envelopes import CASES, CUP, NO_BEFORE, PEN
from tests.formats.records import TRADES, Record, changes, reading, rows, summarize, writing
from tests.tiers import examples
from tidegate.core.schema import Column, Schema
from tidegate.formats.contract import Layout, Parts, split
from tidegate.formats.debezium import pair_updates


def envelope(op: str | None, before: object = None, after: object = None, wrapped: bool = False) -> Record:
    payload = {"before": before, "after": after, "op": op, "ts_ms": 1, "source": {"db": "x"}}
    return None, json.dumps({"schema": {"type": "struct"}, "payload": payload} if wrapped else payload)


ENVELOPES = [
    envelope("c", after=PEN),
    envelope("r", after=PEN, wrapped=True),
    envelope("u", before=PEN, after=PEN | {"qty": 5}),
    envelope("u", before=PEN, after=CUP, wrapped=True),
    envelope("u", after=CUP),
    envelope("d", before=PEN),
    (None, None),
    envelope("d", before={"id": 1}),
    envelope("d"),
    envelope("t"),
    envelope("x", after=PEN),
    envelope("c"),
    (None, json.dumps(PEN)),
    envelope("c", after=PEN | {"qty": "many"}),
    envelope("u", before=PEN | {"id": "one"}, after=PEN, wrapped=True),
    (None, "{"),
]
COMMON = [
    (9, "op t: truncate is not applied, delete the rows instead"),
    (10, "op x is unknown"),
    (11, "after is missing"),
    (12, "the record has no op: it is not a Debezium envelope"),
    (13, "qty: 'many' is not a INT"),
    (14, "before.id: 'one' is not a BIGINT"),
    (15, "not a JSON object"),
]


@pytest.mark.parametrize("format", ["debezium", "debezium_json"])
def test_without_a_key_updates_and_deletes_need_before(spark: SparkSession, format: str) -> None:
    results = rows(spark, reading(TRADES, format), ENVELOPES)
    assert summarize(results) == [
        (0, 1, 1, "pen", 1),
        (1, 1, 1, "pen", 1),
        (2, -1, 1, "pen", 1),
        (2, 1, 1, "pen", 5),
        (3, -1, 1, "pen", 1),
        (3, 1, 2, "cup", 2),
        (4, NO_BEFORE),
        (5, -1, 1, "pen", 1),
        (7, -1, 1, None, None),
        (8, NO_BEFORE),
        *COMMON,
    ]
    assert [row["__row_of_record"] for row in results[:6]] == [0, 0, 0, 1, 0, 1]


def test_with_a_key_rows_are_replaced(spark: SparkSession) -> None:
    columns = (TRADES[0], Column("name", "string", nullable=False), TRADES[2])
    results = rows(spark, reading(columns, "debezium", ["id"]), [*ENVELOPES, envelope("d", before={"name": "pen"})])
    assert summarize(results) == [
        (0, 1, 1, "pen", 1),
        (1, 1, 1, "pen", 1),
        (2, 1, 1, "pen", 5),
        (3, -1, 1, "pen", 1),
        (3, 1, 2, "cup", 2),
        (4, 1, 2, "cup", 2),
        (5, -1, 1, "pen", 1),
        (7, -1, 1, None, None),
        (8, NO_BEFORE),
        *COMMON,
        (16, "before lacks the key"),
    ]


def test_envelopes_become_changes_of_a_table(spark: SparkSession) -> None:
    """The event bus decodes the same cases in tests/kafka/test_bus.py."""
    results = rows(spark, reading(TRADES, "debezium", ["id"]), [(None, case.value) for case in CASES])
    expected = []
    for number, case in enumerate(CASES):
        if isinstance(case.changes, str):
            expected.append((number, case.changes))
        else:
            expected += [(number, weight, *row.values()) for weight, row in case.changes]
    assert summarize(results) == expected


def test_times_as_debezium_writes_them(spark: SparkSession) -> None:
    columns: Schema = (Column("day", "date"), Column("at", "timestamp"), Column("local", "timestamp_ntz"))
    noon = dt.datetime(2024, 5, 1, 12)
    micros = 1_714_564_800_000_000
    after = [
        {"day": 19844, "at": "2024-05-01T12:00:00Z", "local": micros},
        {"day": "2024-05-01", "at": micros, "local": "2024-05-01T12:00:00"},
        {"day": 99_999_999},
    ]
    results = summarize(rows(spark, reading(columns, "debezium"), [envelope("c", after=row) for row in after]), columns)
    assert results == [
        (0, 1, noon.date(), noon, noon),
        (1, 1, noon.date(), noon, noon),
        (2, "day: '99999999' is not a DATE"),
    ]


def test_changes_are_written_as_envelopes() -> None:
    table = changes(
        TRADES,
        ("+I", 1, "pen", 1),
        ("-U", 2, "cup", 1),
        ("-U", 3, "hat", 1),
        ("+U", 3, "hat", 2),
        ("+U", 2, "cup", 2),
        ("-D", 4, "mug", None),
    )
    encoder = writing(TRADES, "debezium", ["id"])
    assert encoder.takes == "changelog"
    records = list(encoder.records(table))
    assert [key for key, _ in records] == [b'{"id":1}', b'{"id":3}', b'{"id":2}', b'{"id":4}', b'{"id":4}']
    assert records[0][1] == (b'{"before":null,"after":{"id":1,"name":"pen","qty":1},"source":{"step":7},"op":"c"}')
    assert json.loads(records[2][1] or b"")["before"] == {"id": 2, "name": "cup", "qty": 1}
    assert json.loads(records[2][1] or b"")["op"] == "u"
    assert json.loads(records[3][1] or b"")["op"] == "d"
    assert records[4][1] is None


def test_without_a_key_updates_pair_with_their_neighbours() -> None:
    table = changes(
        TRADES, ("-U", 1, "a", 1), ("+I", 5, "e", 1), (-2, "-U", 2, "b", 1), (2, "+U", 2, "b", 2), ("+U", 3, "c", 1)
    )
    records = list(writing(TRADES, "debezium").records(table))
    assert [key for key, _ in records] == [None] * 5
    envelopes = [json.loads(value or b"") for _, value in records]
    assert [(e["op"], (e["before"] or {}).get("id"), (e["after"] or {}).get("id")) for e in envelopes] == [
        ("d", 1, None),
        ("c", None, 5),
        ("u", 2, 2),
        ("u", 2, 2),
        ("c", None, 3),
    ]


OPS = st.lists(st.tuples(st.sampled_from(["+I", "-U", "+U", "-D"]), st.integers(1, 3), st.integers(0, 2)), max_size=12)


@examples(200)
@given(OPS, st.booleans())
def test_pairing_neither_loses_nor_adds_rows(ops: list[tuple[str, int, int]], keyed: bool) -> None:
    """In any order of ops, inserted and removed rows are those of the table, and an update never mixes keys."""
    weighted = [
        (-weight if op[0] == "-" else weight, op, key, "x", place) for place, (op, weight, key) in enumerate(ops)
    ]
    parts: Parts = split(changes(TRADES, *weighted), Layout("trades", TRADES))
    keys: list[bytes | None] = [b"%d" % key for _, _, key in ops]
    pairs = pair_updates(parts, keys if keyed else None)
    net = [0] * len(ops)
    for change in pairs:
        lone = [("u", True, False)] if keyed and change.after is not None and ops[change.after][0] == "+U" else []
        assert (change.op, change.before is None, change.after is None) in {
            *lone,
            ("c", True, False),
            ("d", False, True),
            ("u", False, False),
        }
        if change.before is not None:
            net[change.before] -= 1
        if change.after is not None:
            net[change.after] += 1
        if change.before is not None and change.after is not None:
            assert change.before < change.after
            assert not keyed or keys[change.before] == keys[change.after]
    assert net == [row[0] for row in weighted]
    assert [c.row for c in pairs] == sorted(c.row for c in pairs)


def test_written_rows_are_read_back(spark: SparkSession) -> None:
    table = changes(TRADES, ("+I", 1, "a", 1), ("-U", 2, "b", 1), ("+U", 2, "b", 2), (-2, "-D", 3, None, None))
    records = list(writing(TRADES, "debezium").records(table))
    assert [row[1:] for row in summarize(rows(spark, reading(TRADES, "debezium"), records))] == [
        (1, 1, "a", 1),
        (-1, 2, "b", 1),
        (1, 2, "b", 2),
        (-1, 3, None, None),
        (-1, 3, None, None),
    ]


def test_ops_contain_the_change() -> None:
    encoder = writing(TRADES, "ops", key="id")
    assert encoder.takes == "changelog"
    assert list(encoder.records(changes(TRADES, (-2, "-D", 1, "pen", 1)))) == [
        (b'{"id":1}', b'{"op":"-D","weight":-2,"step":7,"row":{"id":1,"name":"pen","qty":1}}')
    ]
