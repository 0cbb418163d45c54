"""The same windows on Flink, in a venv of its own: `python benchmarks/flink.py`.

Both read the same CSV files with parallelism 2 on this machine, and count and sum per key in windows of ten seconds;
only closed windows leave, Flink's to nowhere, ours to the step log. Measured is the best of whole runs, from the start
of the job to its end, once each side is warm. The venv is made in `benchmarks/data/flink` when it is missing.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import polars as pl
from run import HERE, Figure, keep, show
from setting import ROWS, Setting, seconds_of

FLINK = "apache-flink==2.3.0"
FILES, KEYS = 4, 1_000

JOB = """
import json, sys, time
from pyflink.table import EnvironmentSettings, TableEnvironment

folder, runs = sys.argv[1], int(sys.argv[2])
env = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
env.get_config().set("parallelism.default", "2")
env.get_config().set("table.local-time-zone", "UTC")
env.execute_sql(f'''
  CREATE TABLE events (ts TIMESTAMP(3), k BIGINT, v DOUBLE, WATERMARK FOR ts AS ts - INTERVAL '5' SECOND)
  WITH ('connector' = 'filesystem', 'path' = '{folder}', 'format' = 'csv')''')
env.execute_sql('''
  CREATE TABLE nowhere (k BIGINT, window_start TIMESTAMP(3), n BIGINT, total DOUBLE)
  WITH ('connector' = 'blackhole')''')
times = []
for _ in range(runs):
    start = time.perf_counter()
    env.execute_sql('''
      INSERT INTO nowhere SELECT k, window_start, COUNT(*), SUM(v)
      FROM TABLE(TUMBLE(TABLE events, DESCRIPTOR(ts), INTERVAL '10' SECOND))
      GROUP BY k, window_start, window_end''').wait()
    times.append(time.perf_counter() - start)
print(json.dumps(times))
"""


def main() -> int:
    with Setting(HERE / "data") as setting:
        folder = setting.root / "csv"
        folder.mkdir()
        for path in sorted(setting.parquet(KEYS).glob("*.parquet"))[:FILES]:
            rows = pl.read_parquet(path).with_columns(pl.col("ts").dt.strftime("%Y-%m-%d %H:%M:%S%.6f"))
            rows.write_csv(folder / f"{path.stem}.csv", include_header=False)
        ours = min(seconds_of(lambda number=number: _run(setting, number, folder)) for number in range(3))
        peer = min(_flink(folder))
    total = ROWS * FILES
    name = f"10 s windows over CSV, {KEYS} keys, {FILES} million rows, whole run"
    figure = Figure(name, total / ours / 1e6, total / peer / 1e6, peer / ours, 1.0, True, "M rows/s", f"beside {FLINK}")
    show([figure])
    keep([figure])
    return 0


def _run(setting: Setting, number: int, folder: Path) -> None:
    with setting.database(f"flink-{number}") as db:
        db.sql(
            "CREATE SOURCE events (ts TIMESTAMP, k BIGINT, v DOUBLE, WATERMARK FOR ts AS ts - INTERVAL '5' SECOND)"
            f" FROM FILES (path = '{folder}', format = 'csv', header = 'false', max_files_per_step = 1);"
            "CREATE MATERIALIZED VIEW v AS SELECT k, window_start, COUNT(*) AS n, SUM(v) AS total"
            " FROM TUMBLE(events, ts, INTERVAL '10' SECOND) GROUP BY k, window_start EMIT ON WINDOW CLOSE"
        )
        db.run_once()


def _flink(folder: Path) -> list[float]:
    """Seconds of each run, the first left out."""
    venv = HERE / "data" / "flink"
    python = venv / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", str(venv)], check=True)
        subprocess.run([str(python), "-m", "pip", "install", "--quiet", "setuptools<81", FLINK], check=True)
    script = venv / "job.py"
    script.write_text(JOB)
    environment = {**os.environ, "PYTHONWARNINGS": "ignore"}
    done = subprocess.run([str(python), str(script), str(folder), "3"], capture_output=True, text=True, env=environment)
    if done.returncode != 0:
        raise SystemExit(f"Flink did not run:\n{done.stderr[-3000:]}")
    times: list[float] = json.loads(done.stdout.strip().splitlines()[-1])
    return times[1:]


if __name__ == "__main__":
    raise SystemExit(main())
