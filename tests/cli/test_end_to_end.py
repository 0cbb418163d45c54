"""The program as a user runs it: processes and signals. Starting Spark costs seconds, so each test does much."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest

TIDEGATE = Path(sys.executable).parent / "tidegate"
EXAMPLES = Path(__file__).parents[2] / "examples"
ENDLESS = """
CREATE SOURCE ticks (n BIGINT, parity STRING)
FROM DATAGEN (rows_per_second = 50, fields.n.kind = 'sequence',
              fields.parity.kind = 'choice', fields.parity.choices = 'odd,even');
CREATE MATERIALIZED VIEW counts AS SELECT parity, COUNT(*) AS n FROM ticks GROUP BY parity;
"""
BOUNDED = """
CREATE TABLE orders (id BIGINT PRIMARY KEY, product STRING, amount BIGINT);
CREATE MATERIALIZED VIEW revenue AS SELECT product, SUM(amount) AS total FROM orders GROUP BY product;
INSERT INTO orders VALUES (1, 'pen', 10), (2, 'pen', 20), (3, 'ink', 7);
"""


def tidegate(*arguments: str | Path, folder: Path, stdin: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [TIDEGATE, *map(str, arguments)],
        capture_output=True,
        text=True,
        input=stdin,
        cwd=folder,
        timeout=400,
        check=False,
    )


def wait_for(holds: Callable[[], bool], seconds: float = 300.0) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.1)


@pytest.fixture
def endless(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """A pipeline without end in ./ticks, with its output in run.log."""
    (tmp_path / "ticks.sql").write_text(ENDLESS)
    with open(tmp_path / "run.log", "w") as log:
        command = [str(TIDEGATE), "run", "ticks.sql"]
        process = subprocess.Popen(
            command, stdout=log, stderr=subprocess.STDOUT, text=True, cwd=tmp_path, start_new_session=True
        )
        yield process
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def test_a_pipeline_is_queried_and_followed_while_it_runs(tmp_path: Path, endless: subprocess.Popen[str]) -> None:
    wait_for(lambda: "counts 2 rows" in (tmp_path / "run.log").read_text())

    found = tidegate("query", "ticks", "SELECT SUM(n) > 0 AS some FROM counts", "--format", "csv", folder=tmp_path)
    assert (found.returncode, found.stdout, found.stderr) == (0, "some\ntrue\n", "")

    tail = tidegate("tail", "ticks", "counts", "--from", "1", "--json", "--once", folder=tmp_path)
    changes = [json.loads(line) for line in tail.stdout.splitlines()]
    assert tail.returncode == 0
    assert {change["op"] for change in changes[:2]} == {"+I"}
    assert {change["op"] for change in changes} == {"+I", "-U", "+U"}

    second = tidegate("run", "ticks.sql", folder=tmp_path)
    assert second.returncode == 1
    assert second.stderr.startswith(f"PIPELINE_IN_USE: {tmp_path}/ticks is in use by process {endless.pid}\n")

    os.killpg(endless.pid, signal.SIGINT)
    assert endless.wait(timeout=120) == 0
    lines = (tmp_path / "run.log").read_text().splitlines()
    assert all("  step " in line for line in lines), lines


def test_a_bounded_pipeline_runs_once_and_is_declared_once(tmp_path: Path) -> None:
    script = tmp_path / "shop.sql"
    script.write_text(BOUNDED)
    first = tidegate("run", script, "--once", "--show", folder=tmp_path)
    assert (first.returncode, first.stderr) == (0, "")
    shown = first.stdout[first.stdout.index("revenue\n") :]
    assert sorted(shown.splitlines()[3:5]) == ["ink     |     7", "pen     |    30"]

    again = tidegate("run", script, "--once", "--show", folder=tmp_path)
    assert again.stdout[again.stdout.index("revenue\n") :] == shown

    script.write_text(BOUNDED.replace("SUM(amount)", "MAX(amount)"))
    changed = tidegate("run", script, "--once", folder=tmp_path)
    assert changed.returncode == 2
    assert changed.stderr.startswith("PIPELINE_CHANGED: ")
    assert "revenue" in changed.stderr

    arrow = subprocess.run(
        [TIDEGATE, "query", "shop", "SELECT * FROM revenue ORDER BY product", "--format", "arrow"],
        capture_output=True,
        cwd=tmp_path,
        timeout=400,
        check=True,
    )
    assert pa.ipc.open_stream(arrow.stdout).read_all().column("total").to_pylist() == [7, 30]


def test_a_script_comes_by_a_pipe(tmp_path: Path) -> None:
    found = tidegate(
        "sql", folder=tmp_path, stdin=BOUNDED + "SELECT * FROM revenue ORDER BY product;\n\\d\n\\d orders\n"
    )
    assert (found.returncode, found.stderr) == (0, "")
    assert found.stdout == (
        "created table orders\n"
        "created materialized view revenue\n"
        "3 rows inserted\n"
        "product | total\n"
        "--------+------\n"
        "ink     |     7\n"
        "pen     |    30\n"
        "(2 rows)\n"
        "name    | kind\n"
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
    found = tidegate("run", "bad.sql", "--once", folder=tmp_path)
    assert (found.returncode, found.stdout) == (2, "")
    assert found.stderr.splitlines()[:3] == [
        "UNKNOWN_COLUMN: there is no column b",
        "  line 2:  CREATE MATERIALIZED VIEW v AS SELECT b FROM t;",
        "                                                ^",
    ]


def test_spec_files(tmp_path: Path) -> None:
    good = (
        "# Counts.\n\nsql\n  CREATE TABLE t (a INT);\n  CREATE MATERIALIZED VIEW v AS SELECT COUNT(*) AS n FROM t;\n\n"
    )
    good += "step one row\n> t\n  1\n= v\n  1\n"
    (tmp_path / "good.spec").write_text(good)
    (tmp_path / "bad.spec").write_text(good.replace("= v\n  1", "= v\n  2"))
    found = tidegate("test", ".", folder=tmp_path)
    assert found.returncode == 1
    assert found.stdout.splitlines()[-1] == "1 passed, 1 failed"
    assert tidegate("test", "good.spec", "--json", folder=tmp_path).returncode == 0


def test_the_examples_explain_themselves(tmp_path: Path) -> None:
    found = tidegate("explain", EXAMPLES / "shop.sql", "revenue", folder=tmp_path)
    assert (found.returncode, found.stderr) == (0, "")
    assert "product" in found.stdout


def test_the_python_example(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, EXAMPLES / "stock.py"], capture_output=True, text=True, cwd=tmp_path, timeout=400, check=True
    )
    assert "+I {'item': 1, 'pieces': 7}" in done.stdout
