"""Circuits: shared ops, logged relations, and when two circuits are equal."""

from __future__ import annotations

import pickle
import subprocess
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.plans.workbench import RELATIONS, apply
from tidegate import bind, circuit, compile
from tidegate.catalog import Catalog, TimeNote
from tidegate.circuit.model import Circuit, Output
from tidegate.errors import Error
from tidegate.ir.specs import AggregateSpec, TableSpec
from tidegate.plan import IngressCheck
from tidegate.sql import parse
from tidegate.sql.statements import CreateView

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="module")
def analyzer(spark: SparkSession) -> bind.Analyzer:
    from tidegate.spark.analyzer import SparkAnalyzer

    return SparkAnalyzer(spark)


@pytest.fixture(scope="module")
def base(analyzer: bind.Analyzer) -> Catalog:
    return apply(RELATIONS, Catalog(), analyzer)


def output(compiled: Circuit, relation: str) -> Output:
    return next(each for each in compiled.outputs if each.relation == relation)


def test_equal_ops_of_different_views_are_shared(base: Catalog, analyzer: bind.Analyzer) -> None:
    catalog = apply(
        """
        CREATE MATERIALIZED VIEW a AS SELECT item, SUM(price) AS total FROM bids GROUP BY item;
        CREATE MATERIALIZED VIEW b AS SELECT SUM(x.price) + 1 AS s FROM bids x GROUP BY x.item HAVING SUM(price) > 3;
        """,
        base,
        analyzer,
    )
    compiled = compile.build(catalog, analyzer)
    assert len([op for op in compiled.ops if isinstance(op.kernel, AggregateSpec)]) == 1
    assert circuit.ops_behind(compiled, output(compiled, "a")) == circuit.ops_behind(compiled, output(compiled, "b"))


def test_ops_over_a_source_are_shared_only_if_they_started_together(base: Catalog, analyzer: bind.Analyzer) -> None:
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
    compiled = compile.build(catalog, analyzer, {"b": 3, "d": 3, "e": 3})
    behind = {each.relation: circuit.ops_behind(compiled, each) for each in compiled.outputs}
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
    compiled = compile.build(catalog, analyzer)
    assert [each.relation for each in compiled.outputs] == ["users", "moves", "clicks", "written", "kept", "two"]


def test_tables_are_ops_unless_they_are_append_only(base: Catalog, analyzer: bind.Analyzer) -> None:
    compiled = compile.build(base, analyzer)
    tables = {op.kernel.relation: op for op in compiled.ops if isinstance(op.kernel, TableSpec)}
    assert set(tables) == {"users", "moves"}
    assert tables["users"].ports[0].key == ("id",)
    assert tables["moves"].ports[0].key == ("a", "b")
    assert all(op.ports[0].ordered for op in tables.values())
    assert output(compiled, "clicks").branches[0].producer == "in:clicks"


def test_an_op_is_on_a_later_level_than_its_inputs(base: Catalog, analyzer: bind.Analyzer) -> None:
    catalog = apply(
        """
        CREATE MATERIALIZED VIEW a AS SELECT region, COUNT(*) AS n FROM users GROUP BY region;
        CREATE MATERIALIZED VIEW b AS SELECT n, COUNT(*) AS regions FROM a GROUP BY n ORDER BY n DESC LIMIT 2;
        """,
        base,
        analyzer,
    )
    compiled = compile.build(catalog, analyzer)
    assert compiled.depth == 4
    by_id = {op.id: op.level for op in compiled.ops}
    for op in compiled.ops:
        assert all(by_id.get(branch.producer, 0) < op.level for port in op.ports for branch in port.branches)


def test_keys_that_are_not_selected_are_hidden_columns(base: Catalog, analyzer: bind.Analyzer) -> None:
    catalog = apply("CREATE MATERIALIZED VIEW a AS SELECT SUM(price) AS s FROM bids GROUP BY item;", base, analyzer)
    a = output(compile.build(catalog, analyzer), "a")
    assert [column.name for column in a.columns] == ["s"]
    assert [column.name for column in a.hidden] == ["__k0"]
    assert a.key == ("__k0",)
    assert [column.name for column in a.branches[0].columns] == ["s", "__k0"]


def test_a_circuit_can_be_pickled(base: Catalog, analyzer: bind.Analyzer) -> None:
    compiled = compile.build(base, analyzer)
    assert pickle.loads(pickle.dumps(compiled)) == compiled


def test_the_difference_of_fingerprints_names_changed_relations(base: Catalog, analyzer: bind.Analyzer) -> None:
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
    assert circuit.changed_outputs(old, new) == ("a",)
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


def test_views_are_bound_again_when_their_input_changes(base: Catalog, analyzer: bind.Analyzer) -> None:
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


def test_a_view_that_lost_its_key_is_rejected(base: Catalog, analyzer: bind.Analyzer) -> None:
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


def test_a_view_is_compiled_again_when_its_late_table_changes(base: Catalog, analyzer: bind.Analyzer) -> None:
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


def test_a_view_is_compiled_again_when_something_upstream_changes(base: Catalog, analyzer: bind.Analyzer) -> None:
    views = """
        CREATE SOURCE ticks (item STRING, ts TIMESTAMP);
        CREATE VIEW renamed AS SELECT item, ts AS at FROM ticks;
        CREATE VIEW a AS SELECT item, at FROM renamed;
    """
    catalog = apply(views, base, analyzer)
    assert compile.definition(catalog.get("a"), catalog, analyzer).plan.traits.watermarks == ()
    timed = "CREATE OR REPLACE SOURCE ticks (item STRING, ts TIMESTAMP, WATERMARK FOR ts AS ts - INTERVAL '5' SECOND);"
    replaced = apply(timed, catalog, analyzer)
    ((column, _),) = compile.definition(replaced.get("a"), replaced, analyzer).plan.traits.watermarks
    assert column == "at"


def test_a_view_is_compiled_again_when_its_own_entry_changes(base: Catalog, analyzer: bind.Analyzer) -> None:
    catalog = apply("CREATE MATERIALIZED VIEW a AS SELECT item, ts FROM bids;", base, analyzer)
    view = catalog.get("a")
    late = replace(view, times=(TimeNote("ts", "lateness", "INTERVAL '1' MINUTE"),))
    assert not isinstance(compile.definition(view, catalog, analyzer).plan, IngressCheck)
    assert isinstance(compile.definition(late, catalog.replace(late), analyzer).plan, IngressCheck)


def test_compiling_does_not_modify_the_shared_tree_of_a_definition(base: Catalog, analyzer: bind.Analyzer) -> None:
    text = """
        CREATE MATERIALIZED VIEW a AS SELECT item, TUMBLE_END(ts, INTERVAL '1' MINUTE) AS e, COUNT(*) AS n FROM bids
        WHERE item IN (SELECT name FROM users) AND price > 1 GROUP BY item, TUMBLE(ts, INTERVAL '1' MINUTE)"""
    catalog = apply(text, base, analyzer)
    compile.build(catalog, analyzer)
    shared, (fresh,) = catalog.get("a").statement, parse(text).statements
    assert isinstance(shared, CreateView) and isinstance(fresh, CreateView)
    assert shared.query.select == fresh.query.select
