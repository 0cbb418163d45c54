"""What nodes know about themselves."""

from __future__ import annotations

import pytest

from tests.rules.plans import BIDS, USERS, project, ranked, scan, total, where
from tidegate.kernels.specs import Order
from tidegate.plan import Distinct, Project, SetOp, TopN, UnionAll, View
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


def test_waterlines() -> None:
    assert dict(project(scan(), t="ts").traits.waterlines) == {"t": "bids.ts"}
    assert project(scan(), t="ts + 1").traits.waterlines == ()
    assert UnionAll((scan(), scan())).traits.waterlines == (("ts", "bids.ts"),)
    assert total(scan()).traits.waterlines == ()


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
