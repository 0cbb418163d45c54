"""A pipeline from Kafka to Kafka that is killed while it reads a table's snapshot, right after it, and in the middle of
steps: what an independent consumer finds is what it should be, no row lost, none doubled."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from tests.kafka.helpers import topic
from tests.servers import Broker

PIPELINE = Path(__file__).parent / "kafka_pipeline.py"
SYMBOLS = 3000
SECTORS = 7


@pytest.mark.slow
@pytest.mark.parametrize("kills", [3, 20])
def test_nothing_is_lost_or_doubled(tmp_path: Path, broker: Broker, kafka_jars: Path, kills: int) -> None:
    seed = int(os.environ.get("KILL_SEED", time.time_ns() % 1_000_000))
    print(f"KILL_SEED={seed}")
    chance = random.Random(seed)
    topics = [topic(broker, word, 2) for word in ("table", "stream", "appended", "upserted")]
    broker.produce(topics[0], [instrument(n, "old") for n in range(SYMBOLS)])
    broker.produce(topics[0], [instrument(n, f"sector {n % SECTORS}") for n in range(SYMBOLS)])
    given: list[dict[str, object]] = []
    arguments = [sys.executable, str(PIPELINE), str(tmp_path / "db"), broker.address, *topics]
    for number in range(kills):
        child = start(arguments, tmp_path / "log", kafka_jars)
        try:
            give(broker, topics[1], given, chance)
            wait_for_word(child, "reading" if number % 4 == 0 else "running")
            for _ in range(chance.randint(0, 4) if number % 4 > 1 else 0):
                give(broker, topics[1], given, chance)
                time.sleep(chance.uniform(0, 0.5))
            if number % 4 == 0:
                time.sleep(chance.uniform(0, 3))
            assert child.poll() is None, f"seed {seed}, run {number} ended by itself:\n{(tmp_path / 'log').read_text()}"
        finally:
            os.killpg(child.pid, signal.SIGKILL)
            child.wait()
    child = start(arguments, tmp_path / "log", kafka_jars)
    try:
        check(broker, topics, given, seed)
    finally:
        os.killpg(child.pid, signal.SIGKILL)
        child.wait()


def instrument(number: int, sector: str) -> tuple[bytes, bytes]:
    return f"S{number}".encode(), json.dumps({"symbol": f"S{number}", "sector": sector}).encode()


def give(broker: Broker, stream: str, given: list[dict[str, object]], chance: random.Random) -> None:
    """Some more trades; a few of a symbol that nobody knows."""
    new = [
        {"id": len(given) + n, "symbol": f"S{chance.randrange(SYMBOLS + 50)}", "price": chance.randrange(100)}
        for n in range(chance.randint(1, 300))
    ]
    broker.produce(stream, [(str(row["symbol"]).encode(), json.dumps(row).encode()) for row in new])
    given += new


def start(arguments: list[str], log: Path, jars: Path) -> subprocess.Popen[str]:
    with log.open("ab") as file:
        return subprocess.Popen(
            arguments,
            stdout=subprocess.PIPE,
            stderr=file,
            text=True,
            start_new_session=True,
            env={**os.environ, "TIDEGATE_JARS": str(jars)},
        )


def wait_for_word(child: subprocess.Popen[str], word: str) -> None:
    assert child.stdout is not None
    for line in child.stdout:
        if line.strip() == word:
            return


def check(broker: Broker, topics: list[str], given: list[dict[str, object]], seed: int) -> None:
    known = [row for row in given if int(str(row["symbol"])[1:]) < SYMBOLS]
    wanted = {row["id"]: (f"sector {int(str(row['symbol'])[1:]) % SECTORS}", row["price"]) for row in known}
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        appended = [json.loads(record.value or b"") for record in broker.read_committed(topics[2])]
        if len(appended) >= len(wanted) and upserted(broker, topics[3]) == totals(wanted):
            break
        time.sleep(0.5)
    counted = Counter(row["id"] for row in appended)
    assert [one for one, count in counted.items() if count > 1] == [], f"seed {seed}: rows were doubled"
    assert wanted.keys() - counted.keys() == set(), f"seed {seed}: rows were lost"
    assert {row["id"]: (row["sector"], row["price"]) for row in appended} == wanted, f"seed {seed}"
    assert upserted(broker, topics[3]) == totals(wanted), f"seed {seed}"


def totals(wanted: dict[object, tuple[object, object]]) -> dict[object, tuple[int, int]]:
    found: dict[object, tuple[int, int]] = {}
    for sector, price in wanted.values():
        n, total = found.get(sector, (0, 0))
        found[sector] = n + 1, total + int(str(price))
    return found


def upserted(broker: Broker, name: str) -> dict[object, tuple[int, int]]:
    """What the last record of every key says."""
    last = {record.key: record.value for record in broker.read_committed(name)}
    rows = [json.loads(value) for value in last.values() if value is not None]
    return {row["sector"]: (row["n"], row["total"]) for row in rows}
