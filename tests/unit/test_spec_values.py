"""Cells are parsed by the type of their column, and values are rendered as cells that parse to the same value."""

import math
from datetime import UTC, date, datetime
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.core.types import Type, parse_type
from tidegate.testing.spec import values as cells
from tidegate.testing.spec.compare import Comparable, comparable, diff, same
from tidegate.testing.spec.values import WrongValue, parse, show


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("a | 1", ("a", "1")),
        ("'x | y' | 2", ("'x | y'", "2")),
        ("it's | 2", ("it's", "2")),
        ("'it''s | here' |", ("'it''s | here'", "")),
        ('{"k": "v | w"} | 3', ('{"k": "v | w"}', "3")),
        ('["a|b", "c"] | NULL', ('["a|b", "c"]', "NULL")),
        ("' ' | ''", ("' '", "''")),
    ],
)
def test_cells_are_not_split_inside_quotes(text, parts):
    assert cells.split(text) == parts


@pytest.mark.parametrize(
    ("cell", "kind", "value"),
    [
        ("NULL", "string", None),
        ("'NULL'", "string", "NULL"),
        ("''", "string", ""),
        ("' a '", "string", " a "),
        ("'it''s'", "string", "it's"),
        ("plain text", "string", "plain text"),
        ("7", "string", "7"),
        ("-7", "bigint", -7),
        ("true", "boolean", True),
        ("1.50", "decimal(10,2)", Decimal("1.5")),
        ("1e3", "double", 1000.0),
        ("Infinity", "double", math.inf),
        ("0.1", "float", 0.10000000149011612),
        ("2020-02-29", "date", date(2020, 2, 29)),
        ("12:00:03", "timestamp", datetime(2020, 1, 1, 12, 0, 3, tzinfo=UTC)),
        ("@1500", "timestamp", datetime(1970, 1, 1, 0, 0, 1, 500_000, tzinfo=UTC)),
        ("@-1500", "timestamp", datetime(1969, 12, 31, 23, 59, 58, 500_000, tzinfo=UTC)),
        ("2024-05-01 12:00:03.250", "timestamp", datetime(2024, 5, 1, 12, 0, 3, 250_000, tzinfo=UTC)),
        ("2024-05-01 12:00:00", "timestamp_ntz", datetime(2024, 5, 1, 12)),
        ("00ff", "binary", b"\x00\xff"),
        ("[1, null, 3]", "array<int>", [1, None, 3]),
        ('{"a": 1.50, "b": ["12:00:00"]}', "struct<a:decimal(5,2),b:array<timestamp>>", None),
        ('{"1": true}', "map<int,boolean>", {1: True}),
    ],
)
def test_a_cell_is_parsed_by_its_type(cell, kind, value):
    parsed = parse(cell, parse_type(kind))
    if kind.startswith("struct"):
        value = {"a": Decimal("1.5"), "b": [datetime(2020, 1, 1, 12, tzinfo=UTC)]}
    assert parsed == value


@pytest.mark.parametrize(
    ("cell", "kind"),
    [
        ("one", "bigint"),
        ("1.5", "int"),
        ("maybe", "boolean"),
        ("12:00", "date"),
        ("soon", "timestamp"),
        ("[1", "array<int>"),
    ],
)
def test_a_cell_of_another_type_is_rejected(cell, kind):
    with pytest.raises(WrongValue, match=f"is not a value of type {kind.upper()}"):
        parse(cell, parse_type(kind))


VALUES = {
    "string": st.text(st.characters(blacklist_characters="\n\r", blacklist_categories=("Cs", "Cc"))),
    "bigint": st.integers(-(2**63), 2**63 - 1),
    "double": st.floats(),
    "boolean": st.booleans(),
    "date": st.dates(),
    "timestamp": st.datetimes(timezones=st.just(UTC)),
    "decimal(20,4)": st.decimals(-(10**9), 10**9, places=4),
    "array<string>": st.lists(st.text(st.characters(blacklist_categories=("Cs",)))),
}


@given(st.sampled_from(sorted(VALUES)).flatmap(lambda kind: st.tuples(st.just(kind), VALUES[kind])))
def test_a_rendered_value_is_parsed_to_the_same_value(case):
    name, value = case
    kind = parse_type(name)
    row = " | ".join([show(value, kind), "1"])
    cell, _ = cells.split(row)
    assert same(comparable([parse(cell, kind)], [kind]).values, comparable([value], [kind]).values)


@pytest.mark.parametrize("text", ["map<string,array<int>>", "struct<a:decimal(10,2),b:map<string,int>>", "timestamp"])
def test_types_are_printed_as_they_are_written(text):
    assert str(parse_type(text)) == text


DOUBLE = [Type("double")]


def test_rows_are_compared_as_multisets():
    one, two = Comparable((1,)), Comparable((2,))
    assert not diff([one, two, two], [two, one, two])
    problem = diff([one, two, two], [two, one, one])
    assert [problem.missing, problem.unexpected] == [(2,), (2,)]


def test_doubles_agree_within_a_relative_billionth():
    assert not diff([comparable([1e300], DOUBLE)], [comparable([1e300 * (1 + 1e-10)], DOUBLE)])
    assert diff([comparable([1.0], DOUBLE)], [comparable([1.0 + 1e-8], DOUBLE)])
    assert diff([comparable([0.0], DOUBLE)], [comparable([1e-17], DOUBLE)])
    assert not diff([comparable([math.nan], DOUBLE)], [comparable([math.nan], DOUBLE)])


def test_a_bare_sign_matches_any_op_after_exact_ops_have_matched():
    expected = [Comparable((1,), "+"), Comparable((1,), "+U")]
    assert not diff(expected, [Comparable((1,), "+U"), Comparable((1,), "+I")])
    assert diff(expected, [Comparable((1,), "+I"), Comparable((1,), "+I")])


def test_json_texts_are_compared_by_value():
    kind = parse_type("string")
    document = comparable([parse('{"b": 1, "a": [2]}', kind)], [kind])
    assert not diff([document], [comparable(['{"a":[2],"b":1}'], [kind])])
    assert diff([document], [comparable(["not json"], [kind])])
