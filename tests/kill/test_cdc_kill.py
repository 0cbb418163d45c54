"""A pipeline from PostgreSQL to PostgreSQL that is killed in its snapshot and in its steps, under load: the table, the
view, the sinks and the events are what they should be, nothing lost, nothing doubled."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.kill.test_kafka_kill import wait_for_word
from tests.servers.postgres import Postgres, postgres_server

PIPELINE = Path(__file__).parent / "cdc_pipeline.py"
REGIONS = ("eu", "us", "asia", "africa")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Postgres]:
    with postgres_server(tmp_path_factory.mktemp("postgres")) as found:
        yield found


class Load(threading.Thread):
    """Changes rows until it is told to stop; knows how many changes of each kind it made since the events began."""

    def __init__(self, server: Postgres, database: str, chance: random.Random) -> None:
        super().__init__(daemon=True)
        self.server, self.database, self.chance = server, database, chance
        self.stopped = threading.Event()
        self.made: Counter[str] = Counter()
        self.problem: Exception | None = None

    def run(self) -> None:
        try:
            while not self.stopped.is_set():
                self._transaction()
                time.sleep(self.chance.uniform(0, 0.05))
        except Exception as problem:
            self.problem = problem

    def _transaction(self) -> None:
        with self.server.connect(self.database) as connection, connection.transaction():
            for _ in range(self.chance.randint(1, 20)):
                row = self.chance.randrange(2000)
                region, amount = self.chance.choice(REGIONS), self.chance.randrange(1000)
                kind, text = self.chance.choice(
                    [
                        ("INSERT", f"INSERT INTO orders VALUES ({row}, '{region}', {amount}) ON CONFLICT DO NOTHING"),
                        ("UPDATE", f"UPDATE orders SET region = '{region}', amount = {amount} WHERE id = {row}"),
                        ("UPDATE", f"UPDATE orders SET id = {row} + 5000 WHERE id = {row} AND id < 5000"),
                        ("DELETE", f"DELETE FROM orders WHERE id IN ({row}, {row} + 5000)"),
                    ]
                )
                try:
                    with connection.transaction():
                        self.made[kind] += connection.execute(text).rowcount
                except Exception as problem:
                    if "duplicate key" not in str(problem):
                        raise


@pytest.mark.slow
@pytest.mark.parametrize("kills", [2, 20])
def test_nothing_is_lost_or_doubled(tmp_path: Path, server: Postgres, kills: int) -> None:
    seed = int(os.environ.get("KILL_SEED", time.time_ns() % 1_000_000))
    print(f"KILL_SEED={seed}")
    chance = random.Random(seed)
    source, target = server.create_database("source"), server.create_database("target")
    server.execute(source, "CREATE TABLE orders (id bigint PRIMARY KEY, region text, amount bigint)")
    server.execute(source, "INSERT INTO orders SELECT g, 'eu', g FROM generate_series(1, 1500) g")
    file = tmp_path / "events.jsonl"
    arguments = [sys.executable, str(PIPELINE), str(tmp_path / "db"), server.url(source), server.url(target), str(file)]
    load = Load(server, source, chance)
    for number in range(kills):
        child = start(arguments, tmp_path / "log")
        try:
            wait_for_word(child, "reading" if number == 0 else "running")
            if number == 0:
                time.sleep(chance.uniform(0, 4))
            elif not load.is_alive():
                load.start()
            time.sleep(chance.uniform(0, 4))
            told = (tmp_path / "log").read_text()
            assert child.poll() is None, f"seed {seed}, run {number} ended by itself:\n{told}"
        finally:
            os.killpg(child.pid, signal.SIGKILL)
            child.wait()
    load.stopped.set()
    load.join()
    assert load.problem is None
    child = start(arguments, tmp_path / "log")
    try:
        check(server, source, target, file, load.made, f"seed {seed}")
    finally:
        os.killpg(child.pid, signal.SIGKILL)
        child.wait()


def start(arguments: list[str], log: Path) -> subprocess.Popen[str]:
    with log.open("ab") as file:
        return subprocess.Popen(
            arguments, stdout=subprocess.PIPE, stderr=file, text=True, start_new_session=True, env=dict(os.environ)
        )


def check(server: Postgres, source: str, target: str, file: Path, made: Counter[str], seed: str) -> None:
    rows = ask(server, source, "SELECT id, region, amount FROM orders ORDER BY id")
    totals = ask(server, source, "SELECT region, COUNT(*), SUM(amount)::bigint FROM orders GROUP BY region ORDER BY 1")
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        copied = ask(server, target, "SELECT id, region, amount FROM orders_copy ORDER BY id")
        summed = ask(server, target, "SELECT region, n, total FROM totals_copy ORDER BY 1")
        if (copied, summed) == (rows, totals) and sum(events(file)[0].values()) >= sum(made.values()):
            break
        time.sleep(0.5)
    assert copied == rows, seed
    assert summed == totals, seed
    counted, ids = events(file)
    assert [one for one, count in ids.items() if count > 1] == [], f"{seed}: events were doubled"
    assert counted == +made, f"{seed}: events were lost"


def events(file: Path) -> tuple[Counter[str], Counter[str]]:
    found = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
    return Counter(event["operation"] for event in found), Counter(event["id"] for event in found)


def ask(server: Postgres, database: str, query: str) -> list[tuple[Any, ...]]:
    with server.connect(database) as connection:
        try:
            return connection.execute(query).fetchall()
        except Exception as problem:
            if "does not exist" in str(problem):
                return []
            raise
