"""Values for `?` and `:name`: how they are bound, and the errors if they do not match."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import numpy as np
import pytest

from tidegate import sql
from tidegate.errors import Error
from tidegate.runtime.parameters import bind_parameters

DAY = dt.datetime(2024, 5, 1)


def bind_values(text: str, values: Any) -> dict[str, Any]:
    try:
        return bind_parameters(sql.parse(text), values)
    except Error as error:
        raise error.in_text(text) from None


def message(text: str, values: Any) -> str:
    with pytest.raises(Error) as caught:
        bind_values(text, values)
    return str(caught.value)


def test_positional_values_follow_the_text() -> None:
    text = "UPDATE t SET a = ?, b = ? WHERE c = ?"
    assert list(bind_values(text, ["x", "y", "z"]).values()) == ["x", "y", "z"]
    assert bind_values("SELECT ? FROM t; INSERT INTO t VALUES (?, '?') -- ?", (1, 2)) == {"p7": 1, "p39": 2}


def test_a_name_may_occur_several_times() -> None:
    assert bind_values("SELECT :a, :b + :a, payload:x FROM t LIMIT :n", {"a": 1, "b": 2, "n": 3}) == {
        "a": 1,
        "b": 2,
        "n": 3,
    }


def test_text_is_passed_as_a_value_whatever_it_contains() -> None:
    evil = "'); DROP TABLE t; -- ? :x"
    values = bind_values("INSERT INTO t VALUES (?)", [evil])
    assert list(values.values()) == [evil]


@pytest.mark.parametrize("value", [None, True, 1, 1.5, "x", b"x", Decimal("1.10"), dt.date(2024, 5, 1)])
def test_values_are_passed_unchanged(value: object) -> None:
    (bound_value,) = bind_values("SELECT ?", [value]).values()
    assert bound_value is value


def test_values_are_converted_like_those_of_insert() -> None:
    aware = DAY.replace(tzinfo=dt.timezone(dt.timedelta(hours=2)))
    values = bind_values("SELECT ?, ?, ?, ?", [DAY, aware, np.int32(7), bytearray(b"x")])
    assert list(values.values()) == [DAY.replace(tzinfo=dt.UTC), aware, 7, b"x"]
    assert type(list(values.values())[2]) is int


MISMATCHES = [
    ("SELECT ?, ?", [1], "2 parameters, but 1 value\n  line 1:  SELECT ?, ?\n                     ^"),
    ("SELECT ?", None, "1 parameter, but 0 values\n  line 1:  SELECT ?\n                  ^"),
    ("SELECT ?", [1, 2], "1 parameter, but 2 values"),
    ("SELECT 1", [1], "0 parameters, but 1 value"),
    ("SELECT :a", None, "parameter :a has no value\n  line 1:  SELECT :a\n                  ^^\n  hint: write db.sql"),
    ("SELECT :amount", {"amont": 1}, "parameter :amount has no value"),
    ("SELECT :a", {"a": 1, "b": 2}, "the text has no parameter :b"),
    ("SELECT ?", {"a": 1}, "? takes its value from a list"),
    ("SELECT :a", [1], ":a takes its value from a dict"),
    ("SELECT ?, :a", [1], ":a takes its value from a dict"),
    ("SELECT ?", "x", "parameters are a list or a dict, not 'x'"),
    ("SELECT ?", [[1, 2]], "a parameter cannot be [1, 2], a list"),
    ("SELECT ?", [object], "a parameter cannot be <class 'object'>, a type"),
    ("SELECT ?", [1 << 63], "9223372036854775808 does not fit into BIGINT"),
]


@pytest.mark.parametrize(("text", "values", "expected"), MISMATCHES)
def test_values_that_do_not_match(text: str, values: Any, expected: str) -> None:
    assert message(text, values).startswith(f"INVALID_PARAMETER: {expected}")


PLACES = [
    ("CREATE VIEW v AS SELECT * FROM t WHERE a = ?", "CREATE takes no parameters"),
    ("CREATE MATERIALIZED VIEW v AS SELECT :a AS a FROM t", "CREATE takes no parameters"),
    ("EXPLAIN SELECT ?", "EXPLAIN takes no parameters"),
    ("LATENESS v.ts ?", "LATENESS takes no parameters"),
    ("SELECT * FROM ?", "a parameter stands for a value, not for a name"),
    ("SELECT a.:b FROM t", "a parameter stands for a value, not for a name"),
    ("SELECT 1 AS ?", "a parameter stands for a value, not for a name"),
    ("SELECT : a", "unexpected :"),
]


@pytest.mark.parametrize(("text", "expected"), PLACES)
def test_positions_in_which_parameters_are_not_allowed(text: str, expected: str) -> None:
    error = message(text, [1])
    assert error.startswith(f"SYNTAX_ERROR: {expected}")
    position = text.index(":" if ":" in text else "?")
    assert error.splitlines()[2].index("^") == len("  line 1:  ") + position
