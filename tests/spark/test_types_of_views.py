"""Every type in every operator: CREATE refuses it with a place and a hint, or the view is maintained exactly."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from pyspark.sql import SparkSession

import tidegate


@dataclass(frozen=True)
class Kind:
    """A type: how a column of it is declared, the expression over the column that has it, and three values."""

    declared: str
    values: tuple[str, str, str]
    expression: str = "v"


MAP = "CAST(map() AS MAP<STRING, BIGINT>)"
KINDS = {
    "map": Kind("MAP<STRING, BIGINT>", ("map('a', 1)", "map('b', 2)", "map('a', 1, 'b', 2)")),
    "struct of map": Kind(
        "STRUCT<m: MAP<STRING, BIGINT>>",
        ("named_struct('m', map('a', 1))", "named_struct('m', map('b', 2))", f"named_struct('m', {MAP})"),
    ),
    "array of map": Kind(
        "ARRAY<MAP<STRING, BIGINT>>",
        ("array(map('a', 1))", "array(map('b', 2))", f"array({MAP})"),
    ),
    "variant": Kind("STRING", ("'1'", "'[2]'", "'3'"), "parse_json(v)"),
    "array of variant": Kind("STRING", ("'1'", "'[2]'", "'3'"), "array(parse_json(v))"),
    "months": Kind("INT", ("1", "2", "3"), "make_ym_interval(v)"),
    "interval": Kind("INT", ("1", "2", "3"), "make_interval(v)"),
    "days": Kind("INT", ("1", "2", "3"), "make_dt_interval(v)"),
    "array of days": Kind("INT", ("1", "2", "3"), "array(make_dt_interval(v), NULL)"),
    "struct": Kind(
        "STRUCT<a: BIGINT, b: STRING>",
        ("named_struct('a', 1, 'b', 'x')", "named_struct('a', 2, 'b', NULL)", "named_struct('a', NULL, 'b', 'y')"),
    ),
    "array": Kind("ARRAY<BIGINT>", ("array(1, 2)", "array(NULL, 3)", "array()")),
    "array of struct": Kind(
        "ARRAY<STRUCT<a: BIGINT, t: DATE>>",
        ("array(named_struct('a', 1, 't', DATE '2024-01-01'))", "array(named_struct('a', NULL, 't', NULL))", "array()"),
    ),
    "array of array": Kind("ARRAY<ARRAY<STRING>>", ("array(array('x'))", "array(array(), array(NULL))", "array()")),
    "binary": Kind("BINARY", ("X'00FF'", "X''", "X'FE'")),
    "time": Kind("INT", ("1", "2", "3"), "make_time(v, 0, 0)"),
    "boolean": Kind("BOOLEAN", ("true", "false", "true")),
    "decimal": Kind("DECIMAL(38, 10)", ("1.5", "9999999999999999999999999999.0", "-2")),
    "timestamp without zone": Kind(
        "TIMESTAMP_NTZ",
        ("TIMESTAMP_NTZ '2024-01-01 00:00:00'", "TIMESTAMP_NTZ '1900-01-01 00:00:00'", "TIMESTAMP_NTZ '2030-12-31'"),
    ),
    "collation": Kind("STRING", ("'a'", "'A'", "'b'"), "collate(v, 'UTF8_LCASE')"),
    "null": Kind("INT", ("1", "2", "3"), "NULL"),
}
SOME = ("map", "struct of map", "variant", "days", "array of struct", "time", "collation")
"""Kinds that the default tier tries."""

PER_GROUP = [
    *[f"{name}({{x}})" for name in ("COUNT", "MIN", "MAX", "SUM", "ARRAY_AGG", "MEDIAN")],
    *["size(COLLECT_SET({x}))", "MODE({x}) IS NULL"],
    *["COUNT(DISTINCT {x})", "COUNT(DISTINCT {x}, id)", "MIN_BY({x}, id)", "MAX_BY(id, {x})", "LISTAGG({x}, ',')"],
    *["COUNT(*) FILTER (WHERE {x} IS NOT NULL)", "BOOL_AND({x})", "APPROX_COUNT_DISTINCT({x})"],
]
OPERATORS = {
    **{f"{call} of a table": f"SELECT g, {call} AS r FROM t GROUP BY g" for call in PER_GROUP},
    **{f"{call} of a source": f"SELECT g, {call} AS r FROM s GROUP BY g" for call in PER_GROUP[:4] + PER_GROUP[8:12]},
    "FIRST": "SELECT g, FIRST({x}) IS NULL AS r FROM s GROUP BY g",
    "LAST": "SELECT g, LAST({x}) IS NULL AS r FROM t GROUP BY g HAVING COUNT(*) < 0",
    "GROUP BY": "SELECT {x} AS r, COUNT(*) AS n FROM t GROUP BY {x}",
    "GROUP BY of a source": "SELECT {x} AS r, COUNT(*) AS n FROM s GROUP BY {x}",
    "a hidden key": "SELECT COUNT(*) AS n FROM t GROUP BY {x}",
    "DISTINCT": "SELECT DISTINCT {x} AS r FROM t",
    "a projection": "SELECT id, {x} AS r FROM t",
    "a bag": "SELECT {x} AS r FROM b",
    **{
        word: f"SELECT {{x}} AS r FROM t {word} SELECT {{x}} FROM b"
        for word in ("UNION", "UNION ALL", "EXCEPT", "EXCEPT ALL", "INTERSECT", "INTERSECT ALL")
    },
    "a join key": "SELECT a.id FROM (SELECT id, {x} AS k FROM t) a JOIN (SELECT {x} AS k FROM b) c ON a.k = c.k",
    "a null-safe key": "SELECT a.id FROM (SELECT id, {x} AS k FROM t) a LEFT JOIN (SELECT {x} AS k FROM b) c "
    "ON a.k <=> c.k",
    "a joined column": "SELECT a.id, a.k, c.k AS l FROM (SELECT id, {x} AS k FROM t) a FULL JOIN "
    "(SELECT g, {x} AS k FROM t) c ON a.id = c.g",
    "IN": "SELECT id FROM t WHERE {x} IN (SELECT {x} FROM b)",
    "ORDER BY": "SELECT id, {x} AS r FROM t ORDER BY {x}, id LIMIT 2",
    "a column of a top-N": "SELECT id, {x} AS r FROM t ORDER BY id LIMIT 2",
    "PARTITION BY": "SELECT id, n FROM (SELECT id, ROW_NUMBER() OVER (PARTITION BY {x} ORDER BY id) AS n FROM t) "
    "WHERE n <= 1",
    "the order of a rank": "SELECT id, n FROM (SELECT id, RANK() OVER (PARTITION BY g ORDER BY {x}) AS n FROM t) "
    "WHERE n <= 1",
    "a key beside a window": "SELECT window_start, {x} AS r, COUNT(*) AS n FROM TUMBLE(s, ts, INTERVAL '1' MINUTE) "
    "GROUP BY window_start, {x} EMIT CHANGES",
    "an aggregate in a session": "SELECT window_start, COUNT(DISTINCT {x}) AS n "
    "FROM SESSION(s, ts, INTERVAL '1' MINUTE) GROUP BY window_start, window_end EMIT CHANGES",
    "two levels": "SELECT r, COUNT(*) AS n FROM (SELECT g, MAX({x}) AS r FROM t GROUP BY g) GROUP BY r",
}


@pytest.mark.parametrize(
    "name", [each if each in SOME else pytest.param(each, marks=pytest.mark.slow) for each in KINDS]
)
def test_a_type_is_refused_or_maintained(name: str, spark: SparkSession) -> None:
    kind = KINDS[name]
    with tidegate.connect(spark=spark, clock="virtual") as db:
        db.sql(
            f"CREATE TABLE t (id BIGINT PRIMARY KEY, g BIGINT, v {kind.declared}); CREATE TABLE b (v {kind.declared})"
        )
        db.sql(f"CREATE SOURCE s (id BIGINT, g BIGINT, v {kind.declared}, ts TIMESTAMP, WATERMARK FOR ts)")
        accepted = {}
        for number, (operator, query) in enumerate(OPERATORS.items()):
            query = query.replace("{x}", kind.expression)
            try:
                db.sql(f"CREATE MATERIALIZED VIEW x{number} AS {query}")
                accepted[f"x{number}"] = (operator, query.removesuffix(" EMIT CHANGES"))
            except tidegate.Error as error:
                assert error.span is not None and error.hint, f"{operator}: {error}"
        for statements in (FIRST_STEP, SECOND_STEP):
            for statement in statements:
                db.sql(statement.format(*kind.values))
            db.step()
            found = rows(db, {view: f"SELECT * FROM {view}" for view in accepted})
            expected = rows(db, {view: query for view, (_, query) in accepted.items()})
            wrong = {
                operator: (found[view], expected[view])
                for view, (operator, _) in accepted.items()
                if found[view] != expected[view]
            }
            assert wrong == {}


FIRST_STEP = [
    "INSERT INTO t VALUES (1, 1, {0}), (2, 1, {1}), (3, 2, {2}), (4, 2, {0}), (5, 2, NULL)",
    "INSERT INTO b VALUES ({0}), ({0}), ({1}), (NULL)",
    "INSERT INTO s VALUES (1, 1, {0}, TIMESTAMP '2024-05-01 12:00:40'), (2, 1, {1}, TIMESTAMP '2024-05-01 12:00:41')",
]
SECOND_STEP = [
    "DELETE FROM t WHERE id = 1",
    "DELETE FROM t WHERE id = 5",
    "INSERT INTO t VALUES (2, 1, {2})",
    "INSERT INTO b VALUES ({2})",
    "DELETE FROM b WHERE v IS NULL",
    "INSERT INTO s VALUES (3, 1, NULL, TIMESTAMP '2024-05-01 12:00:50'), (4, 2, {1}, TIMESTAMP '2024-05-01 12:03:41')",
]


def rows(db: tidegate.Database, queries: dict[str, str]) -> dict[str, list[str]]:
    """The rows of each query as sorted text, in one query."""
    parts = [f"SELECT '{view}', to_json(struct(*)) FROM ({query})" for view, query in queries.items()]
    found: dict[str, list[str]] = {view: [] for view in queries}
    for view, text in db.query(" UNION ALL ".join(parts)) if parts else ():
        found[view].append(text)
    return {view: sorted(texts) for view, texts in found.items()}
