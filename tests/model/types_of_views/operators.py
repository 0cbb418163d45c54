"""Queries that have a column `{x}` of any type in every operator: as they are written for views, and for Spark.

`keyed` is a keyed table, `bag` one without a key; both also change by deletes and updates. `stream` has a watermark,
`later` has LATENESS and late rows. `looked` is a keyed table that does not change after the first rows of a stream."""

from __future__ import annotations

AGGREGATES = [
    *["COUNT({x})", "MIN({x})", "MAX({x})", "SUM({x})", "AVG({x})", "MEDIAN({x})", "PERCENTILE({x}, 0.25)"],
    *["STDDEV({x})", "VAR_POP({x})", "SKEWNESS({x})", "KURTOSIS({x})", "PRODUCT({x})", "CORR({x}, id)"],
    *["COVAR_POP(id, {x})", "BIT_AND({x})", "BIT_OR({x})", "BIT_XOR({x})", "BOOL_AND({x})", "BOOL_OR({x})"],
    *["COUNT(DISTINCT {x})", "COUNT(DISTINCT {x}, id)", "SUM(DISTINCT {x})", "AVG(DISTINCT {x})"],
    *["array_sort(ARRAY_AGG({x}))", "array_sort(COLLECT_SET({x}))", "size(ARRAY_AGG({x}))", "size(COLLECT_SET({x}))"],
    *["MIN_BY({x}, id)", "MAX_BY({x}, id)", "MAX_BY(g, {x})", "MIN_BY(g, {x})", "MODE({x}) IS NULL"],
    *["array_sort(split(LISTAGG({x}, ','), ','))", "APPROX_COUNT_DISTINCT({x}) > 0", "COUNT_IF({x} IS NULL)"],
    *["COUNT(*) FILTER (WHERE {x} IS NOT NULL)", "MAX({x}) FILTER (WHERE id > 1)", "ANY_VALUE({x}) IS NULL AND false"],
]
OVER_STREAMS = [
    "COUNT({x})",
    "MIN({x})",
    "SUM({x})",
    "AVG({x})",
    "MAX_BY({x}, id)",
    "COUNT(DISTINCT {x})",
    "FIRST({x})",
]

A, C = "(SELECT id, g, {x} AS k FROM keyed) a", "(SELECT id, g, {x} AS k FROM looked) c"
SA, SC = "(SELECT id, ts, {x} AS k FROM stream) a", "(SELECT id, ts, {x} AS k FROM later) c"
NEAR = "c.ts BETWEEN a.ts - INTERVAL '5' SECOND AND a.ts + INTERVAL '5' SECOND"
PAIR = "a.id, c.id AS o"
JOINS = ("JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "LEFT SEMI JOIN", "LEFT ANTI JOIN")


def _columns(join: str, columns: str) -> str:
    """Those of the left side, for joins that emit nothing else."""
    return columns.partition(", c.")[0] if "SEMI" in join or "ANTI" in join else columns


def _window(function: str, columns: str, group: str = "window_start, window_end") -> str:
    return f"SELECT window_start, {columns} FROM {function} GROUP BY {group} EMIT CHANGES"


def _batch_window(window: str, columns: str, group: str = "") -> str:
    return f"SELECT {window}.start AS window_start, {columns} FROM stream WHERE ts IS NOT NULL GROUP BY {window}{group}"


TUMBLE, HOP = "TUMBLE(stream, ts, INTERVAL '1' MINUTE)", "HOP(stream, ts, INTERVAL '1' MINUTE, INTERVAL '2' MINUTE)"
SESSION = "SESSION(stream, ts, INTERVAL '1' MINUTE)"
MINUTE, SLIDING = "window(ts, '1 minute')", "window(ts, '2 minutes', '1 minute')"
GAP = "session_window(ts, '1 minute')"

SAME = {
    **{f"{call} of a table": f"SELECT g, {call} AS r FROM keyed GROUP BY g" for call in AGGREGATES},
    **{f"{call} of a source": f"SELECT g, {call} AS r FROM stream GROUP BY g" for call in OVER_STREAMS},
    "an aggregate of all": "SELECT MIN({x}) AS r, COUNT({x}) AS n FROM keyed",
    "HAVING": "SELECT g FROM keyed GROUP BY g HAVING MAX({x}) IS NOT NULL",
    "GROUP BY": "SELECT {x} AS r, COUNT(*) AS n FROM keyed GROUP BY {x}",
    "GROUP BY of a source": "SELECT {x} AS r, COUNT(*) AS n FROM stream GROUP BY {x}",
    "a hidden key": "SELECT COUNT(*) AS n FROM keyed GROUP BY {x}",
    "GROUP BY two": "SELECT {x} AS r, g, MAX(id) AS n FROM keyed GROUP BY {x}, g",
    "DISTINCT": "SELECT DISTINCT {x} AS r FROM keyed",
    "DISTINCT of a source": "SELECT DISTINCT {x} AS r, g FROM stream",
    "a projection": "SELECT id, {x} AS r FROM keyed",
    "a projection of a source": "SELECT {x} AS r, ts FROM later",
    "a filter": "SELECT id FROM keyed WHERE {x} IS NOT NULL",
    "a comparison": "SELECT id FROM keyed WHERE {x} = {x}",
    "a bag": "SELECT {x} AS r FROM bag",
    **{
        word: f"SELECT {{x}} AS r FROM keyed {word} SELECT {{x}} FROM bag"
        for word in ("UNION", "UNION ALL", "EXCEPT", "EXCEPT ALL", "INTERSECT", "INTERSECT ALL")
    },
    "UNION ALL with NULL": "SELECT id, {x} AS r FROM keyed UNION ALL SELECT id, NULL FROM looked",
    **{f"the key of {join}": f"SELECT {_columns(join, PAIR)} FROM {A} {join} {C} ON a.k = c.k" for join in JOINS},
    **{
        f"the null-safe key of {join}": f"SELECT {_columns(join, PAIR)} FROM {A} {join} {C} ON a.k <=> c.k"
        for join in JOINS
    },
    **{
        f"a column of {join}": f"SELECT {_columns(join, 'a.id, a.k, c.k AS o')} FROM {A} {join} {C} ON a.id = c.g"
        for join in JOINS
    },
    **{
        f"an order in {join}": f"SELECT {_columns(join, PAIR)} FROM {A} {join} {C} ON a.g = c.g AND a.k < c.k"
        for join in ("JOIN", "LEFT JOIN", "LEFT ANTI JOIN")
    },
    **{
        f"a condition of {join}": f"SELECT {_columns(join, 'a.id, a.k, c.k AS o')} FROM {A} {join} {C} "
        "ON a.id = c.g AND coalesce(a.k, c.k) IS NOT NULL"
        for join in ("JOIN", "LEFT JOIN", "FULL JOIN")
    },
    "a column of a lookup": "SELECT stream.id, c.k AS r FROM stream LEFT JOIN "
    "(SELECT id, {x} AS k FROM looked) c ON stream.id = c.id",
    "a column of the stream of a lookup": "SELECT a.id, a.k AS r, looked.g FROM "
    "(SELECT id, {x} AS k FROM stream) a JOIN looked ON a.id = looked.id",
    **{
        f"a column of {join} by time": f"SELECT {_columns(join, 'a.id, a.k, c.k AS o')} FROM {SA} {join} {SC} "
        f"ON a.id = c.id AND {NEAR}"
        for join in JOINS
    },
    **{
        f"the key of {join} by time": f"SELECT {_columns(join, PAIR)} FROM {SA} {join} {SC} ON a.k = c.k AND {NEAR}"
        for join in JOINS
    },
    "IN": "SELECT id FROM keyed WHERE {x} IN (SELECT {x} FROM bag)",
    "NOT IN": "SELECT id FROM keyed WHERE {x} NOT IN (SELECT {x} FROM bag WHERE {x} IS NOT NULL)",
    "EXISTS": "SELECT id, {x} AS r FROM keyed WHERE EXISTS (SELECT 1 FROM looked WHERE looked.id = keyed.id)",
    "ORDER BY": "SELECT id, {x} AS r FROM keyed ORDER BY {x}, id LIMIT 2",
    "ORDER BY DESC": "SELECT id, {x} AS r FROM keyed ORDER BY {x} DESC NULLS FIRST, id LIMIT 2",
    "a column of a top-N": "SELECT id, {x} AS r FROM keyed ORDER BY id LIMIT 2",
    "a column of a top-N of a source": "SELECT id, {x} AS r FROM stream ORDER BY id DESC LIMIT 2",
    "PARTITION BY": "SELECT id, n FROM (SELECT id, ROW_NUMBER() OVER (PARTITION BY {x} ORDER BY id) AS n FROM keyed) "
    "WHERE n <= 1",
    "a column beside a rank": "SELECT id, r, n FROM (SELECT id, {x} AS r, "
    "ROW_NUMBER() OVER (PARTITION BY g ORDER BY id) AS n FROM keyed) WHERE n <= 1",
    "the order of a rank": "SELECT id, n FROM (SELECT id, RANK() OVER (PARTITION BY g ORDER BY {x}) AS n FROM keyed) "
    "WHERE n <= 1",
    "the order of a dense rank": "SELECT id, n FROM (SELECT id, "
    "DENSE_RANK() OVER (PARTITION BY g ORDER BY {x} DESC) AS n FROM keyed) WHERE n <= 2",
    "two levels": "SELECT r, COUNT(*) AS n FROM (SELECT g, MAX({x}) AS r FROM keyed GROUP BY g) GROUP BY r",
    "a column above a group": "SELECT n, MAX(r) AS r FROM "
    "(SELECT {x} AS r, COUNT(*) AS n FROM keyed GROUP BY {x}) GROUP BY n",
}
"""Queries that are the same for both."""

EMITTED = {
    "EMIT of a projection": "SELECT id, {x} AS r, ts FROM stream{emit}",
    "EMIT of a stream with LATENESS": "SELECT id, {x} AS r, ts FROM later{emit}",
    "EMIT of an aggregate": "SELECT ts, MAX({x}) AS r FROM stream GROUP BY ts{emit}",
    "EMIT of a key": "SELECT ts, {x} AS r, COUNT(*) AS n FROM stream GROUP BY ts, {x}{emit}",
}
"""Queries whose rows have left when the inputs have ended."""

OWN = {
    "a key beside a window": (
        _window(TUMBLE, "{x} AS r, COUNT(*) AS n", "window_start, {x}"),
        _batch_window(MINUTE, "{x} AS r, COUNT(*) AS n", ", {x}"),
    ),
    "an aggregate in overlapping windows": (
        _window(HOP, "MAX({x}) AS r, COUNT(DISTINCT {x}) AS n"),
        _batch_window(SLIDING, "MAX({x}) AS r, COUNT(DISTINCT {x}) AS n"),
    ),
    "a value in a window": (_window(TUMBLE, "MAX_BY({x}, id) AS r"), _batch_window(MINUTE, "MAX_BY({x}, id) AS r")),
    "the key of a session": (
        _window(SESSION, "{x} AS r, COUNT(*) AS n", "window_start, window_end, {x}"),
        _batch_window(GAP, "{x} AS r, COUNT(*) AS n", ", {x}"),
    ),
    "an aggregate in a session": (
        _window(SESSION, "COUNT(DISTINCT {x}) AS n, MIN({x}) AS r"),
        _batch_window(GAP, "COUNT(DISTINCT {x}) AS n, MIN({x}) AS r"),
    ),
    "a value in a session": (_window(SESSION, "MIN_BY({x}, id) AS r"), _batch_window(GAP, "MIN_BY({x}, id) AS r")),
    "a column beside a window": (
        f"SELECT id, {{x}} AS r, window_start FROM {TUMBLE} EMIT CHANGES",
        f"SELECT id, {{x}} AS r, {MINUTE}.start AS window_start FROM stream WHERE ts IS NOT NULL",
    ),
}
"""Queries of windows, and how Spark writes them."""
