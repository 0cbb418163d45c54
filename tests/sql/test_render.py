"""Rendering a parsed query gives the same text: Spark must evaluate what the user wrote."""

from __future__ import annotations

import pytest

from tests.sql.reading import query, rerender
from tidegate.sql import call, render

SAME = """
a + b * 2 - c / 3 % 4
a DIV b
a IS DISTINCT FROM b
a IS NOT NULL
NOT a AND b OR c
a BETWEEN 1 AND 2
a IN (1, 2)
a LIKE 'x%'
a ILIKE 'x%'
a RLIKE '^x'
a LIKE ANY ('x', 'y')
a LIKE 'x/_' ESCAPE '/'
a || b
CASE WHEN a > 1 THEN 'x' ELSE 'y' END
CASE a WHEN 1 THEN 'x' END
IF(a, b, c)
date_trunc('hour', ts)
date_format(ts, 'yyyy-MM-dd HH:mm')
to_timestamp(a, 'dd/MM/yyyy')
to_timestamp(a)
to_date(a)
DATE(ts)
TIMESTAMP(a)
NVL(a, 1)
IFNULL(a, 1)
COALESCE(a, b, 1)
DATEDIFF(a, b)
DATEDIFF(DAY, a, b)
DATE_ADD(a, 3)
TIMESTAMPADD(MINUTE, 5, ts)
LOG(a)
LOG(2, a)
POW(a, 2)
TRY_DIVIDE(a, b)
YEAR(ts)
DAYOFWEEK(ts)
EXTRACT(YEAR FROM ts)
UNIX_TIMESTAMP(ts)
FROM_UNIXTIME(a)
split(a, '[.]')
regexp_replace(a, '\\\\d+', 'x')
element_at(arr, 1)
arr[0]
m['k']
s.x.y
transform(arr, x -> x * 2)
transform(arr, (x, i) -> x + i)
aggregate(arr, 0, (acc, x) -> acc + x)
exists(arr, x -> x > 1)
named_struct('a', 1, 'b', x)
get_json_object(a, '$.b[0].c')
from_json(a, 'x INT')
v:a.b[0]
array(1, 2)
map('a', 1)
CAST(a AS DECIMAL(10, 2))
TRY_CAST(a AS INT)
DATE '2020-01-01'
TIMESTAMP '2020-01-01 00:00:00'
INTERVAL '10' SECOND
INTERVAL '1 02:03:04' DAY TO SECOND
ts + INTERVAL '1' DAY
count(*)
COUNT(DISTINCT a, b)
SUM(a) FILTER(WHERE b > 1)
window(ts, '10 seconds')
session(ts, 5)
mean(a)
std(a)
var_samp(a)
first(a, TRUE)
first_value(a)
LAST(a) IGNORE NULLS
min_by(a, b)
any(a > 1)
every(a)
array_agg(a)
collect_set(a)
approx_count_distinct(a, 0.1)
percentile_approx(a, 0.5)
ROW_NUMBER() OVER (PARTITION BY a ORDER BY b DESC)
GREATEST(a, b)
SUBSTRING(a, 2, 3)
TRIM(a)
'it\\'s'
'tab\\t'
`odd name`
x.`odd name`
"""


@pytest.mark.parametrize("text", [line for line in SAME.splitlines() if line])
def test_unchanged(text: str) -> None:
    assert rerender(text) == text


@pytest.mark.parametrize(
    ("text", "spark"),
    [
        ("a::int", "CAST(a AS INT)"),
        ("CAST(a AS VARCHAR(10))", "CAST(a AS STRING)"),
        ("CAST(a AS BYTES)", "CAST(a AS BINARY)"),
        ('"text"', "'text'"),
        ("'it''s'", "'it\\'s'"),
        ("a != b", "a <> b"),
        ("a <=> b", "a IS NOT DISTINCT FROM b"),
        ("a NOT IN (1, 2)", "NOT a IN (1, 2)"),
        ("a == b", "a = b"),
        ("INTERVAL '1 minute'", "INTERVAL '1' MINUTE"),
        ("INTERVAL 5 MINUTES", "INTERVAL '5' MINUTES"),
        ("INTERVAL '1:00' HOURS TO MINUTES", "INTERVAL '1:00' HOUR TO MINUTE"),
        ("INTERVAL '1 hour 30 minutes'", "INTERVAL '1 hour 30 minutes'"),
        ("SUBSTR(a, 2)", "SUBSTRING(a, 2)"),
        ("POSITION('x' IN a)", "LOCATE('x', a)"),
        ("1L", "CAST(1 AS BIGINT)"),
        ("a  +  /* no */ b", "a + b"),
    ],
)
def test_other_spellings_with_the_same_meaning(text: str, spark: str) -> None:
    assert rerender(text) == spark


@pytest.mark.parametrize(
    "text",
    [
        "SELECT DISTINCT a, b FROM t",
        "SELECT a AS x FROM t AS u LEFT JOIN w ON u.a = w.a WHERE x > 1",
        "SELECT a FROM t LEFT SEMI JOIN u ON t.a = u.a",
        "SELECT a FROM t JOIN u USING (a)",
        "SELECT a, COUNT(*) FROM t GROUP BY a HAVING COUNT(*) > 1 ORDER BY a DESC LIMIT 5",
        "SELECT a FROM t UNION ALL SELECT b FROM u",
        "SELECT a FROM t EXCEPT ALL SELECT b FROM u",
        "WITH q AS (SELECT a FROM t) SELECT * FROM q",
        "SELECT * FROM (SELECT a FROM t) AS q",
        "SELECT a FROM t WHERE a IN (SELECT b FROM u)",
        "SELECT a FROM t WHERE EXISTS(SELECT 1 FROM u WHERE u.a = t.a)",
        "SELECT * EXCEPT (a) FROM t",
        "SELECT a, b FROM t GROUP BY ROLLUP (a, b)",
        "SELECT e FROM t LATERAL VIEW EXPLODE(arr) x AS e",
        "SELECT a FROM system.late_rows",
    ],
)
def test_queries_unchanged(text: str) -> None:
    assert render(query(text).select) == text


@pytest.mark.parametrize(
    ("text", "name", "args", "distinct"),
    [
        ("COUNT(*)", "count", ["*"], False),
        ("Count(DISTINCT a, b)", "count", ["a", "b"], True),
        ("STD(a)", "std", ["a"], False),
        ("first(a, true)", "first", ["a", "TRUE"], False),
        ("any_value(a)", "any_value", ["a"], False),
        ("MIN_BY(a, b)", "min_by", ["a", "b"], False),
        ("foo(a, 1)", "foo", ["a", "1"], False),
        ("percentile(DISTINCT a)", "percentile", ["a"], True),
    ],
)
def test_spellings_of_calls(text: str, name: str, args: list[str], distinct: bool) -> None:
    parsed = call(query(f"SELECT {text} FROM t").select.expressions[0])
    assert parsed is not None
    assert (parsed.name, [render(a) for a in parsed.args], parsed.distinct) == (name, args, distinct)


def test_expressions_that_are_not_calls() -> None:
    for text in ("a", "a + 1", "CASE WHEN a THEN 1 END", "a AND b"):
        assert call(query(f"SELECT {text} FROM t").select.expressions[0]) is None
