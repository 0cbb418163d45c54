"""Kafka sinks whose processes are killed twenty times, at random moments, write every step once."""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import time
import uuid
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.kill.kafka_writer import keys, sink_of, write_for_ever
from tests.servers import Broker, Record

KILLS, WRITERS = 20, 4
PATIENCE = 60


def test_twenty_kills_change_nothing_in_a_topic(broker: Broker, tmp_path: Path) -> None:
    """Several writers at once, all into one topic: a new process mostly waits until Kafka has ended what the old one
    left open."""
    seed = int(os.environ.get("KILL_SEED", time.time_ns() % 1_000_000))
    print(f"KILL_SEED={seed}")
    topic = broker.create_topic(f"killed-{uuid.uuid4().hex[:12]}", 3)

    def last_step(writer: int) -> int:
        chance = random.Random(seed + writer)
        said = [run_and_kill(broker.address, topic, tmp_path, writer, chance) for _ in range(KILLS // WRITERS)]
        sink = sink_of(broker.address, topic, tmp_path, writer)
        last = sink.last_step()
        sink.close()
        assert last is not None and last >= max(said) > 1
        return last

    with ThreadPoolExecutor(WRITERS) as pool:
        steps = list(pool.map(last_step, range(WRITERS)))
    committed = broker.read_committed(topic)
    check(committed, steps)
    cut_short = len(broker.read(topic)) - len(committed)
    assert cut_short, f"seed {seed}: no kill was inside of a transaction"
    print(f"{steps} steps, {cut_short} records of steps that were cut short")


def run_and_kill(address: str, topic: str, folder: Path, writer: int, chance: random.Random) -> int:
    """The last step that was surely written. One run in five is killed while it opens the sink."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.kill.kafka_writer"])
    journal, end = context.Pipe(duplex=False)
    child = context.Process(target=write_for_ever, args=(address, topic, folder, writer, end))
    child.start()
    end.close()
    last = 0
    try:
        for _ in range(0 if chance.random() < 0.2 else chance.randint(2, 5)):
            assert journal.poll(PATIENCE), "the writer is stuck"
            last = journal.recv()
        time.sleep(chance.uniform(0, 0.1))
        assert child.is_alive(), "the writer ended by itself"
    finally:
        child.kill()
        child.join()
    return last


def check(records: list[Record], steps: list[int]) -> None:
    """Every key has every step of its writer, once and in order."""
    found: dict[int, list[int]] = defaultdict(list)
    for record in records:
        row = json.loads(record.value or b"null")
        found[row["k"]].append(row["step"])
    expected = {key: list(range(1, last + 1)) for writer, last in enumerate(steps) for key in keys(writer)}
    assert {key for key in expected | found if found.get(key) != expected.get(key)} == set()
