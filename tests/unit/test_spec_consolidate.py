"""The changes of several micro-batches are consolidated into those of a step; a failure shows both sides."""

from pathlib import Path

from tidegate.testing.spec.compare import Comparable, diff
from tidegate.testing.spec.consolidate import Emitted, consolidate
from tidegate.testing.spec.report import Failure, side_by_side


def ops(changes):
    return sorted((change.op, *change.values) for change in changes)


def test_one_micro_batch_is_not_changed():
    changes = [Emitted(1, "-D", ("a", 1)), Emitted(1, "+I", ("a", 1))]
    assert consolidate(changes, (0,), False) == changes


def test_a_chain_of_updates_is_one_update():
    changes = [
        Emitted(1, "-U", ("a", 1)),
        Emitted(1, "+U", ("a", 2)),
        Emitted(2, "-U", ("a", 2)),
        Emitted(2, "+U", ("a", 3)),
    ]
    assert ops(consolidate(changes, (0,), False)) == [("+U", "a", 3), ("-U", "a", 1)]
    assert ops(consolidate(changes, None, False)) == [("+U", "a", 3), ("-U", "a", 1)]


def test_an_insert_followed_by_an_update_is_an_insert():
    changes = [Emitted(1, "+I", ("a", 1)), Emitted(2, "-U", ("a", 1)), Emitted(2, "+U", ("a", 2))]
    assert ops(consolidate(changes, (0,), False)) == [("+I", "a", 2)]
    assert ops(consolidate(changes, None, False)) == [("+I", "a", 2)]


def test_an_update_followed_by_a_delete_is_a_delete():
    changes = [Emitted(1, "-U", ("a", 1)), Emitted(1, "+U", ("a", 2)), Emitted(2, "-D", ("a", 2))]
    assert ops(consolidate(changes, (0,), False)) == [("-D", "a", 1)]
    assert ops(consolidate(changes, None, False)) == [("-D", "a", 1)]


def test_an_insert_followed_by_a_delete_is_nothing():
    changes = [Emitted(1, "+I", ("a", 1)), Emitted(2, "-D", ("a", 1))]
    assert consolidate(changes, (0,), False) == []
    assert consolidate(changes, (0,), True) == []


def test_an_upsert_output_keeps_the_last_row_of_a_key():
    changes = [Emitted(1, "+I", ("a", 1)), Emitted(2, "+U", ("a", 2)), Emitted(1, "+U", ("b", 1))]
    assert ops(consolidate(changes, (0,), True)) == [("+I", "a", 2), ("+U", "b", 1)]


def test_equal_rows_are_counted():
    changes = [Emitted(1, "+I", (1,)), Emitted(1, "+I", (1,)), Emitted(2, "-D", (1,))]
    assert ops(consolidate(changes, None, False)) == [("+I", 1)]


def test_a_failure_shows_title_location_step_both_sides_and_the_plan():
    expected, actual = [Comparable((1,)), Comparable((2,))], [Comparable((1,)), Comparable((3,))]
    lines = side_by_side(diff(expected, actual), ["+I a | 15", "-U b | 1"], ["+I a | 15", "+I c | 1"])
    failure = Failure(Path("x.spec"), 7, "A title.", "the first step", "", "< v", lines, "Scan t")
    assert failure.render().splitlines() == [
        "x.spec:7  < v",
        "  A title.",
        "  step: the first step",
        "      expected     actual",
        "      +I a | 15    +I a | 15",
        "    - -U b | 1                missing",
        "    +              +I c | 1   unexpected",
        "  EXPLAIN",
        "    Scan t",
    ]
