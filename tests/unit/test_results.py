"""Results have the same rows in every form."""

from __future__ import annotations

import pyarrow as pa

import tidegate

RESULT = pa.table({"a": [1, 2, 3], "b": ["x", "y", None]})
ROWS = [(1, "x"), (2, "y"), (3, None)]


def test_all_forms_have_the_same_rows() -> None:
    result = tidegate.Result(RESULT)
    assert result.rows() == list(result) == result.fetchall() == ROWS
    assert result.arrow() is RESULT
    assert result.pl().rows() == result.polars().rows() == ROWS
    assert result.df().equals(result.pandas())
    assert result.df().a.tolist() == [1, 2, 3]


def test_fetch_returns_each_row_once() -> None:
    result = tidegate.Result(RESULT)
    assert result.fetchone() == ROWS[0]
    assert result.fetchall() == ROWS[1:]
    assert result.fetchone() is None
    assert result.fetchall() == []
    assert result.rows() == ROWS, "rows() does not depend on what was fetched"


def test_a_result_without_rows() -> None:
    result = tidegate.Result(message="created")
    assert (result.fetchone(), result.fetchall(), len(result)) == (None, [], 0)
