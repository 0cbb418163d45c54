"""Rows for which an expression fails are recorded in `system.errors`. The other rows, views and steps go on."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tidegate
from tidegate import Database
from tidegate.errors import Error
from tidegate.spark.catching import ROW_SECONDS, SOURCE

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TABLE = "CREATE TABLE s (id INT, x STRING, n INT, a ARRAY<INT>, b BINARY, t TIMESTAMP)"
NEW_YEAR = datetime(2024, 1, 1, tzinfo=UTC)
FINE = {"id": 1, "x": "a", "n": 1, "a": [5], "b": b"ok", "t": NEW_YEAR}
POISON = {"id": 2, "x": "(", "n": 0, "a": [5], "b": b"\xff\xfe", "t": datetime(9999, 12, 31, tzinfo=UTC)}
EXPRESSIONS = {
    "an index": "element_at(a, n)",
    "a pattern": "regexp_replace('abc', x, '')",
    "a zone": "from_utc_timestamp(t, concat('U', IF(n = 0, '?', 'TC')))",
    "a charset": "decode(b, concat('UTF-', CAST(8 * n AS STRING)))",
    "bytes": "CAST(b AS STRING)",
    "a time": "t + INTERVAL '2' DAY",
    "nested bytes": "named_struct('p', array(CAST(b AS STRING)))",
}


def java_can_stop_threads() -> bool:
    """True up to Java 19."""
    found = subprocess.run(["java", "-version"], capture_output=True, text=True, check=True).stderr
    match = re.search(r'version "(\d+)', found)
    return match is not None and int(match[1]) < 20


@pytest.fixture
def db(spark: SparkSession, tmp_path: Path) -> Iterator[Database]:
    with tidegate.connect(tmp_path / "folder", spark=spark) as db:
        db.sql(TABLE)
        yield db


def errors(db: Database) -> list[tuple[Any, ...]]:
    columns = "relation, view, code, expression, get_json_object(row, '$.id')"
    return sorted(db.query(f"SELECT {columns} FROM system.errors").rows(), key=str)


def ids(db: Database, view: str) -> list[Any]:
    return sorted(row[0] for row in db.query(f"SELECT id FROM {view}").rows())


def test_each_kind_of_failure_is_recorded_and_the_rest_goes_on(db: Database) -> None:
    views = {f"v{number}": sql for number, sql in enumerate(EXPRESSIONS.values())}
    for view, sql in views.items():
        db.sql(f"CREATE MATERIALIZED VIEW {view} AS SELECT id, {sql} AS e FROM s")
    db.sql("CREATE MATERIALIZED VIEW ids AS SELECT id FROM s")
    db.insert("s", [FINE, POISON])
    report = db.step()
    assert report.errors == len(views)
    assert ids(db, "ids") == [1, 2]
    assert {view: ids(db, view) for view in views} == {key: [1] for key in views}
    assert errors(db) == sorted(("s", view, "EXPRESSION_FAILED", sql, "2") for view, sql in views.items())

    db.delete("s", [POISON])
    db.insert("s", [{**FINE, "id": 3}])
    assert db.step().errors == 0
    assert {view: ids(db, view) for view in views} == {key: [1, 3] for key in views}
    assert ids(db, "ids") == [1, 3]


BACKTRACKING = "(.*)(.*)(.*)(.*)(.*)(.*)(.*)(.*)(.*)[^x]"


@pytest.mark.skipif(not java_can_stop_threads(), reason="Java 20 and later cannot stop a thread")
def test_a_function_that_does_not_end_fails(db: Database) -> None:
    assert f"SECONDS = {ROW_SECONDS};" in SOURCE.read_text()
    db.sql("CREATE MATERIALIZED VIEW patterns AS SELECT id, REGEXP_REPLACE(repeat('x', id), x, '') AS e FROM s")
    db.insert("s", [FINE, {**FINE, "id": 60, "x": BACKTRACKING}, {**FINE, "id": 3}])
    assert db.step().errors == 1
    assert ids(db, "patterns") == [1, 3]
    ((message, view),) = db.query("SELECT message, view FROM system.errors").rows()
    expression = "REGEXP_REPLACE(repeat('x', id), x, '')"
    assert (view, message) == ("patterns", f"{expression}: it had no result after {ROW_SECONDS} seconds")
    db.insert("s", [{**FINE, "id": 4}])
    assert (db.step().errors, ids(db, "patterns")) == (0, [1, 3, 4])


PLACES = {
    "a filter": "SELECT id FROM s WHERE element_at(a, n) > 0",
    "a key of groups": "SELECT max(id) AS id, element_at(a, n) AS k FROM s GROUP BY element_at(a, n)",
    "an argument": "SELECT max(id) AS id, sum(element_at(a, n)) AS total FROM s",
    "a key of a join": "SELECT s.id FROM s JOIN s AS other ON element_at(s.a, s.n) = element_at(other.a, other.n)",
    "rows of a level": "SELECT id, element_at(a, n) AS e FROM (SELECT DISTINCT id, a, n FROM s)",
    "a filter of groups": "SELECT id FROM s GROUP BY id, a, n HAVING element_at(a, n) > 0",
    "an order": "SELECT id FROM s ORDER BY element_at(a, n) LIMIT 5",
    "one side of a union": "SELECT id, element_at(a, n) AS e FROM s UNION SELECT id, 5 FROM s WHERE n > 0",
}


def test_a_failure_at_any_place_of_a_query_leaves_the_row_out(db: Database) -> None:
    views = {f"v{number}": sql for number, sql in enumerate(PLACES.values())}
    for view, sql in views.items():
        db.sql(f"CREATE MATERIALIZED VIEW {view} AS {sql}")
    db.insert("s", [FINE, POISON, {**POISON, "id": 4}])
    db.step()
    db.insert("s", [{**FINE, "id": 3}])
    db.step()
    expected = {view: [3] if "max(id)" in sql else [1, 3] for view, sql in views.items()}
    expected[next(view for view, sql in views.items() if "JOIN" in sql)] = [1, 1, 3, 3]
    assert {view: ids(db, view) for view in views} == expected
    recorded = errors(db)
    assert {view for _, view, *_ in recorded} == views.keys()
    assert all(
        code == "EXPRESSION_FAILED" and "element_at" in expression and row in "24"
        for _, _, code, expression, row in recorded
    )


def test_a_value_that_a_view_passes_on_fails_where_it_is_computed(db: Database) -> None:
    db.sql("CREATE VIEW later AS SELECT id, t + INTERVAL '2' DAY AS z FROM s")
    db.sql("CREATE MATERIALIZED VIEW v AS SELECT id, z FROM later WHERE length(date_format(z, 'yyyy')) > 0")
    db.insert("s", [FINE, POISON])
    db.step()
    assert ids(db, "v") == [1]
    assert [(view, row) for _, view, _, _, row in errors(db)] == [("v", "2")]


def test_a_row_that_exhausts_the_stack_or_memory_fails_alone(db: Database) -> None:
    db.sql("CREATE MATERIALIZED VIEW deep AS SELECT id, regexp_replace(x, '(a|b)*c', '') AS e FROM s")
    db.sql("CREATE MATERIALIZED VIEW long AS SELECT id, length(repeat(x, n)) AS e FROM s")
    db.sql("CREATE MATERIALIZED VIEW wide AS SELECT id, size(sequence(1, n)) AS e FROM s")
    db.insert("s", [FINE, {**FINE, "id": 2, "x": "ab" * 200_000}, {**FINE, "id": 3, "n": 2_000_000_000}])
    db.step()
    assert {view: ids(db, view) for view in ("deep", "long", "wide")} == {
        "deep": [1, 3],
        "long": [1, 2],
        "wide": [1, 2],
    }
    assert [(view, row) for _, view, _, _, row in errors(db)] == [("deep", "2"), ("long", "3"), ("wide", "3")]


def test_the_smallest_index_ends_no_java_process(db: Database) -> None:
    """Spark reads memory outside of the array, which ends the process."""
    db.sql("CREATE MATERIALIZED VIEW v AS SELECT id, element_at(a, n) AS e, element_at(map(n, 'x'), n) AS m FROM s")
    db.insert("s", [FINE, {**FINE, "id": 2, "n": -(2**31)}])
    db.step()
    assert sorted(db.query("SELECT id, e, m FROM v").rows()) == [(1, 5, "x"), (2, None, "x")]
    assert db.query("SELECT element_at(a, n) FROM s WHERE id = 2").rows() == [(None,)]


def test_many_failing_rows_in_one_step_are_all_recorded(db: Database) -> None:
    db.sql("CREATE MATERIALIZED VIEW v AS SELECT id, element_at(a, n) AS e FROM s")
    db.insert("s", [{**(FINE if number % 2 else POISON), "id": number} for number in range(1000)])
    assert db.step().errors == 500
    assert len(ids(db, "v")) == 500
    assert {row for *_, row in errors(db)} == {str(number) for number in range(0, 1000, 2)}


def test_a_view_can_stop_the_pipeline_and_names_the_ways_out(spark: SparkSession, tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    with tidegate.connect(folder, spark=spark) as db:
        db.sql(TABLE)
        db.sql("CREATE MATERIALIZED VIEW v WITH ('on_error' = 'stop') AS SELECT id, element_at(a, n) AS e FROM s")
        db.sql("CREATE MATERIALIZED VIEW ids AS SELECT id FROM s")
        db.insert("s", [FINE])
        db.step()
        db.insert("s", [POISON])
        for _ in range(2):
            with pytest.raises(Error) as failed:
                db.step()
            assert failed.value.code == "EXPRESSION_FAILED"
            assert failed.value.message.startswith(
                "view v cannot process a row: element_at(a, n): The index 0 is invalid"
            )
            assert '"id": 2' in failed.value.message
            assert "--skip-poison" in (failed.value.hint or "") and "DROP VIEW v" in (failed.value.hint or "")
        assert ids(db, "ids") == [1]
    with tidegate.connect(folder, spark=spark, skip_poison=True) as db:
        assert db.step().errors == 1
        assert (ids(db, "v"), ids(db, "ids")) == ([1], [1, 2])
    with tidegate.connect(folder, spark=spark) as db:
        db.insert("s", [{**FINE, "id": 3}, {**POISON, "id": 4}])
        with pytest.raises(Error, match="cannot process a row"):
            db.step()
        db.sql("DROP VIEW v")
        db.step()
        assert ids(db, "ids") == [1, 2, 3, 4]
        assert [row for *_, row in errors(db)] == ["2"]


@pytest.mark.parametrize("format", ["csv", "json"])
def test_lines_that_are_not_utf_8_are_malformed_rows(spark: SparkSession, tmp_path: Path, format: str) -> None:
    rows = tmp_path / "rows"
    rows.mkdir()
    line = b"%d,%s,%d\n" if format == "csv" else b'{"id": %d, "gr\xc3\xb6\xc3\x9fe": "%s", "n": %d}\n'
    head = b"id,gr\xc3\xb6\xc3\x9fe,n\n" if format == "csv" else b""
    texts = [b"a", b"\xff\xfe", "\u00e9\ufffd\U0001f600".encode(), b"z\xc3", b"d"]
    (rows / f"one.{format}").write_bytes(head + b"".join(line % (n, text, n) for n, text in enumerate(texts)))
    with tidegate.connect(tmp_path / "folder", spark=spark) as db:
        header = ", header = 'true'" if format == "csv" else ""
        columns = "id INT, `gr\u00f6\u00dfe` STRING, n INT"
        db.sql(f"CREATE SOURCE s ({columns}) FROM FILES (path = '{rows}'{header}) FORMAT {format}")
        db.sql("CREATE MATERIALIZED VIEW plain AS SELECT id, `gr\u00f6\u00dfe` AS x FROM s")
        db.sql("CREATE MATERIALIZED VIEW upper AS SELECT id, upper(`gr\u00f6\u00dfe`) AS x FROM s WHERE n >= 0")
        db.run_once()
        expected = [(0, "a"), (2, "\u00e9\ufffd\U0001f600"), (4, "d")]
        assert sorted(db.query("SELECT * FROM plain").rows()) == expected
        assert sorted(db.query("SELECT * FROM upper").rows()) == [(n, text.upper()) for n, text in expected]
        assert [code for _, _, code, _, _ in errors(db)] == ["MALFORMED_ROW"] * 2


def test_values_in_files_that_no_view_can_hold_are_malformed_rows(spark: SparkSession, tmp_path: Path) -> None:
    """Files whose columns are only selected are read by workers, others by Spark: both reject the same rows."""
    rows = tmp_path / "rows"
    rows.mkdir()
    texts = pa.array([b"a", b"\xff\xfe", b"c", b"d"]).cast(pa.binary()).view(pa.string())
    far = pa.array([0, 0, 2**62, 0], pa.int64()).cast(pa.timestamp("us", tz="UTC"))
    table = pa.table({"id": pa.array([1, 2, 3, 4], pa.int32()), "x": texts, "t": far})
    pq.write_table(table, rows / "one.parquet")
    with tidegate.connect(tmp_path / "folder", spark=spark) as db:
        options = f"FROM FILES (path = '{rows}', format = 'parquet')"
        db.sql(f"CREATE SOURCE direct (id INT, x STRING, t TIMESTAMP) {options}")
        db.sql(f"CREATE SOURCE through (id INT, x STRING, t TIMESTAMP) {options}")
        db.sql("CREATE MATERIALIZED VIEW v1 AS SELECT id, x, t FROM direct")
        db.sql("CREATE MATERIALIZED VIEW v2 AS SELECT id, upper(x) AS x, t FROM through WHERE id > 0")
        db.run_once()
        assert (ids(db, "v1"), ids(db, "v2")) == ([1, 4], [1, 4])
        assert {(relation, row) for relation, _, _, _, row in errors(db)} == {
            (relation, row) for relation in ("direct", "through") for row in ("2", "3")
        }
        assert len(db.query("SELECT * FROM v1 ORDER BY id").rows()) == 2
