"""Circuits: what is shared, what is logged, and when two circuits are the same."""

from __future__ import annotations

import pickle
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.plans.workbench import RELATIONS, apply
from tidegate import bind, circuit, compile
from tidegate.catalog import Catalog
from tidegate.circuit.model import Circuit, Output
from tidegate.errors import Error
from tidegate.ir.specs import AggregateSpec, TableSpec

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="module")
def analyzer(spark: SparkSession) -> bind.Analyzer:
    from tidegate.spark.analyzer import SparkAnalyzer

    return SparkAnalyzer(spark)


@pytest.fixture(scope="module")
def base(analyzer: bind.Analyzer) -> Catalog:
    return apply(RELATIONS, Catalog(), analyzer)


def output(built: Circuit, relation: str) -> Output:
    return next(each for each in built.outputs if each.relation == relation)


def test_equal_ops_of_different_views_are_one(base: Catalog, analyzer: bind.Analyzer) -> None:
    catalog = apply(
        """
        CREATE MATERIALIZED VIEW a AS SELECT item, SUM(price) AS total FROM bids GROUP BY item;
        CREATE MATERIALIZED VIEW b AS SELECT SUM(x.price) + 1 AS s FROM bids x GROUP BY x.item HAVING SUM(price) > 3;
        """,
        base,
        analyzer,
    )
    built = compile.build(catalog, analyzer)
    assert len([op for op in built.ops if isinstance(op.kernel, AggregateSpec)]) == 1
    assert circuit.ops_behind(built, output(built, "a")) == circuit.ops_behind(built, output(built, "b"))


def test_ops_over_a_source_are_shared_only_if_they_began_together(base: Catalog, analyzer: bind.Analyzer) -> None:
    catalog = apply(
        """
        CREATE MATERIALIZED VIEW a AS SELECT item, SUM(price) AS total FROM bids GROUP BY item;
        CREATE MATERIALIZED VIEW b AS SELECT item, SUM(price) AS total FROM bids GROUP BY item;
        CREATE MATERIALIZED VIEW c AS SELECT name, COUNT(*) AS n FROM users GROUP BY name;
        CREATE MATERIALIZED VIEW d AS SELECT name, COUNT(*) AS n FROM users GROUP BY name;
        CREATE MATERIALIZED VIEW e AS SELECT total, COUNT(*) AS n FROM a GROUP BY total;
        """,
        base,
        analyzer,
    )
    built = compile.build(catalog, analyzer, {"b": 3, "d": 3, "e": 3})
    behind = {each.relation: circuit.ops_behind(built, each) for each in built.outputs}
    assert set(behind["a"]).isdisjoint(behind["b"])
    assert behind["c"] == behind["d"]
    assert set(behind["a"]) < set(behind["e"])


def test_every_table_and_materialized_view_is_logged(base: Catalog, analyzer: bind.Analyzer) -> None:
    catalog = apply(
        """
        CREATE VIEW plain AS SELECT item FROM bids;
        CREATE VIEW written AS SELECT price FROM bids;
        CREATE MATERIALIZED VIEW kept AS SELECT * FROM plain;
        CREATE SINK one FROM written INTO STDOUT;
        CREATE SINK two AS SELECT qty FROM bids INTO STDOUT;
        """,
        base,
        analyzer,
    )
    built = compile.build(catalog, analyzer)
    assert [each.relation for each in built.outputs] == ["users", "moves", "clicks", "written", "kept", "two"]


def test_tables_are_ops_unless_nothing_ever_leaves_them(base: Catalog, analyzer: bind.Analyzer) -> None:
    built = compile.build(base, analyzer)
    tables = {op.kernel.relation: op for op in built.ops if isinstance(op.kernel, TableSpec)}
    assert set(tables) == {"users", "moves"}
    assert tables["users"].ports[0].key == ("id",)
    assert tables["moves"].ports[0].key == ("a", "b")
    assert all(op.ports[0].ordered for op in tables.values())
    assert output(built, "clicks").branches[0].producer == "in:clicks"


def test_levels_follow_the_rows(base: Catalog, analyzer: bind.Analyzer) -> None:
    catalog = apply(
        """
        CREATE MATERIALIZED VIEW a AS SELECT region, COUNT(*) AS n FROM users GROUP BY region;
        CREATE MATERIALIZED VIEW b AS SELECT n, COUNT(*) AS regions FROM a GROUP BY n ORDER BY n DESC LIMIT 2;
        """,
        base,
        analyzer,
    )
    built = compile.build(catalog, analyzer)
    assert built.depth == 4
    by_id = {op.id: op.level for op in built.ops}
    for op in built.ops:
        assert all(by_id.get(branch.producer, 0) < op.level for port in op.ports for branch in port.branches)


def test_hidden_keys_follow_the_group(base: Catalog, analyzer: bind.Analyzer) -> None:
    catalog = apply("CREATE MATERIALIZED VIEW a AS SELECT SUM(price) AS s FROM bids GROUP BY item;", base, analyzer)
    found = output(compile.build(catalog, analyzer), "a")
    assert [column.name for column in found.columns] == ["s"]
    assert [column.name for column in found.hidden] == ["__k0"]
    assert found.key == ("__k0",)
    assert [column.name for column in found.branches[0].columns] == ["s", "__k0"]


def test_a_circuit_travels_to_workers(base: Catalog, analyzer: bind.Analyzer) -> None:
    built = compile.build(base, analyzer)
    assert pickle.loads(pickle.dumps(built)) == built


def test_fingerprints_say_what_changed(base: Catalog, analyzer: bind.Analyzer) -> None:
    first = apply(
        """
        CREATE MATERIALIZED VIEW a AS SELECT item, SUM(price) AS s FROM bids GROUP BY item;
        CREATE MATERIALIZED VIEW b AS SELECT item FROM bids;
        """,
        base,
        analyzer,
    )
    second = apply(
        """
        CREATE OR REPLACE MATERIALIZED VIEW a AS SELECT item, SUM(qty) AS s FROM bids GROUP BY item;
        DROP MATERIALIZED VIEW b;
        CREATE MATERIALIZED VIEW c AS SELECT item FROM bids;
        """,
        first,
        analyzer,
    )
    old, new = (circuit.fingerprint(compile.build(each, analyzer)) for each in (first, second))
    assert circuit.diff(old, old) == ()
    assert circuit.diff(old, new) == ("relation a is defined differently", "relation c is new", "relation b is gone")
    assert circuit.changed(old, new) == ("a",)
    assert circuit.Fingerprint.from_json(old.to_json()) == old
    assert old.whole != new.whole


def test_ids_are_the_same_in_every_process() -> None:
    """An id names state on disk: it must not depend on the hash seed."""
    code = (
        "from tidegate.circuit.identity import op_id; from tidegate.ir.specs import DistinctSpec;"
        "print(op_id(DistinctSpec(('a', 'b'), True), (), (), 0))"
    )
    answers = {
        subprocess.run(
            [sys.executable, "-c", code], env={"PYTHONHASHSEED": seed}, capture_output=True, text=True, check=True
        ).stdout
        for seed in ("1", "2")
    }
    assert len(answers) == 1
    assert len(answers.pop().strip()) == 12


def test_views_are_bound_anew_when_what_they_read_changes(base: Catalog, analyzer: bind.Analyzer) -> None:
    catalog = apply(
        """
        CREATE MATERIALIZED VIEW a AS SELECT item, SUM(price) AS n FROM bids GROUP BY item;
        CREATE MATERIALIZED VIEW b AS SELECT item, n + 1 AS m FROM a;
        """,
        base,
        analyzer,
    )
    assert compile.recompile(catalog, analyzer) == catalog
    assert catalog.get("b").key == ("item",)
    replaced = apply("CREATE OR REPLACE MATERIALIZED VIEW a AS SELECT item, price AS n FROM bids;", catalog, analyzer)
    b = compile.recompile(replaced, analyzer).get("b")
    assert (b.key, b.changes) == (None, "append")


def test_a_view_that_lost_its_key_is_refused(base: Catalog, analyzer: bind.Analyzer) -> None:
    catalog = apply(
        """
        CREATE MATERIALIZED VIEW a AS SELECT item, SUM(price) AS n FROM bids GROUP BY item;
        CREATE MATERIALIZED VIEW b AS SELECT item, n + 1 AS m FROM a EMIT ON UPDATE;
        """,
        base,
        analyzer,
    )
    replaced = apply("CREATE OR REPLACE MATERIALIZED VIEW a AS SELECT item, price AS n FROM bids;", catalog, analyzer)
    with pytest.raises(Error) as caught:
        compile.recompile(replaced, analyzer)
    assert caught.value.code == "EMIT_NEEDS_KEY"


def test_a_view_is_compiled_anew_when_its_late_table_changes(base: Catalog, analyzer: bind.Analyzer) -> None:
    catalog = apply(
        """
        CREATE TABLE too_late (item STRING, ts TIMESTAMP);
        CREATE SOURCE orders (item STRING, ts TIMESTAMP, WATERMARK FOR ts AS ts - INTERVAL '5' SECOND);
        CREATE MATERIALIZED VIEW a AS SELECT item, window_start, COUNT(*) AS n
          FROM TUMBLE(orders, ts, INTERVAL '1' MINUTE) GROUP BY item, window_start, window_end LATE DATA TO too_late;
        """,
        base,
        analyzer,
    )
    assert compile.definition(catalog.get("a"), catalog, analyzer).late_to == "too_late"
    replaced = apply("CREATE OR REPLACE TABLE too_late (item STRING);", catalog, analyzer)
    with pytest.raises(Error) as caught:
        compile.definition(replaced.get("a"), replaced, analyzer)
    assert caught.value.code == "TYPE_MISMATCH"


def test_compiled_views_belong_to_the_analyzer_that_typed_them(base: Catalog, spark: SparkSession) -> None:
    from tidegate.spark.analyzer import SparkAnalyzer

    first, second = SparkAnalyzer(spark), SparkAnalyzer(spark)
    catalog = apply("CREATE MATERIALIZED VIEW a AS SELECT item FROM bids;", base, first)
    view = catalog.get("a")
    assert compile.definition(view, catalog, first) is compile.definition(view, catalog, first)
    assert compile.definition(view, catalog, first) is not compile.definition(view, catalog, second)
