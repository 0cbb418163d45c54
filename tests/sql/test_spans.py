"""Every part of a query has its span."""

from __future__ import annotations

import pytest

from tests.sql.reading import one, query, text_of
from tidegate.errors import Span
from tidegate.sql import name_span, parse, span_of
from tidegate.sql.statements import CreateRelation, CreateView


@pytest.mark.parametrize(
    "text",
    [
        "a",
        "t.a",
        "`a b`",
        "t.a.b.c.d.e",
        "NULL",
        "true",
        "'text'",
        "-5",
        "NOT a",
        "a + b * 2",
        "(a + b)",
        "foo(a, 'x')",
        "COUNT(*)",
        "COUNT(DISTINCT a)",
        "SUM(a) FILTER (WHERE b > 1)",
        "CAST(a AS INT)",
        "CASE WHEN a THEN 1 ELSE NULL END",
        "INTERVAL '1' DAY",
        "INTERVAL '1:00' HOURS TO MINUTES",
        "DATE '2020-01-01'",
        "a IS NULL",
        "a BETWEEN 1 AND 5",
        "a IN (1, 2)",
        "arr[0]",
        "transform(arr, x -> x + 1)",
        "row_number() OVER (PARTITION BY a ORDER BY b)",
        "(SELECT MAX(a) FROM u)",
        "IF(a, b, c)",
        "EXTRACT(YEAR FROM ts)",
        "current_date",
    ],
)
def test_expressions(text: str) -> None:
    sql = f"SELECT 1 AS x, {text} FROM t"
    node = query(sql).select.expressions[1]
    assert text_of(sql, span_of(node)) == text


def test_the_name_of_a_call() -> None:
    sql = "SELECT foo(a, b) FROM t"
    assert text_of(sql, name_span(query(sql).select.expressions[0])) == "foo"


def test_spans_are_offsets_into_the_whole_script() -> None:
    text = "SELECT 1 AS ä;\n\n  CREATE TABLE t (x INT);\nCREATE VIEW v AS SELECT x + 1 AS y FROM t EMIT CHANGES;"
    _, table, view = parse(text).statements
    assert isinstance(table, CreateRelation) and isinstance(view, CreateView)
    assert text_of(text, table.span) == table.text == "CREATE TABLE t (x INT)"
    assert text_of(text, table.columns[0].name.span) == "x"
    assert text_of(text, view.query.span) == view.query.text == "SELECT x + 1 AS y FROM t EMIT CHANGES"
    assert text_of(text, span_of(view.query.select.expressions[0].this)) == "x + 1"


def test_options_and_watermarks() -> None:
    text = "CREATE SOURCE s (ts TIMESTAMP, WATERMARK FOR ts AS ts - INTERVAL '5' SECOND) WITH ('idle_timeout' = '5s')"
    create = one(CreateRelation, text)
    assert text_of(text, create.options[0].span) == "'idle_timeout' = '5s'"
    assert text_of(text, create.watermarks[0].span) == "WATERMARK FOR ts AS ts - INTERVAL '5' SECOND"


def test_a_copied_node_keeps_its_span() -> None:
    node = query("SELECT a + b FROM t").select.expressions[0]
    assert span_of(node.copy()) == Span(7, 12)
