"""Ad-hoc SELECT: relations become temporary views, plain views are inlined."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.plans.workbench import RELATIONS, apply
from tidegate import bind
from tidegate.catalog import Catalog
from tidegate.errors import Error
from tidegate.sql import parse
from tidegate.sql.statements import Select

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

VIEWS = """
CREATE MATERIALIZED VIEW names AS SELECT name, COUNT(*) AS n FROM users GROUP BY name;
CREATE VIEW often (who, times) AS SELECT name, n FROM names WHERE n > 1;
CREATE VIEW numbered AS SELECT name, both FROM
  (SELECT name, MAP(name, n) AS both, ROW_NUMBER() OVER (ORDER BY n) AS place FROM names) WHERE place <= 1;
CREATE VIEW first_name AS SELECT name FROM
  (SELECT name, n, ROW_NUMBER() OVER (ORDER BY n) AS place FROM names) WHERE place <= 1;
CREATE VIEW most AS SELECT MAP(name, n) AS both, name FROM names ORDER BY n DESC LIMIT 1;
"""


@pytest.fixture(scope="module")
def catalog(spark: SparkSession) -> Catalog:
    from tidegate.spark.analyzer import SparkAnalyzer

    return apply(RELATIONS + VIEWS, Catalog(), SparkAnalyzer(spark))


def select(sql: str, catalog: Catalog, sources: bool = False) -> bind.BoundSelect:
    statement = parse(sql).statements[0]
    assert isinstance(statement, Select)
    return bind.bind_select(statement.query, catalog, sources=sources)


def test_relations_are_read_by_their_temporary_names(catalog: Catalog) -> None:
    bound = select("SELECT u.name, names.n FROM Users u JOIN names ON u.name = names.name", catalog)
    assert bound.relations == ("users", "names")
    assert "FROM `tidegate_users` AS u JOIN `tidegate_names` AS `names` ON" in bound.sql


def test_plain_views_are_expanded(catalog: Catalog) -> None:
    bound = select("SELECT * FROM often", catalog)
    assert bound.relations == ("names",)
    assert bound.sql == (
        "SELECT * FROM (SELECT * FROM (SELECT name, n FROM `tidegate_names` AS `names` WHERE n > 1)"
        " AS `v`(`who`, `times`)) AS `often`"
    )


def test_ties_of_plain_views_are_broken_by_columns_that_have_an_order(catalog: Catalog) -> None:
    assert "ORDER BY n DESC, 2 LIMIT 1" in select("SELECT * FROM most", catalog).sql
    assert "OVER (ORDER BY n, name, n)" in select("SELECT * FROM first_name", catalog).sql
    assert "OVER (ORDER BY n)" in select("SELECT * FROM numbered", catalog).sql


def test_system_relations(catalog: Catalog) -> None:
    assert select("SELECT COUNT(*) FROM system.errors WHERE code = 'X'", catalog).relations == ("system.errors",)


def test_a_cte_hides_a_relation(catalog: Catalog) -> None:
    bound = select("WITH users AS (SELECT 1 AS id) SELECT * FROM users", catalog)
    assert bound.relations == ()


def test_subqueries_anywhere(catalog: Catalog) -> None:
    bound = select("SELECT (SELECT MAX(a) FROM moves) FROM users WHERE id IN (SELECT a FROM clicks)", catalog)
    assert set(bound.relations) == {"moves", "users", "clicks"}


def test_sources_only_where_their_rows_are_available(catalog: Catalog) -> None:
    with pytest.raises(Error, match="does not keep its rows"):
        select("SELECT * FROM bids", catalog)
    assert select("SELECT * FROM bids", catalog, sources=True).relations == ("bids",)


def test_windows_are_written_in_spark_sql(catalog: Catalog) -> None:
    bound = select("SELECT window_end, COUNT(*) FROM TUMBLE(bids, ts, 10s) GROUP BY window_end", catalog, sources=True)
    assert bound.relations == ("bids",)
    assert "TUMBLE" not in bound.sql and "FROM `tidegate_bids` AS `__rows` WHERE" in bound.sql


def test_the_error_for_a_window_over_an_unknown_relation_has_its_span(catalog: Catalog) -> None:
    text = "SELECT window_end FROM TUMBLE(userz, ts, 10s)"
    with pytest.raises(Error, match="there is no relation userz") as caught:
        select(text, catalog)
    span = caught.value.span
    assert span is not None and text[span.start : span.end] == "userz"
