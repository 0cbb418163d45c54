"""Frontiers, the door and hold-back of the naive model, by hand."""

from datetime import UTC, datetime

from tidegate.core.durations import CalendarInterval
from tidegate.core.schema import Column
from tidegate.core.types import Type
from tidegate.testing.inputs import DELETE, INSERT, TOMBSTONE, Given, Input
from tidegate.testing.time.amounts import INFINITE, number
from tidegate.testing.time.frontiers import Frontier, Hold, Time

S = 1_000_000
KIND = Type("timestamp")
NOON = number(datetime(2020, 1, 1, 12, tzinfo=UTC), KIND)
COLUMNS = (Column("k", "string"), Column("n", "bigint"))
BIGINT = Type("bigint")


def relation(time, key=()):
    return Input("t", COLUMNS, source=not key, key=key, time=time)


def lateness(delay):
    return Time([Frontier(1, BIGINT, delay, True)])


def step(given, *rows, clock=0):
    given.give(Given(INSERT, row) for row in rows)
    given.step(clock)
    return [row[0] for row in given.rows]


def test_the_five_rows_of_the_lateness_example_in_five_steps_and_in_one():
    rows = [("a", 1), ("b", 2), ("c", 20), ("d", 9), ("e", 10)]
    one_by_one, at_once = relation(lateness(10)), relation(lateness(10))
    for row in rows:
        step(one_by_one, row)
    assert [row[0] for row in one_by_one.rows] == ["a", "b", "c", "e"]
    assert one_by_one.late == [("d", 9)]
    assert step(at_once, *rows) == ["a", "b", "c", "d", "e"]


def test_null_is_never_late_and_refused_rows_move_nothing():
    given = relation(lateness(0))
    assert step(given, ("a", 10)) == ["a"]
    assert step(given, ("b", None), ("c", 9)) == ["a", "b"]
    assert given.time.line(1) == 10


def test_watermarks_drop_nothing_at_the_door_and_the_larger_frontier_counts():
    both = Time([Frontier(1, BIGINT, 2, False), Frontier(1, BIGINT, 5, True)])
    given = relation(both)
    step(given, ("a", 10))
    assert both.line(1) == 8
    assert step(given, ("b", 6), ("c", 4)) == ["a", "b"]


def test_rows_of_a_key_below_the_waterline_stay_as_they_are():
    given = relation(lateness(5), key=("k",))
    step(given, ("a", 1), ("b", 20))
    assert step(given, ("a", 30)) == ["a", "b"]
    given.give([Given(TOMBSTONE, ("a",)), Given(DELETE, ("b", None))])
    given.step()
    assert given.rows == [("a", 1)]
    assert given.late == [("a", 30), ("a",)]


def test_advance_sets_the_frontier_itself_and_never_back():
    given = relation(lateness(5))
    step(given, ("a", 10))
    given.time.advance(1, 8)
    given.time.advance(1, 3)
    assert given.time.line(1) == 8
    given.time.end()
    assert given.time.line(1) == INFINITE
    assert step(given, ("b", 1_000)) == ["a"]


def test_held_rows_come_in_the_micro_batch_after_the_value_that_frees_them():
    given = relation(Time([], [Hold(1, BIGINT, 5)]))
    assert step(given, ("a", 10), ("n", None)) == ["n"]
    assert step(given, ("b", 15)) == ["n"]
    assert given.waiting
    assert step(given) == ["n", "a"]
    assert not given.waiting
    assert step(given, ("c", 9)) == ["n", "a", "c"]


def test_a_held_row_moves_the_waterline_only_when_it_comes():
    given = relation(Time([Frontier(1, BIGINT, 0, True)], [Hold(1, BIGINT, 5)]))
    step(given, ("a", 10), ("b", 15))
    assert given.time.line(1) is None
    assert step(given) == ["a"]
    assert given.time.line(1) == 10


def test_an_idle_input_follows_the_clock():
    time = Time([Frontier(0, KIND, CalendarInterval(2 * S), False)], idle_timeout=10 * S)
    time.accept([(datetime(2020, 1, 1, 12, 0, 3, tzinfo=UTC),)], clock=0)
    time.tick(9 * S)
    assert time.line(0) == NOON + 1 * S
    time.tick(10 * S)
    assert time.line(0) == NOON + 11 * S
    time.accept([(datetime(2020, 1, 1, 12, 0, 4, tzinfo=UTC),)], clock=12 * S)
    assert time.line(0) == NOON + 11 * S


def test_times_far_ahead_of_the_clock_move_nothing():
    time = Time([Frontier(0, KIND, CalendarInterval(), False)], max_ahead=60 * S)
    time.accept([(datetime(2020, 1, 1, 12, 1, 1, tzinfo=UTC),)], clock=NOON)
    assert time.line(0) is None
    time.accept([(datetime(2020, 1, 1, 12, 1, tzinfo=UTC),)], clock=NOON)
    assert time.line(0) == NOON + 60 * S
