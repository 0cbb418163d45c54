"""What nodes know about themselves."""

from __future__ import annotations

import pytest

from tests.rules.plans import BIDS, USERS, project, ranked, scan, total, where
from tidegate.ir.specs import Order
from tidegate.plan import Distinct, Node, Project, SetOp, TopN, UnionAll, View
from tidegate.traits import kind

PRICE = (Order("price", True, False),)


def test_inputs() -> None:
    assert (scan().traits.key, scan().traits.kind) == (None, "append")
    assert (scan(USERS).traits.key, scan(USERS).traits.kind) == (("id",), "changelog")


def test_a_key_goes_through_projections_that_keep_it() -> None:
    assert project(scan(USERS), number="id", name="name").traits.key == ("number",)
    assert project(scan(USERS), name="name").traits.key is None
    assert project(scan(USERS), next="id + 1").traits.key is None
    assert where(scan(USERS), "id > 3").traits.key == ("id",)


def test_groups_are_keys() -> None:
    assert total(scan()).traits.key == ("item",)
    assert total(scan(), key="").traits.key == ()
    assert total(scan()).traits.kind == "changelog"
    assert View("v", total(scan())).traits.key == ("item",)


def test_distinct_of_an_append_only_relation_only_grows() -> None:
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


def lines(plan: Node) -> dict[str, str]:
    return {column: line.name for column, line in plan.traits.watermarks}


def test_waterlines_go_through_plain_columns() -> None:
    assert lines(project(scan(), t="ts")) == {"t": "bids.ts"}
    assert lines(UnionAll((scan(), scan()))) == {"ts": "bids.ts"}
    assert lines(total(scan())) == {}


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
def test_monotone_expressions_keep_a_waterline(sql: str) -> None:
    assert list(lines(project(scan(), t=sql))) == ["t"]


@pytest.mark.parametrize(
    ("sql", "lost"),
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
def test_other_expressions_lose_it_and_say_so(sql: str, lost: str) -> None:
    plan = project(scan(), t=sql)
    assert lines(plan) == {}
    [(column, why)] = plan.traits.lost
    assert column == "t" and lost.lower() in why.lower()


def test_a_filter_raises_a_waterline() -> None:
    plan = project(scan(), ts="ts", seen="CAST(item AS TIMESTAMP)")
    assert lines(where(plan, "seen >= ts + INTERVAL '1' HOUR"))["seen"].startswith("`ts` + INTERVAL '1' HOUR")
    assert "seen" not in lines(where(plan, "seen <= ts"))


def test_a_union_needs_a_waterline_on_every_side() -> None:
    both = UnionAll((project(scan(), t="unix_timestamp(ts)"), project(scan(), t="unix_timestamp(ts) - 60")))
    one = UnionAll((project(scan(), t="unix_timestamp(ts)"), project(scan(), t="HOUR(ts)")))
    assert lines(both)["t"].startswith("min(")
    assert lines(one) == {}
    assert "hour" in dict(one.traits.lost)["t"].lower()


def test_a_top_n_gives_back_old_rows() -> None:
    assert lines(TopN(scan(), (), PRICE, 3)) == {}
    assert lines(TopN(scan(), ("ts",), PRICE, 3)) == {"ts": "bids.ts"}


def test_kinds_contain_each_other() -> None:
    assert kind.fits("append", "upsert")
    assert kind.fits("upsert", "changelog")
    assert not kind.fits("changelog", "append")
    assert kind.of_emit("on_update", append_only=False) == "upsert"


def test_nodes_cannot_be_made_wrong() -> None:
    with pytest.raises(ValueError, match="needs"):
        where(scan(), "nothing > 1")
    with pytest.raises(ValueError, match="two columns"):
        Project(scan(), project(scan(), a="item").items * 2)
    with pytest.raises(ValueError, match="differ"):
        UnionAll((scan(), scan(USERS)))
    with pytest.raises(ValueError, match="needs"):
        ranked(scan(), order="nothing")
    assert BIDS.column("ITEM") is not None
