"""The traits that nodes derive."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.rules.plans import BIDS, USERS, project, rank, scan, total, where
from tidegate.catalog import Column
from tidegate.core.durations import CalendarInterval
from tidegate.ir.specs import Order
from tidegate.ir.windows import WindowSpec
from tidegate.plan import Closing, Distinct, Gate, Node, Project, SetOp, TopN, UnionAll, View, Window, WindowAggregate
from tidegate.traits import kind

PRICE = (Order("price", True, False),)


def test_traits_of_inputs() -> None:
    assert (scan().traits.key, scan().traits.kind) == (None, "append")
    assert (scan(USERS).traits.key, scan(USERS).traits.kind) == (("id",), "changelog")


def test_projections_preserve_a_key_that_they_contain() -> None:
    assert project(scan(USERS), number="id", name="name").traits.key == ("number",)
    assert project(scan(USERS), name="name").traits.key is None
    assert project(scan(USERS), next="id + 1").traits.key is None
    assert where(scan(USERS), "id > 3").traits.key == ("id",)


def test_groups_are_keys() -> None:
    assert total(scan()).traits.key == ("item",)
    assert total(scan(), key="").traits.key == ()
    assert total(scan()).traits.kind == "changelog"
    assert View("v", total(scan())).traits.key == ("item",)


def test_distinct_of_an_append_only_relation_is_append_only() -> None:
    rows = Distinct(project(scan(), item="item"))
    assert (rows.traits.key, rows.traits.kind) == (("item",), "append")


def test_unions_have_no_key() -> None:
    union = UnionAll((scan(USERS), scan(USERS)))
    assert (union.traits.key, union.traits.kind) == (None, "changelog")
    assert UnionAll((scan(), scan())).traits.kind == "append"


def test_set_operations() -> None:
    assert SetOp("intersect", False, scan(), scan()).traits.kind == "append"
    assert SetOp("except", False, scan(), scan()).traits.kind == "changelog"
    assert SetOp("except", False, scan(), scan()).traits.key == scan().columns
    assert SetOp("except", True, scan(), scan()).traits.key is None


def test_top_n() -> None:
    assert TopN(scan(), ("item",), PRICE, 1).traits.key == ("item",)
    assert TopN(scan(), ("item",), PRICE, 2).traits.key is None
    assert TopN(scan(), ("item",), PRICE, 2, rank="n").traits.key == ("item", "n")
    assert TopN(scan(), ("item",), PRICE, 1, function="rank").traits.key is None
    assert TopN(total(scan()), (), (Order("s", True, False),), 3).traits.key == ("item",)
    assert TopN(scan(), (), PRICE, 3).traits.state == "3 rows"


def watermark_names(plan: Node) -> dict[str, str]:
    return {column: watermark.name for column, watermark in plan.traits.watermarks}


def test_plain_columns_keep_their_watermark() -> None:
    assert watermark_names(project(scan(), t="ts")) == {"t": "bids.ts"}
    assert watermark_names(UnionAll((scan(), scan()))) == {"ts": "bids.ts"}
    assert watermark_names(total(scan())) == {}


@pytest.mark.parametrize(
    "sql",
    [
        "ts + INTERVAL '1' DAY",
        "ts - INTERVAL '1' HOUR",
        "date_trunc('HOUR', ts)",
        "DATE(ts)",
        "to_date(ts)",
        "CAST(ts AS DATE)",
        "YEAR(ts)",
        "unix_micros(ts)",
        "unix_timestamp(ts) * 2",
        "unix_timestamp(ts) / 60",
        "floor(unix_timestamp(ts) / 60)",
        "GREATEST(ts, TIMESTAMP '2020-01-01')",
        "LEAST(ts, ts + INTERVAL '1' DAY)",
        "(ts + INTERVAL '1' DAY) - INTERVAL '2' DAY",
    ],
)
def test_monotone_expressions_keep_a_watermark(sql: str) -> None:
    assert list(watermark_names(project(scan(), t=sql))) == ["t"]


@pytest.mark.parametrize(
    ("sql", "reason"),
    [
        ("HOUR(ts)", "HOUR(`ts`)"),
        ("date_format(ts, 'yyyy')", "DATE_FORMAT(`ts`, 'yyyy')"),
        ("unix_timestamp(ts) * -1", "UNIX_TIMESTAMP(`ts`) * -1"),
        ("unix_timestamp(ts) * price", "UNIX_TIMESTAMP(`ts`) * `price`"),
        ("TIMESTAMP '2020-01-01' - (ts - TIMESTAMP '2019-01-01')", "`ts`"),
        ("CAST(ts AS STRING)", "CAST(`ts` AS STRING)"),
        ("LEAST(ts, CAST(item AS TIMESTAMP))", "LEAST"),
    ],
)
def test_other_expressions_lose_the_watermark_with_a_reason(sql: str, reason: str) -> None:
    plan = project(scan(), t=sql)
    assert watermark_names(plan) == {}
    [(column, why)] = plan.traits.lost
    assert column == "t" and reason.lower() in why.lower()


def test_a_filter_raises_a_watermark() -> None:
    plan = project(scan(), ts="ts", seen="CAST(item AS TIMESTAMP)")
    assert watermark_names(where(plan, "seen >= ts + INTERVAL '1' HOUR"))["seen"].startswith("`ts` + INTERVAL '1' HOUR")
    assert "seen" not in watermark_names(where(plan, "seen <= ts"))


def test_a_union_needs_a_watermark_on_every_side() -> None:
    both = UnionAll((project(scan(), t="unix_timestamp(ts)"), project(scan(), t="unix_timestamp(ts) - 60")))
    one = UnionAll((project(scan(), t="unix_timestamp(ts)"), project(scan(), t="HOUR(ts)")))
    assert watermark_names(both)["t"].startswith("min(")
    assert watermark_names(one) == {}
    assert "hour" in dict(one.traits.lost)["t"].lower()


def test_a_top_n_may_emit_old_rows_again() -> None:
    assert watermark_names(TopN(scan(), (), PRICE, 3)) == {}
    assert watermark_names(TopN(scan(), ("ts",), PRICE, 3)) == {"ts": "bids.ts"}


def test_changelog_kinds_contain_each_other() -> None:
    assert kind.fits("append", "upsert")
    assert kind.fits("upsert", "changelog")
    assert not kind.fits("changelog", "append")
    assert kind.of_emit("on_update", append_only=False) == "upsert"


def test_invalid_nodes_cannot_be_constructed() -> None:
    with pytest.raises(ValueError, match="needs"):
        where(scan(), "nothing > 1")
    with pytest.raises(ValueError, match="two columns"):
        Project(scan(), project(scan(), a="item").items * 2)
    with pytest.raises(ValueError, match="differ"):
        UnionAll((scan(), scan(USERS)))
    with pytest.raises(ValueError, match="needs"):
        rank(scan(), order="nothing")
    assert BIDS.column("ITEM") is not None


MORE_BIDS = replace(BIDS, name="more_bids")
LEAST = "min(bids.ts, more_bids.ts)"
HOUR = WindowSpec("tumble", "ts", CalendarInterval(micros=3_600_000_000))


def gate(below: Node, *columns: str) -> Gate:
    """Rows of `below` that wait until the watermarks of all these columns have passed them."""
    passed = [(column, below.traits.watermark(column)) for column in columns]
    return Gate(below, "final", tuple(Closing(column, each, each) for column, each in passed if each is not None))


def windows(below: Node) -> Gate:
    """Rows that wait for the end of their hour."""
    time = below.traits.watermark("ts")
    assert time is not None
    return Gate(Window(below, HOUR), "final", (Closing("window_end", time, time, inclusive=True),))


def test_rows_that_wait_for_their_window_may_be_as_old_as_its_start() -> None:
    held = windows(project(scan(), ts="ts", day="DATE(ts)", price="price"))
    start = "start of tumble 0m3600000000us+0 at bids.ts"
    assert watermark_names(held) == {
        "ts": start,
        "day": f"DATE(`ts`) over ts={start}",
        "window_start": start,
        "window_end": start.replace("start", "end"),
    }


def test_rows_that_wait_for_a_column_keep_what_is_computed_from_it() -> None:
    rows = project(scan(), ts="ts", later="ts + INTERVAL '1' DAY")
    assert watermark_names(gate(project(rows, ts="ts", day="DATE(ts)"), "ts")) == {
        "ts": "bids.ts",
        "day": "DATE(`ts`) over ts=bids.ts",
    }
    assert watermark_names(gate(rows, "later")) == {"ts": "bids.ts", "later": "`ts` + INTERVAL '1' DAY over ts=bids.ts"}


def test_rows_that_wait_for_what_cannot_be_traced_back_lose_the_other_watermarks() -> None:
    held = gate(project(scan(), ts="ts", most="GREATEST(ts, TIMESTAMP '2020-01-01')"), "most")
    assert list(watermark_names(held)) == ["most"]
    assert held.traits.lost == (("ts", "rows wait for most"),)


def test_rows_that_wait_for_a_time_and_another_that_is_shifted_wait_for_one_moment() -> None:
    rows = project(scan(), ts="ts", later="ts + INTERVAL '1' DAY", earlier="ts - INTERVAL '1' HOUR")
    assert watermark_names(gate(rows, "ts", "later", "earlier")) == watermark_names(rows)


def test_what_a_rounded_column_says_about_the_time_takes_every_expression_into_account() -> None:
    rows = View("later", project(scan(), ts="ts", later="ts + INTERVAL '1' DAY"))
    held = watermark_names(gate(project(rows, ts="ts", hour="date_trunc('HOUR', later)"), "hour"))
    hour = "date_trunc('HOUR', `later`) over later=`ts` + INTERVAL '1' DAY over ts=bids.ts"
    assert held["ts"] == f"`x` - INTERVAL '1' DAY over x={hour}"
    merged = watermark_names(gate(project(scan(), ts="ts", day="DATE(ts + INTERVAL '1' DAY)"), "day"))
    assert merged["ts"].startswith("CAST(`x` AS TIMESTAMP) - INTERVAL '1' DAY over x=DATE(")


def test_a_column_that_a_filter_bounds_by_another_says_nothing_about_that_one() -> None:
    plan = where(scan(replace(BIDS, columns=(*BIDS.columns, Column("seen", "timestamp")))), "seen >= ts")
    assert watermark_names(gate(plan, "ts", "seen")) == {}
    assert watermark_names(gate(plan, "seen")) == {"seen": "bids.ts"}


def test_rows_that_wait_for_the_edges_of_a_window_below_are_held_back_to_its_start() -> None:
    below = WindowAggregate(project(scan(), ts="ts"), HOUR, (), ())
    start, end = (f"{edge} of tumble 0m3600000000us+0 at" for edge in ("start", "end"))
    assert watermark_names(gate(View("hours", below), "window_start", "window_end")) == {
        "window_start": f"min({start} bids.ts, {start} {start} bids.ts)",
        "window_end": f"min({end} {start} bids.ts, {end} bids.ts)",
    }


def test_rows_that_wait_for_a_time_and_its_window_are_held_back_to_the_start_of_the_window() -> None:
    names = ("ts", "window_start", "window_end")
    rows = project(Window(project(scan(), ts="ts"), HOUR), **{name: name for name in names})
    held = watermark_names(gate(rows, *names))
    start = "start of tumble 0m3600000000us+0 at bids.ts"
    assert held["ts"] == f"min(bids.ts, {start})"
    assert set(held) == set(names)


def test_columns_of_a_union_are_not_computed_from_each_other() -> None:
    sides = [project(scan(each), ts="ts", other="ts") for each in (BIDS, MORE_BIDS)]
    assert watermark_names(UnionAll(tuple(sides))) == {"ts": LEAST, "other": LEAST}
    assert watermark_names(gate(UnionAll(tuple(sides)), "ts")) == {"ts": LEAST}


def test_set_operations_have_the_least_watermark_of_their_sides() -> None:
    times, more, plain = (project(scan(each), ts="ts") for each in (BIDS, MORE_BIDS, replace(BIDS, times=())))
    assert watermark_names(SetOp("intersect", False, times, more)) == {"ts": LEAST}
    assert watermark_names(SetOp("except", False, times, more)) == {"ts": LEAST}
    without = SetOp("except", False, times, plain).traits
    assert (without.watermarks, without.lost) == ((), (("ts", "side 2 of the set operation has none"),))
