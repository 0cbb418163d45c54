"""ROLLUP, CUBE and GROUPING SETS are found in every spelling, and never lost with a window."""

from __future__ import annotations

import pytest
from sqlglot import exp

from tidegate import sql
from tidegate.errors import Error
from tidegate.sql.groupings import several_groupings
from tidegate.sql.statements import CreateView
from tidegate.sql.window_spellings import normalise_windows

SPELLINGS = [
    ("{} WITH ROLLUP", "ROLLUP"),
    ("{} WITH CUBE", "CUBE"),
    ("b, ROLLUP({})", "ROLLUP"),
    ("ROLLUP({}, b)", "ROLLUP"),
    ("CUBE({})", "CUBE"),
    ("`rollup`({})", "ROLLUP"),
    ("rollup(b), cube({})", "ROLLUP"),
    ("{} GROUPING SETS (({}), ())", "GROUPING SETS"),
    ("GROUPING SETS (({}), (b), ())", "GROUPING SETS"),
    ("b, GROUPING SETS (({}), ())", "GROUPING SETS"),
    ("{} WITH TOTALS", "WITH TOTALS"),
]
WINDOWS = ["window(ts, '1 minute')", "TUMBLE(ts, INTERVAL '1' MINUTE)", "session_window(ts, '1 minute')"]
HOPS = ["HOP(ts, INTERVAL '1' MINUTE, INTERVAL '2' MINUTE)"]


def select(keys: str, source: str = "t") -> exp.Select:
    [statement] = sql.parse(f"CREATE VIEW v AS SELECT COUNT(*) AS n FROM {source} GROUP BY {keys}").statements
    assert isinstance(statement, CreateView) and isinstance(statement.query.select, exp.Select)
    return statement.query.select


@pytest.mark.parametrize(("spelling", "word"), SPELLINGS)
def test_several_groupings_are_found(spelling: str, word: str) -> None:
    error = several_groupings(select(spelling.replace("{}", "a")).args["group"])
    assert error is not None and (error.code, error.message) == ("NOT_SUPPORTED", f"{word} is not maintained")
    assert error.span is not None and error.hint


@pytest.mark.parametrize("window", WINDOWS + HOPS)
@pytest.mark.parametrize(("spelling", "word"), SPELLINGS)
def test_a_window_beside_them_does_not_hide_them(spelling: str, word: str, window: str) -> None:
    with pytest.raises(Error, match=f"{word} with windows is not supported"):
        normalise_windows(select(f"{window}, {spelling.replace('{}', 'a')}"))


@pytest.mark.parametrize(("spelling", "word"), SPELLINGS)
def test_a_window_in_from_does_not_hide_them(spelling: str, word: str) -> None:
    source = "TUMBLE(t, ts, INTERVAL '1' MINUTE)"
    with pytest.raises(Error, match=f"{word} with windows is not supported"):
        normalise_windows(select(spelling.replace("{}", "window_start"), source))


@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("spelling", ["ROLLUP({})", "a, CUBE({}, b)", "GROUPING SETS (({}), (a))"])
def test_a_window_inside_of_them_is_refused(spelling: str, window: str) -> None:
    tree = select(spelling.format(window))
    assert several_groupings(normalise_windows(tree).select.args["group"]) is not None


def test_group_by_all_has_no_other_keys() -> None:
    error = several_groupings(select("ALL a").args["group"])
    assert error is not None and error.code == "SYNTAX_ERROR"
    assert several_groupings(select("ALL").args["group"]) is None
    assert several_groupings(select("DISTINCT a, b").args["group"]) is None
