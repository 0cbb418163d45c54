"""Calls for which Spark ends its Java process are guarded, at any depth; others stay as they are."""

from sqlglot import parse_one

from tidegate.sql import Tidegate, render
from tidegate.sql.guards import guard_calls


def guarded(sql: str) -> str:
    return render(guard_calls(parse_one(f"SELECT {sql}", read=Tidegate).expressions[0]))


def test_an_index_that_is_not_constant_is_guarded_at_any_depth() -> None:
    test = "IF(STARTSWITH(TYPEOF(a), 'array') AND CAST(n AS STRING) = '-2147483648', NULL, n)"
    assert guarded("element_at(a, n)") == f"element_at(a, {test})"
    assert guarded("1 + size(element_at(a, n))") == f"1 + size(element_at(a, {test}))"
    assert guarded("element_at(b, element_at(a, n))").count("-2147483648") == 3
    assert "-2147483648" in guarded("element_at(a, -2147483648)")


def test_other_calls_stay() -> None:
    for sql in ("element_at(a, 3)", "a[n]", "GET(a, n)", "a + n"):
        assert guarded(sql) == render(parse_one(f"SELECT {sql}", read=Tidegate).expressions[0])
