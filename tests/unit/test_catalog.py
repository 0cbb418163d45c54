"""The catalog: one case-insensitive namespace, immutable."""

from __future__ import annotations

from pathlib import Path

import pytest

from tidegate.catalog import Catalog, Column, ConnectorNote, Relation, TimeNote
from tidegate.errors import Error
from tidegate.storage import catalog_file
from tidegate.storage.objects import LocalStorage

COLUMNS = (Column("a", "int", False), Column("b", "struct<x:int>"))


def table(name: str, columns: tuple[Column, ...] = COLUMNS) -> Relation:
    return Relation(name=name, kind="table", columns=columns, sql=f"CREATE TABLE {name}", primary_key=("a",))


def view(name: str, *reads: str) -> Relation:
    return Relation(name=name, kind="view", columns=COLUMNS, sql="", materialized=True, dependencies=reads)


@pytest.fixture
def catalog() -> Catalog:
    return Catalog((table("T"), view("v", "T"), view("w", "v"), view("x", "T")))


def test_names_ignore_case_and_keep_it(catalog: Catalog) -> None:
    assert catalog.get("t").name == "T"
    assert "V" in catalog
    assert catalog.get("SYSTEM.errors").columns[0].name == "relation"


def test_a_change_does_not_modify_the_old_catalog(catalog: Catalog) -> None:
    later = catalog.create(table("u"))
    assert "u" in later
    assert "u" not in catalog


def test_a_name_can_be_used_once(catalog: Catalog) -> None:
    with pytest.raises(Error) as caught:
        catalog.create(view("t"))
    assert caught.value.code == "ALREADY_EXISTS"
    assert "T exists already, as a table" in str(caught.value)


def test_the_error_of_drop_names_the_dependents(catalog: Catalog) -> None:
    with pytest.raises(Error) as caught:
        catalog.drop("t")
    assert (caught.value.code, caught.value.message) == ("HAS_DEPENDENTS", "T is read by v and x")


def test_cascade_drops_all_dependents(catalog: Catalog) -> None:
    assert [relation.name for relation in catalog.drop("v", cascade=True)] == ["T", "x"]
    assert list(catalog.drop("t", cascade=True)) == []


def test_the_error_for_an_unknown_name_suggests_the_nearest(catalog: Catalog) -> None:
    with pytest.raises(Error, match=r"did you mean system\.errors"):
        catalog.get("system.erors")
    with pytest.raises(Error, match="known relations: T, v, w, x"):
        catalog.get("nothing_like_it")


def test_a_relation_with_dependents_keeps_its_columns(catalog: Catalog) -> None:
    assert catalog.replace(table("t")).get("v").dependencies == ("T",)
    with pytest.raises(Error) as caught:
        catalog.replace(table("t", COLUMNS[:1]))
    assert caught.value.code == "HAS_DEPENDENTS"
    assert catalog.replace(view("w", "T")).get("w").dependencies == ("T",)


def test_a_replaced_relation_comes_before_its_dependents(catalog: Catalog) -> None:
    assert [relation.name for relation in catalog.replace(view("v", "x"))] == ["T", "x", "v", "w"]


def test_a_view_cannot_read_itself_through_others(catalog: Catalog) -> None:
    with pytest.raises(Error, match="cannot read w, which reads it"):
        catalog.replace(view("v", "w"))


def test_a_new_definition_cannot_read_the_old_one(catalog: Catalog) -> None:
    with pytest.raises(Error, match="w cannot read itself"):
        catalog.replace(view("w", "w"))


def test_upstream_contains_each_relation_once(catalog: Catalog) -> None:
    diamond = catalog.create(view("y", "w", "x"))
    assert [relation.name for relation in diamond.upstream(diamond.get("y"))] == ["w", "x", "v", "T"]


def test_system_relations_cannot_be_dropped(catalog: Catalog) -> None:
    with pytest.raises(Error, match="belongs to every database"):
        catalog.drop("system.errors")
    with pytest.raises(Error, match="reserved"):
        catalog.create(table("system.mine"))


def test_a_sink_cannot_be_read(catalog: Catalog) -> None:
    sink = Relation(name="s", kind="sink", columns=COLUMNS, sql="", dependencies=("v",))
    with pytest.raises(Error, match="s is a sink"):
        catalog.create(sink).readable("s")


def test_a_saved_catalog_is_loaded_unchanged(catalog: Catalog, tmp_path: Path) -> None:
    source = Relation(
        name="s",
        kind="source",
        columns=(Column("ts", "timestamp"),),
        sql="CREATE SOURCE s ...",
        append_only=True,
        times=(TimeNote("ts", "watermark", "INTERVAL '5' SECOND"), TimeNote("ts", "watermark")),
        connector=ConnectorNote("files", (("path", "x"),), "json"),
        options=(("append_only", "true"),),
        changes="append",
    )
    full = catalog.create(source)
    storage = LocalStorage(tmp_path)
    catalog_file.save(full, storage)
    assert catalog_file.load(storage) == full


def test_a_missing_catalog_is_an_error_and_not_an_empty_catalog(tmp_path: Path) -> None:
    with pytest.raises(Error) as caught:
        catalog_file.load(LocalStorage(tmp_path))
    assert (caught.value.code, caught.value.message) == (
        "FOLDER_DAMAGED",
        f"{tmp_path / 'catalog.json'} is damaged: it is missing",
    )
