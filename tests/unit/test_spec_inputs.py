"""The naive model of inputs: bags, keyed tables, append-only ones, sources."""

from tidegate.core.schema import Column
from tidegate.testing.inputs import DELETE, INSERT, TOMBSTONE, Given, Input

COLUMNS = (Column("k", "string"), Column("v", "bigint"))


def after(relation, *given):
    relation.give(Given(action, row) for action, row in given)
    relation.step()
    return relation.rows


def test_a_bag_counts_and_refuses_to_delete_what_is_not_there():
    bag = Input("t", COLUMNS, source=False)
    assert after(bag, (INSERT, ("a", 1)), (INSERT, ("a", 1)), (DELETE, ("b", 1))) == [("a", 1), ("a", 1)]
    assert after(bag, (DELETE, ("a", 1))) == [("a", 1)]
    assert after(bag, (DELETE, ("c", None)), (INSERT, ("c", None))) == [("a", 1), ("c", None)]


def test_the_last_writer_of_a_key_wins_in_order():
    keyed = Input("t", COLUMNS, source=False, key=("k",))
    assert after(keyed, (INSERT, ("a", 1)), (INSERT, ("a", 2)), (INSERT, (None, 3))) == [("a", 2)]
    assert after(keyed, (TOMBSTONE, ("a",)), (INSERT, ("a", 4)), (DELETE, ("a", 99))) == []
    assert after(keyed, (DELETE, ("zz", 1))) == []


def test_append_only_refuses_a_second_row_of_a_key():
    keyed = Input("t", COLUMNS, source=False, key=("k",), append_only=True)
    assert after(keyed, (INSERT, ("a", 1)), (INSERT, ("a", 2)), (INSERT, ("b", 2))) == [("a", 1), ("b", 2)]


def test_rows_wait_for_the_step():
    source = Input("s", COLUMNS, source=True)
    source.give([Given(INSERT, ("a", 1))])
    assert source.rows == []
    assert source.step()
    assert not source.step()
    assert source.rows == [("a", 1)]
