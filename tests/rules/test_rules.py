"""Each rule alone: what it rewrites, and what it must not change."""

from __future__ import annotations

from textwrap import dedent

import pytest

from tests.rules.plans import USERS, project, rank, scan, shape, total, where
from tidegate.plan import Distinct, Node, SetOp, TopN, UnionAll
from tidegate.rules import rewrite
from tidegate.rules.bound_ranks import bound_ranks
from tidegate.rules.drop_distinct import drop_distinct
from tidegate.rules.drop_projections import drop_projections
from tidegate.rules.merge_projections import merge_projections
from tidegate.rules.prune_columns import prune_columns
from tidegate.rules.push_filters import push_filters


def expect(plan: Node, text: str) -> None:
    assert shape(plan) == dedent(text).strip()


@pytest.mark.parametrize(
    ("inner", "outer", "merged"),
    [
        ("price > 1 OR price < 0", "NOT a", "NOT (`price` > 1 OR `price` < 0)"),
        ("price + 1", "a * 2", "(`price` + 1) * 2"),
        ("item LIKE 'x%'", "a = true", "(`item` LIKE 'x%') = TRUE"),
        ("item RLIKE 'x'", "a AND price > 1", "(`item` RLIKE 'x') AND `price` > 1"),
        ("price BETWEEN 1 AND 2", "a IS NULL", "(`price` BETWEEN 1 AND 2) IS NULL"),
        ("-price", "-a", "-(-`price`)"),
        ("upper(item)", "a || 'x'", "upper(`item`) || 'x'"),
        ("CASE WHEN price > 1 THEN 2 END", "a + 1", "CASE WHEN `price` > 1 THEN 2 END + 1"),
    ],
)
def test_merged_expressions_keep_their_meaning(inner: str, outer: str, merged: str) -> None:
    plan = project(project(scan(), a=inner, price="price"), b=outer)
    assert shape(merge_projections(plan)).startswith(f"Project {merged} as b\n")


def test_projections_merge() -> None:
    plan = project(project(scan(), a="price * 2"), b="a + 1")
    expect(
        merge_projections(plan),
        """
        Project (`price` * 2) + 1 as b
          Scan source bids
        """,
    )


def test_a_costly_expression_is_not_evaluated_twice() -> None:
    plan = project(project(scan(), a="price * 2"), b="a + 1", c="a + 2")
    assert merge_projections(plan) is plan


def test_a_plain_column_may_be_used_twice() -> None:
    plan = project(project(scan(), a="price"), b="a + 1", c="a + 2")
    expect(
        merge_projections(plan),
        """
        Project `price` + 1 as b, `price` + 2 as c
          Scan source bids
        """,
    )


def test_a_filter_is_pushed_below_a_projection_that_renames() -> None:
    plan = where(project(scan(), i="item", twice="price * 2"), "i = 'a' AND twice > 3")
    expect(
        push_filters(plan),
        """
        Filter `twice` > 3
          Project `item` as i, `price` * 2 as twice
            Filter `item` = 'a'
              Scan source bids
        """,
    )


def test_a_filter_on_keys_is_pushed_below_the_aggregate() -> None:
    plan = where(total(scan()), "item = 'a' AND s > 10")
    expect(
        push_filters(plan),
        """
        Filter `s` > 10
          Aggregate by item: sum(price) as s, max(price) as m
            Filter `item` = 'a'
              Scan source bids
        """,
    )


def test_a_filter_over_a_global_aggregate_stays() -> None:
    """Below the aggregate, it would empty the only group instead of removing it."""
    plan = where(total(scan(), key=""), "1 > 2")
    assert push_filters(plan) is plan


def test_a_condition_that_mixes_keys_and_results_stays() -> None:
    plan = where(total(scan()), "item = 'a' OR s > 10")
    assert push_filters(plan) is plan


def test_a_filter_is_pushed_into_all_sides() -> None:
    sides = project(scan(), x="item"), project(scan(USERS), x="name")
    union = push_filters(where(UnionAll(sides), "x > 'a'"))
    expect(
        union,
        """
        UnionAll
          Project `item` as x
            Filter `item` > 'a'
              Scan source bids
          Project `name` as x
            Filter `name` > 'a'
              Scan table users
        """,
    )
    difference = push_filters(where(SetOp("except", True, *sides), "x > 'a'"))
    assert shape(difference).count("Filter") == 2


def test_adjacent_filters_are_merged() -> None:
    expect(
        push_filters(where(where(scan(), "price > 1"), "price < 5 OR item = 'a'")),
        """
        Filter (`price` > 1) AND (`price` < 5 OR `item` = 'a')
          Scan source bids
        """,
    )


@pytest.mark.parametrize(
    ("condition", "places"),
    [
        ("n <= 3", "1..3"),
        ("n < 3", "1..2"),
        ("3 >= n", "1..3"),
        ("3 > n", "1..2"),
        ("n = 1", "1..1"),
        ("2 = n", "2..2"),
        ("n BETWEEN 2 AND 4", "2..4"),
        ("n IN (3, 2)", "2..3"),
        ("n > 1 AND n <= 5", "2..5"),
        ("n >= 0 AND n <= 2", "1..2"),
        ("(n) <= (2)", "1..2"),
        ("n <= 5 AND n <= 2", "1..2"),
        ("n <= 0", "1..0"),
        ("n = 5 AND n <= 2", "5..4"),
    ],
)
def test_a_bounded_rank_becomes_a_top_n(condition: str, places: str) -> None:
    expect(
        bound_ranks(where(rank(scan()), condition)),
        f"""
        TopN {places} per item order by price desc, row_number as n
          Scan source bids
        """,
    )


@pytest.mark.parametrize("condition", ["n > 3", "n IN (1, 3)", "n <= price", "n <= 3 OR price > 1", "n + 1 <= 3"])
def test_a_rank_without_upper_bound_stays(condition: str) -> None:
    plan = where(rank(scan()), condition)
    assert bound_ranks(plan) is plan


def test_a_filter_on_the_partition_is_pushed_below_the_rank_and_others_stay_above() -> None:
    plan = where(rank(scan()), "n <= 3 AND item = 'a' AND price > 5")
    expect(
        rewrite(plan),
        """
        Filter `price` > 5
          TopN 1..3 per item order by price desc, row_number as n
            Filter `item` = 'a'
              Scan source bids
        """,
    )


def test_unused_columns_are_not_computed() -> None:
    below = project(scan(), item="item", price="price", late="ts")
    expect(
        prune_columns(project(total(below), item="item", s="s")),
        """
        Project item, s
          Aggregate by item: sum(price) as s
            Project item, price
              Scan source bids
        """,
    )


def test_an_aggregate_keeps_one_call() -> None:
    assert "sum(price)" in shape(prune_columns(project(total(scan()), item="item")))


def test_operators_on_whole_rows_keep_all_columns() -> None:
    """The order of rows may depend on any column, and so may whether rows are distinct."""
    rows = project(scan(), item="item", price="price", ts="ts")
    top = TopN(rows, (), (rank(scan()).order[0],), 3)
    assert "price, ts" in shape(prune_columns(project(top, item="item")))
    assert "price, ts" in shape(prune_columns(project(Distinct(rows), item="item")))


def test_an_unused_rank_is_removed() -> None:
    plan = project(where(rank(scan()), "n = 1"), item="item", price="price")
    assert "row_number as n" not in shape(rewrite(plan))


def test_a_projection_that_changes_nothing_is_removed() -> None:
    expect(drop_projections(project(scan(USERS), id="id", name="name")), "Scan table users")


@pytest.mark.parametrize("items", [{"name": "name", "id": "id"}, {"id": "id"}, {"id": "id", "name": "id"}])
def test_a_projection_that_changes_something_stays(items: dict[str, str]) -> None:
    plan = project(scan(USERS), **items)
    assert drop_projections(plan) is plan


def test_distinct_of_rows_with_a_key_is_removed() -> None:
    expect(drop_distinct(Distinct(scan(USERS))), "Scan table users")
    plan = Distinct(scan())
    assert drop_distinct(plan) is plan
