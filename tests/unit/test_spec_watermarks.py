"""Declared watermarks, the ingress check and hold-back in the oracle, against values computed by hand."""

from datetime import UTC, datetime

from tidegate.core.durations import CalendarInterval
from tidegate.core.schema import Column
from tidegate.core.types import Type
from tidegate.testing.oracle.amounts import INFINITE, number
from tidegate.testing.oracle.inputs import DELETE, INSERT, TOMBSTONE, Input, InputRow
from tidegate.testing.oracle.watermarks import DeclaredWatermark, HoldBack, InputTime

S = 1_000_000
KIND = Type("timestamp")
NOON = number(datetime(2020, 1, 1, 12, tzinfo=UTC), KIND)
COLUMNS = (Column("k", "string"), Column("n", "bigint"))
BIGINT = Type("bigint")


def relation(time, key=()):
    return Input("t", COLUMNS, source=not key, key=key, time=time)


def lateness(delay):
    return InputTime([DeclaredWatermark(1, BIGINT, delay, True)])


def step(relation, *rows, clock=0):
    relation.write(InputRow(INSERT, row) for row in rows)
    relation.step(clock)
    return [row[0] for row in relation.rows]


def test_the_five_rows_of_the_lateness_example_in_five_steps_and_in_one():
    rows = [("a", 1), ("b", 2), ("c", 20), ("d", 9), ("e", 10)]
    one_by_one, at_once = relation(lateness(10)), relation(lateness(10))
    for row in rows:
        step(one_by_one, row)
    assert [row[0] for row in one_by_one.rows] == ["a", "b", "c", "e"]
    assert one_by_one.late == [("d", 9)]
    assert step(at_once, *rows) == ["a", "b", "c", "d", "e"]


def test_null_is_never_late_and_late_rows_do_not_raise_the_watermark():
    table = relation(lateness(0))
    assert step(table, ("a", 10)) == ["a"]
    assert step(table, ("b", None), ("c", 9)) == ["a", "b"]
    assert table.time.watermark(1) == 10


def test_watermark_for_rejects_nothing_and_the_larger_watermark_counts():
    both = InputTime([DeclaredWatermark(1, BIGINT, 2, False), DeclaredWatermark(1, BIGINT, 5, True)])
    table = relation(both)
    step(table, ("a", 10))
    assert both.watermark(1) == 8
    assert step(table, ("b", 6), ("c", 4)) == ["a", "b"]


def test_rows_of_a_key_below_the_watermark_do_not_change():
    table = relation(lateness(5), key=("k",))
    step(table, ("a", 1), ("b", 20))
    assert step(table, ("a", 30)) == ["a", "b"]
    table.write([InputRow(TOMBSTONE, ("a",)), InputRow(DELETE, ("b", None))])
    table.step()
    assert table.rows == [("a", 1)]
    assert table.late == [("a", 30), ("a",)]


def test_advance_sets_the_watermark_and_never_lowers_it():
    table = relation(lateness(5))
    step(table, ("a", 10))
    table.time.advance(1, 8, clock=0)
    table.time.advance(1, 3, clock=0)
    assert table.time.watermark(1) == 8
    table.time.end()
    assert table.time.watermark(1) == INFINITE
    assert step(table, ("b", 1_000)) == ["a"]


def test_rows_held_back_are_released_in_the_next_micro_batch():
    table = relation(InputTime([], [HoldBack(1, BIGINT, 5)]))
    assert step(table, ("a", 10), ("n", None)) == ["n"]
    assert step(table, ("b", 15)) == ["n"]
    assert table.has_pending
    assert step(table) == ["n", "a"]
    assert not table.has_pending
    assert step(table, ("c", 9)) == ["n", "a", "c"]


def test_a_row_held_back_raises_the_watermark_when_it_is_released():
    table = relation(InputTime([DeclaredWatermark(1, BIGINT, 0, True)], [HoldBack(1, BIGINT, 5)]))
    step(table, ("a", 10), ("b", 15))
    assert table.time.watermark(1) is None
    assert step(table) == ["a"]
    assert table.time.watermark(1) == 10


def test_an_idle_input_follows_the_clock():
    time = InputTime([DeclaredWatermark(0, KIND, CalendarInterval(2 * S), False)], idle_timeout=10 * S)
    time.observe([(datetime(2020, 1, 1, 12, 0, 3, tzinfo=UTC),)], clock=0)
    time.move_clock(9 * S)
    assert time.watermark(0) == NOON + 1 * S
    time.move_clock(10 * S)
    assert time.watermark(0) == NOON + 11 * S
    time.observe([(datetime(2020, 1, 1, 12, 0, 4, tzinfo=UTC),)], clock=12 * S)
    assert time.watermark(0) == NOON + 11 * S


def test_times_far_ahead_of_the_clock_do_not_raise_the_watermark():
    time = InputTime([DeclaredWatermark(0, KIND, CalendarInterval(), False)], max_ahead=60 * S)
    time.observe([(datetime(2020, 1, 1, 12, 1, 1, tzinfo=UTC),)], clock=NOON)
    assert time.watermark(0) is None
    time.observe([(datetime(2020, 1, 1, 12, 1, tzinfo=UTC),)], clock=NOON)
    assert time.watermark(0) == NOON + 60 * S
