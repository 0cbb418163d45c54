"""Commands on a real engine, in this process and on the session that all tests share."""

from __future__ import annotations

import json
import runpy
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from typer.testing import CliRunner

from tidegate.cli.main import app

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from typer.testing import Result

EXAMPLES = Path(__file__).parents[2] / "examples"
SHOP = """
CREATE TABLE orders (id BIGINT PRIMARY KEY, product STRING, amount BIGINT);
CREATE MATERIALIZED VIEW revenue AS SELECT product, SUM(amount) AS total FROM orders GROUP BY product;
INSERT INTO orders VALUES (1, 'pen', 10), (2, 'pen', 20), (3, 'ink', 7);
"""
SORTED = "SELECT * FROM revenue ORDER BY product"
TABLE = "product | total\n--------+------\nink     |     7\npen     |    30\n(2 rows)\n"

runner = CliRunner()


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spark: SparkSession) -> None:
    """Every test has an empty working folder, and Spark is there already."""
    monkeypatch.chdir(tmp_path)


def tidegate(*arguments: str, stdin: str | None = None) -> Result:
    return runner.invoke(app, arguments, input=stdin)


def test_a_pipeline_runs_once_is_declared_once_and_can_be_asked(tmp_path: Path) -> None:
    script = tmp_path / "shop.sql"
    script.write_text(SHOP)
    first = tidegate("run", "shop.sql", "--once", "--show")
    assert (first.exit_code, first.stderr) == (0, "")
    shown = first.stdout[first.stdout.index("revenue\n") :]
    assert sorted(shown.splitlines()[3:5]) == ["ink     |     7", "pen     |    30"]

    again = tidegate("run", "shop.sql", "--once", "--show")
    assert again.stdout[again.stdout.index("revenue\n") :] == shown

    assert tidegate("query", "shop", SORTED).stdout == TABLE
    assert tidegate("query", "shop", SORTED, "--format", "csv").stdout == "product,total\nink,7\npen,30\n"
    assert json.loads(tidegate("query", "shop", SORTED, "--json").stdout)[1] == {"product": "pen", "total": 30}
    arrow = tidegate("query", "shop", SORTED, "--format", "arrow").stdout_bytes
    assert pa.ipc.open_stream(arrow).read_all().column("total").to_pylist() == [7, 30]
    assert tidegate("query", "shop", "SELECT * FROM revenue", "--as-of", "0").stdout.endswith("(0 rows)\n")

    followed = tidegate("tail", "shop", "revenue", "--once")
    assert sorted(line.split("  ", 3)[-1] for line in followed.stdout.splitlines()) == ["+I  ink | 7", "+I  pen | 30"]

    unknown = tidegate("tail", "shop", "revenu", "--once")
    assert (unknown.exit_code, unknown.stderr.split(":")[0]) == (2, "UNKNOWN_RELATION")

    script.write_text(SHOP.replace("SUM(amount)", "MAX(amount)"))
    changed = tidegate("run", "shop.sql", "--once")
    assert (changed.exit_code, changed.stderr.split(":")[0]) == (2, "PIPELINE_CHANGED")
    assert "revenue" in changed.stderr


def test_a_script_comes_by_a_pipe() -> None:
    found = tidegate("sql", stdin=SHOP + SORTED + ";\n\\d\n\\d orders\n")
    assert (found.exit_code, found.stderr) == (0, "")
    assert found.stdout == (
        "created table orders\n"
        "created materialized view revenue\n"
        "3 rows inserted\n" + TABLE + "name    | kind\n"
        "--------+------\n"
        "orders  | table\n"
        "revenue | view\n"
        "(2 rows)\n"
        "column_name | data_type | nullable\n"
        "------------+-----------+---------\n"
        "id          | BIGINT    | false\n"
        "product     | STRING    | true\n"
        "amount      | BIGINT    | true\n"
        "(3 rows)\n"
    )


def test_refused_sql_exits_with_2_and_a_caret(tmp_path: Path) -> None:
    (tmp_path / "bad.sql").write_text("CREATE TABLE t (a INT);\nCREATE MATERIALIZED VIEW v AS SELECT b FROM t;\n")
    found = tidegate("run", "bad.sql", "--once")
    assert (found.exit_code, found.stdout) == (2, "")
    assert found.stderr.splitlines()[:3] == [
        "UNKNOWN_COLUMN: there is no column b",
        "  line 2:  CREATE MATERIALIZED VIEW v AS SELECT b FROM t;",
        "                                                ^",
    ]


def test_a_folder_without_a_pipeline(tmp_path: Path) -> None:
    found = tidegate("query", "nothing", "SELECT 1")
    assert found.exit_code == 2
    assert found.stderr == (
        f"UNKNOWN_FOLDER: there is no database in {tmp_path}/nothing\n  hint: `tidegate run FILE.sql` makes one\n"
    )


@pytest.mark.parametrize("stage", ["parsed", "bound", "rewritten", "circuit"])
def test_the_example_explains_itself(stage: str) -> None:
    found = tidegate("explain", str(EXAMPLES / "shop.sql"), "revenue", "--stage", stage)
    assert (found.exit_code, found.stderr) == (0, "")
    assert "product" in found.stdout


def test_the_python_example(capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(EXAMPLES / "stock.py"), run_name="__main__")
    assert "+I {'item': 1, 'pieces': 7}" in capsys.readouterr().out
