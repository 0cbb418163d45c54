"""The naive model of inputs: bags, keyed tables, append-only tables and sources."""

from tidegate.core.schema import Column
from tidegate.testing.oracle.inputs import DELETE, INSERT, TOMBSTONE, Input, InputRow

COLUMNS = (Column("k", "string"), Column("v", "bigint"))


def after(relation, *rows):
    relation.write(InputRow(action, row) for action, row in rows)
    relation.step()
    return relation.rows


def test_a_bag_counts_rows_and_rejects_deletes_of_missing_ones():
    bag = Input("t", COLUMNS, source=False)
    assert after(bag, (INSERT, ("a", 1)), (INSERT, ("a", 1)), (DELETE, ("b", 1))) == [("a", 1), ("a", 1)]
    assert after(bag, (DELETE, ("a", 1))) == [("a", 1)]
    assert after(bag, (DELETE, ("c", None)), (INSERT, ("c", None))) == [("a", 1), ("c", None)]


def test_the_last_writer_of_a_key_wins_in_order():
    table = Input("t", COLUMNS, source=False, key=("k",))
    assert after(table, (INSERT, ("a", 1)), (INSERT, ("a", 2)), (INSERT, (None, 3))) == [("a", 2)]
    assert after(table, (TOMBSTONE, ("a",)), (INSERT, ("a", 4)), (DELETE, ("a", 99))) == []
    assert after(table, (DELETE, ("zz", 1))) == []


def test_append_only_rejects_a_second_row_of_a_key():
    table = Input("t", COLUMNS, source=False, key=("k",), append_only=True)
    assert after(table, (INSERT, ("a", 1)), (INSERT, ("a", 2)), (INSERT, ("b", 2))) == [("a", 1), ("b", 2)]


def test_rows_take_effect_in_the_step():
    source = Input("s", COLUMNS, source=True)
    source.write([InputRow(INSERT, ("a", 1))])
    assert source.rows == []
    assert source.step()
    assert not source.step()
    assert source.rows == [("a", 1)]
