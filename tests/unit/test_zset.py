"""Z-sets: consolidation, expansion, and the ops that name a change."""

from collections import Counter

import polars as pl
from hypothesis import given, settings
from hypothesis import strategies as st

from tidegate.core import zset
from tidegate.core.columns import OP, WEIGHT

ROWS = st.lists(
    st.tuples(st.sampled_from(["a", "b", None]), st.sampled_from([1, 2, 3, None]), st.sampled_from([-2, -1, 1, 2])),
    max_size=12,
)


def frame(rows: list[tuple[str | None, int | None, int]]) -> pl.DataFrame:
    return pl.DataFrame(rows, schema={"k": pl.String, "v": pl.Int64, WEIGHT: pl.Int64}, orient="row")


def weights(rows: pl.DataFrame, *columns: str) -> Counter[tuple[object, ...]]:
    counts: Counter[tuple[object, ...]] = Counter()
    for row in rows.iter_rows(named=True):
        counts[tuple(row[column] for column in columns)] += row[WEIGHT]
    return Counter({key: weight for key, weight in counts.items() if weight})


@given(ROWS)
@settings(deadline=None)
def test_consolidation_keeps_every_weight(rows: list[tuple[str | None, int | None, int]]) -> None:
    net = zset.consolidate(frame(rows))
    assert weights(net, "k", "v") == weights(frame(rows), "k", "v")
    assert net.height == len(weights(net, "k", "v"))
    assert 0 not in net[WEIGHT].to_list()


@given(ROWS)
@settings(deadline=None)
def test_changes_add_up_to_the_rows_and_never_have_both_signs(rows: list[tuple[str | None, int | None, int]]) -> None:
    changes = zset.changes(frame(rows), ["k"], ["k"], append=False)
    assert weights(changes, "v") == weights(frame(rows), "v")
    signs = {}
    for row in changes.iter_rows(named=True):
        signs.setdefault(row["v"], set()).add(row[WEIGHT] > 0)
    assert all(len(each) == 1 for each in signs.values())


def test_a_row_is_expanded_as_often_as_its_weight() -> None:
    rows = pl.DataFrame({"v": [[1], [2, 3]], WEIGHT: [2, 1]})
    assert zset.expand(rows)["v"].to_list() == [[1], [1], [2, 3]]


def test_both_halves_of_a_change_of_one_key_are_an_update() -> None:
    changes = zset.changes(frame([("a", 1, -1), ("a", 2, 1), ("b", 5, 1), (None, 7, -1)]), [], ["k"], append=False)
    ops = [(row["k"], row["v"], row[OP]) for row in changes.iter_rows(named=True)]
    assert sorted(ops, key=str) == [("a", 1, "-U"), ("a", 2, "+U"), ("b", 5, "+I"), (None, 7, "-D")]


def test_retractions_come_first() -> None:
    changes = zset.changes(frame([("a", 2, 1), ("a", 1, -1)]), [], ["k"], append=False)
    assert changes[OP].to_list() == ["-U", "+U"]


def test_groups_that_swap_their_results_have_no_visible_change() -> None:
    swapped = [("a", 1, -1), ("a", 2, 1), ("b", 2, -1), ("b", 1, 1)]
    assert zset.changes(frame(swapped), ["k"], ["k"], append=False).is_empty()


def test_a_relation_without_a_key_has_no_updates() -> None:
    changes = zset.changes(frame([("a", 1, -1), ("a", 2, 1)]), [], None, append=False)
    assert changes[OP].to_list() == ["-D", "+I"]


def test_a_global_aggregate_has_the_empty_key() -> None:
    changes = zset.changes(frame([("x", 1, -1), ("x", 2, 1)]).drop("k"), [], [], append=False)
    assert changes[OP].to_list() == ["-U", "+U"]
