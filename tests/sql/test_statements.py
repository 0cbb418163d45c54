"""The other statements."""

from __future__ import annotations

import pytest

from tests.sql.reading import one
from tidegate.sql import parse, render
from tidegate.sql.statements import (
    Advance,
    Delete,
    Describe,
    Drop,
    Explain,
    Insert,
    Lateness,
    RefreshTable,
    Select,
    Set,
    Show,
    ShowCreate,
    Subscribe,
    Update,
)


def test_insert_values() -> None:
    insert = one(Insert, "INSERT INTO t (a, b) VALUES (1, 'x;y'), (-2, NULL), (1 + 1, DATE '2020-01-01')")
    assert insert.name.text == "t" and [n.text for n in insert.columns] == ["a", "b"]
    assert insert.values is not None and insert.query is None
    rows = [[render(cell) for cell in row.expressions] for row in insert.values.expressions]
    assert rows == [["1", "'x;y'"], ["-2", "NULL"], ["1 + 1", "DATE '2020-01-01'"]]


def test_insert_a_query() -> None:
    for text in ("INSERT INTO t SELECT a FROM u", "INSERT INTO TABLE t (SELECT a FROM u)"):
        insert = one(Insert, text)
        assert insert.values is None and insert.columns == ()
        assert insert.query is not None and "SELECT a FROM u" in render(insert.query.select)


def test_delete_and_update() -> None:
    assert one(Delete, "DELETE FROM t").where is None
    delete = one(Delete, "DELETE FROM t WHERE a = 1 AND b IS NULL")
    assert delete.where is not None and render(delete.where) == "a = 1 AND b IS NULL"
    update = one(Update, "UPDATE t SET a = a + 1, b = 'x' WHERE c IN (1, 2)")
    assert [(n.text, render(v)) for n, v in update.assignments] == [("a", "a + 1"), ("b", "'x'")]
    assert update.where is not None and render(update.where) == "c IN (1, 2)"


def test_advance_and_lateness() -> None:
    advance = one(Advance, "ADVANCE bids.ts TO TIMESTAMP '2020-01-01 00:00:00'")
    assert (advance.relation.text, advance.column.text) == ("bids", "ts")
    assert render(advance.value) == "TIMESTAMP '2020-01-01 00:00:00'"
    lateness = one(Lateness, "LATENESS v.col1 INTERVAL '1' HOUR")
    assert (lateness.view.text, lateness.column.text, render(lateness.value)) == ("v", "col1", "INTERVAL '1' HOUR")


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("SOURCE", "source"),
        ("STREAM", "stream"),
        ("TABLE", "table"),
        ("VIEW", "view"),
        ("MATERIALIZED VIEW", "view"),
        ("SINK", "sink"),
    ],
)
def test_drop_and_show_create(text: str, kind: str) -> None:
    drop = one(Drop, f"DROP {text} IF EXISTS x CASCADE")
    assert (drop.kind, drop.name.text, drop.if_exists, drop.cascade) == (kind, "x", True, True)
    plain = one(Drop, f"DROP {text} x")
    assert (plain.if_exists, plain.cascade) == (False, False)
    assert one(ShowCreate, f"SHOW CREATE {text} x").kind == kind


@pytest.mark.parametrize("what", ["sources", "tables", "views", "materialized views", "streams", "sinks", "queries"])
def test_show(what: str) -> None:
    assert one(Show, f"SHOW {what.upper()}").what == what
    assert one(Show, f"show {what}").what == what


def test_describe() -> None:
    assert not one(Describe, "DESCRIBE v").extended
    assert one(Describe, "DESC EXTENDED v").extended
    assert one(Describe, "DESCRIBE TABLE v").name.text == "v"
    assert one(Describe, "DESCRIBE system.late_rows").name.text == "system.late_rows"
    assert one(Describe, "DESCRIBE table").name.text == "table"


def test_explain() -> None:
    explain = one(Explain, "EXPLAIN (bound) SELECT a FROM t")
    assert explain.stage == "bound" and explain.query is not None and explain.view is None
    assert one(Explain, "EXPLAIN SELECT a FROM t EMIT CHANGES").stage == "circuit"
    view = one(Explain, "EXPLAIN (parsed) MATERIALIZED VIEW v").view
    assert view is not None and view.text == "v"
    assert one(Explain, "EXPLAIN (SELECT 1)").query is not None


def test_subscribe_set_refresh() -> None:
    assert one(Subscribe, "SUBSCRIBE v").from_step is None
    assert one(Subscribe, "SUBSCRIBE v FROM STEP 4").from_step == 4
    assert one(RefreshTable, "REFRESH TABLE t").name.text == "t"


@pytest.mark.parametrize(
    ("text", "name", "value"),
    [
        ("SET a = 5", "a", "5"),
        ("SET a.b = true", "a.b", "true"),
        ("SET a = 'x y'", "a", "x y"),
        ("SET a TO -1.5", "a", "-1.5"),
        ("SET 'table.exec.emit.early-fire.enabled' = 'true'", "table.exec.emit.early-fire.enabled", "true"),
    ],
)
def test_set(text: str, name: str, value: str) -> None:
    statement = one(Set, text)
    assert (statement.name, statement.value) == (name, value)


@pytest.mark.parametrize("text", ["SELECT 1", "WITH a AS (SELECT 1) SELECT * FROM a", "(SELECT 1)", "VALUES (1), (2)"])
def test_queries(text: str) -> None:
    assert one(Select, text).text == text


@pytest.mark.parametrize("text", ["", "  \n", ";;", "-- nothing", "/* nothing */;"])
def test_no_statements(text: str) -> None:
    assert parse(text).statements == ()
