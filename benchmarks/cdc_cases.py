"""Benchmarks of change data capture: PostgreSQL to stdout, a commit to a view, at rest, and views side by side."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
from run import Figure
from setting import Setting

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests.servers.postgres import Postgres, postgres_server
from tidegate.database import runtime_of

WANTED_RATE = 20_000
CHANGES = 1_000_000
IN_ONE = 500
COMMITS = 12
IDLE_SECONDS = 30
EVENTS = 100_000
GROUPS = 1_000
TICKS = os.sysconf("SC_CLK_TCK")
TABLE = (
    "CREATE TABLE orders (id bigint PRIMARY KEY, region text, amount numeric(10, 2), placed timestamptz DEFAULT now())"
)
FILL = """INSERT INTO orders SELECT g, (ARRAY['eu', 'us', 'asia'])[1 + g %% 3], g %% 1000 / 10.0
    FROM generate_series(%s::bigint, %s::bigint) g"""


@contextmanager
def postgres(setting: Setting, name: str) -> Iterator[tuple[Postgres, str]]:
    """A server of its own with a table of orders."""
    folder = setting.root / f"postgres-{name}"
    folder.mkdir()
    with postgres_server(folder) as server:
        database = server.create_database("shop")
        server.execute(database, TABLE)
        yield server, database


@contextmanager
def listening(setting: Setting, url: str, *words: str) -> Iterator[tuple[subprocess.Popen[bytes], Path]]:
    """`tidegate listen` as users run it, and the file that its stdout goes to."""
    out, told = setting.root / "listen.out", setting.root / "listen.err"
    tidegate = Path(sys.executable).with_name("tidegate")
    command = [str(tidegate), "listen", "--postgres", url, "--table", "orders", "--temporary", "--stdout", *words]
    with out.open("wb") as stdout, told.open("wb") as stderr:
        child = subprocess.Popen(command, stdout=stdout, stderr=stderr, start_new_session=True)
    try:
        wait_for(lambda: "listening" in told.read_text(), child)
        yield child, out
    finally:
        child.terminate()
        child.wait()


def wait_for(condition: Callable[[], bool], child: subprocess.Popen[bytes] | None = None) -> None:
    while not condition():
        if child is not None and child.poll() is not None:
            raise RuntimeError("tidegate listen ended by itself")
        time.sleep(0.05)


def lines_in(path: Path) -> int:
    with path.open("rb") as file:
        return sum(block.count(b"\n") for block in iter(lambda: file.read(1 << 20), b""))


def capture(setting: Setting) -> list[Figure]:
    """Changes per second from rows that are inserted as fast as the server can to the lines of stdout, the first tenth
    left out."""
    with postgres(setting, "capture") as (server, database), listening(setting, server.url(database)) as (child, out):
        with server.connect(database) as connection:
            fill(connection, 1, CHANGES // 10)
        wait_for(lambda: lines_in(out) >= CHANGES // 10, child)
        began = time.perf_counter()
        with server.connect(database) as connection:
            fill(connection, CHANGES // 10 + 1, CHANGES)
        loaded = time.perf_counter() - began
        wait_for(lambda: lines_in(out) >= CHANGES, child)
        rate = (CHANGES - CHANGES // 10) / (time.perf_counter() - began)
    note = f"the server took {loaded:.1f} s to insert them"
    return [Figure("CDC to stdout, changes/s", rate, WANTED_RATE, rate / WANTED_RATE, 1.0, True, "changes/s", note)]


def fill(connection: object, first: int, last: int) -> None:
    for at in range(first, last + 1, IN_ONE):
        connection.execute(FILL, (at, min(at + IN_ONE - 1, last)))  # type: ignore[attr-defined]


def latency(setting: Setting) -> list[Figure]:
    """In how many steps a commit is seen in a view over the bus, and in one over the table."""
    with postgres(setting, "latency") as (server, database), setting.database("cdc_latency") as db:
        url = server.url(database)
        db.sql(f"""
            CREATE TABLE orders (id BIGINT PRIMARY KEY, region STRING, amount DECIMAL(10, 2))
                FROM POSTGRES (url = '{url}', table = 'orders');
            CREATE SOURCE changes FROM POSTGRES (url = '{url}', tables = 'orders');
            CREATE MATERIALIZED VIEW seen AS SELECT COUNT(*) AS n FROM pgcdc_events WITH ('emit' = 'none');
            CREATE MATERIALIZED VIEW total AS SELECT SUM(amount) AS amount FROM orders;
        """)
        steps, seconds = [], []
        with db.running(), server.connect(database) as connection:
            for number in range(1, COMMITS + 1):
                time.sleep(1)
                before, began = runtime_of(db).log.last(), time.perf_counter()
                fill(connection, number, number)
                found = [
                    next(iter(db.subscribe(view, from_step=before + 1, timeout=60))).step for view in ("seen", "total")
                ]
                seconds.append(time.perf_counter() - began)
                steps.append(max(found) - before)
    taken = statistics.median(steps[2:])
    note = f"median {statistics.median(seconds[2:]):.2f} s, at most {max(steps[2:])} steps"
    return [Figure("CDC commit to view, steps", taken, 1, taken, 3.0, False, "steps", note)]


def idle(setting: Setting) -> list[Figure]:
    """The share of a core that `tidegate listen` takes when nothing happens, its windows closed."""
    view = "stats:SELECT channel, COUNT(*) AS n FROM pgcdc_events GROUP BY channel TUMBLING WINDOW 2s"
    with postgres(setting, "idle") as (server, database):
        url = server.url(database)
        with listening(setting, url, "--view-query", view) as (child, out), server.connect(database) as connection:
            fill(connection, 1, 10)
            wait_for(lambda: lines_in(out) >= 1, child)
            time.sleep(10)
            before, began = used(child.pid), time.perf_counter()
            time.sleep(IDLE_SECONDS)
            share = (used(child.pid) - before) / (time.perf_counter() - began)
    return [Figure("CDC idle, share of a core", share, 1, share, 0.05, False, "cores")]


def used(group: int) -> float:
    """Seconds of processor time of a process group."""
    total = 0.0
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and os.getpgid(int(entry.name)) == group:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
                total += (int(fields[11]) + int(fields[12])) / TICKS
        except OSError:
            continue
    return total


def views(setting: Setting) -> list[Figure]:
    """Ten views with a thousand groups each over one bus, beside one of them: seconds of a step."""
    one, ten = (stepping(setting, count) for count in (1, 10))
    return [Figure("CDC ten views beside one", ten, one, ten / one, 3.0, False, "s")]


def stepping(setting: Setting, count: int) -> float:
    """The median step that takes in EVENTS events."""
    with setting.database(f"cdc_views_{count}") as db:
        for number in range(count):
            db.sql(f"""CREATE MATERIALIZED VIEW v{number} WITH ('emit' = 'none') AS
                SELECT payload.row.k{number} AS k, COUNT(*) AS n, SUM(payload.row.amount) AS total
                FROM pgcdc_events WHERE operation = 'INSERT' GROUP BY payload.row.k{number} TUMBLING WINDOW 1h""")
        rows = events(count)
        seconds = []
        for _ in range(6):
            db.insert("pgcdc_events", rows)
            began = time.perf_counter()
            db.step()
            seconds.append(time.perf_counter() - began)
    return statistics.median(seconds[2:])


def events(count: int) -> pa.Table:
    keys = [
        ",".join(f'"k{number}":"g{(row * (number + 7)) % GROUPS}"' for number in range(10)) for row in range(GROUPS)
    ]
    payloads = [f'{{"op":"INSERT","table":"t","row":{{"amount":{n % 100},{keys[n % GROUPS]}}}}}' for n in range(EVENTS)]
    return pa.table({"channel": ["pgcdc:t"] * EVENTS, "operation": ["INSERT"] * EVENTS, "payload": payloads})


CDC_CASES = {"cdc_capture": capture, "cdc_latency": latency, "cdc_idle": idle, "cdc_views": views}
