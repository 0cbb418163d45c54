"""The oracle: Spark's batch answer for the accepted rows, made deterministic where SQL allows several answers."""

import pytest

from tidegate.core.schema import Column
from tidegate.sql import parse
from tidegate.testing.oracle.batch import Batch, WatermarkValues
from tidegate.testing.oracle.inputs import DELETE, INSERT, Input, InputRow
from tidegate.testing.oracle.oracle import Oracle
from tidegate.testing.oracle.query import batch_sql, reads, uses_arrival
from tidegate.testing.oracle.statements import apply_script

COLUMNS = (Column("k", "string"), Column("x", "int"))


def query(text):
    return parse(f"CREATE MATERIALIZED VIEW v AS {text}").statements[0].query


def rows(oracle, view):
    return sorted((row.values for row in oracle.answer(view).rows), key=repr)


@pytest.fixture
def oracle(spark):
    created = Oracle(WatermarkValues(Batch(spark)))
    created.add_input(Input("s", COLUMNS, source=True))
    created.add_input(Input("t", COLUMNS, source=False))
    return created


def write_rows(oracle, relation, *rows):
    oracle.write(relation, [InputRow(action, row) for action, row in rows])


@pytest.mark.parametrize(
    ("text", "batch"),
    [
        ("SELECT k FROM t EMIT CHANGES", "SELECT k FROM t"),
        ("SELECT k, x FROM t ORDER BY x LIMIT 2", "SELECT k, x FROM t ORDER BY x, 1, 2 LIMIT 2"),
        ("SELECT * FROM t ORDER BY x DESC LIMIT 2", "SELECT * FROM t ORDER BY x DESC, 1, 2 LIMIT 2"),
        ("SELECT array_agg(x) AS a FROM t", "SELECT SORT_ARRAY(array_agg(x)) AS a FROM t"),
        ("SELECT approx_count_distinct(x) AS n FROM t", "SELECT COUNT(DISTINCT x) AS n FROM t"),
        (
            "SELECT k FROM (SELECT *, row_number() OVER (ORDER BY x) AS n FROM t) WHERE n < 3",
            "SELECT k FROM (SELECT *, row_number() OVER (ORDER BY x, `k`, `x`) AS n FROM t) WHERE n < 3",
        ),
    ],
)
def test_a_query_with_several_valid_answers_becomes_deterministic(text, batch):
    assert batch_sql(query(text), lambda _: ("k", "x")).strip() == batch


def test_what_a_query_reads_and_whether_order_matters():
    parsed = query("WITH c AS (SELECT k FROM T) SELECT FIRST(k) AS f FROM c UNION ALL SELECT k FROM s")
    assert set(reads(parsed)) == {"t", "s"}
    assert uses_arrival(parsed)
    assert not uses_arrival(query("SELECT MAX(k) AS first FROM t"))


def test_answers_follow_the_accepted_rows(oracle):
    oracle.add_view("sums", query("SELECT k, SUM(x) AS total FROM t GROUP BY k"), True)
    oracle.add_view("n", query("SELECT COUNT(*) AS n FROM sums"), True)
    write_rows(oracle, "t", (INSERT, ("a", 1)), (INSERT, ("a", 2)), (INSERT, ("b", None)))
    assert rows(oracle, "sums") == []
    oracle.step()
    assert rows(oracle, "sums") == [("a", 3), ("b", None)]
    assert rows(oracle, "n") == [(2,)]
    write_rows(oracle, "t", (DELETE, ("b", None)), (DELETE, ("c", 1)))
    oracle.step()
    assert rows(oracle, "n") == [(1,)]


def test_a_later_view_on_a_source_sees_later_rows_also_through_plain_views(oracle):
    oracle.add_view("plain", query("SELECT x FROM s"), False)
    oracle.add_view("early", query("SELECT x FROM plain"), True)
    write_rows(oracle, "s", (INSERT, ("a", 1)))
    oracle.step()
    oracle.add_view("later", query("SELECT x FROM plain"), True)
    oracle.add_view("over", query("SELECT COUNT(*) AS n FROM early"), True)
    write_rows(oracle, "s", (INSERT, ("a", 2)))
    oracle.step()
    assert rows(oracle, "early") == [(1,), (2,)]
    assert rows(oracle, "later") == [(2,)]
    assert rows(oracle, "over") == [(2,)]


def test_statements_take_effect_in_the_next_step(oracle):
    apply_script(oracle, parse("INSERT INTO t (x) VALUES (1), (2); INSERT INTO t VALUES ('a', 3)"), None)
    oracle.step()
    assert oracle.inputs["t"].rows == [(None, 1), (None, 2), ("a", 3)]
    apply_script(oracle, parse("DELETE FROM t WHERE k IS NULL; INSERT INTO s SELECT k, x + 1 FROM t WHERE x = 3"), None)
    oracle.step()
    assert oracle.inputs["t"].rows == [("a", 3)]
    assert oracle.inputs["s"].rows == [("a", 4)]


def test_order_of_arrival_is_known_for_sources_only(oracle):
    oracle.add_view("a", query("SELECT FIRST(x) AS x FROM s"), True)
    oracle.add_view("b", query("SELECT FIRST(x) AS x FROM t"), True)
    oracle.add_view("c", query("SELECT x FROM b"), True)
    assert oracle.unanswerable("a") is None
    assert "order of arrival" in oracle.unanswerable("b")
    assert "order of arrival" in oracle.unanswerable("c")
