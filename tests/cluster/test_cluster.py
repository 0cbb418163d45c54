"""The same pipeline on a Spark master with two workers, as processes of their own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.servers import WORKERS, spark_cluster

PIPELINE = """
import json, sys
import tidegate

folder, master = sys.argv[1:]
with tidegate.connect(folder, master=master) as db:
    db.run_script('''
      CREATE TABLE orders (id BIGINT PRIMARY KEY, product STRING, amount BIGINT);
      CREATE MATERIALIZED VIEW revenue AS
        SELECT product, SUM(amount) AS total, COUNT(*) AS n FROM orders GROUP BY product;
      CREATE MATERIALIZED VIEW best AS SELECT product, total FROM revenue ORDER BY total DESC LIMIT 2;
    ''', "pipeline.sql")
    first = int(db.query("SELECT COUNT(*) FROM orders").rows()[0][0])
    db.insert("orders", [(i, f"p{i % 7}", i) for i in range(first, first + 500)])
    db.step()
    db.delete("orders", [{"id": i} for i in range(first, first + 500, 3)])
    db.step()
    names = ("revenue", "best", "orders")
    print(json.dumps({name: sorted(db.query(f"SELECT * FROM {name}").rows()) for name in names}))
"""


def run(folder: Path, master: str) -> dict[str, list[list[Any]]]:
    command = [sys.executable, "-c", PIPELINE, str(folder), master]
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable}
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    found: dict[str, list[list[Any]]] = json.loads(done.stdout)
    return found


def expected(orders: list[list[Any]]) -> list[list[Any]]:
    groups: dict[str, list[int]] = {}
    for _, product, amount in orders:
        groups.setdefault(product, []).append(amount)
    return sorted([product, sum(amounts), len(amounts)] for product, amounts in groups.items())


def test_a_pipeline_runs_and_resumes_on_a_cluster(tmp_path: Path) -> None:
    servers = tmp_path / "servers"
    servers.mkdir()
    with spark_cluster(servers) as cluster:
        first = run(tmp_path / "shop", cluster.url)
        assert first["revenue"] == expected(first["orders"])
        assert len(first["orders"]) == 333
        again = run(tmp_path / "shop", cluster.url)
        assert again["revenue"] == expected(again["orders"])
        assert len(again["best"]) == 2
        executors = (servers / "master.log").read_text().count("Launching executor")
    assert executors >= WORKERS
