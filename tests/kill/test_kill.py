"""A pipeline that is killed at random moments loses nothing and doubles nothing. Chosen moments are failpoints."""

from __future__ import annotations

import json
import os
import random
import select
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

import tidegate

PIPELINE = Path(__file__).parent / "pipeline.py"
VIEWS = ("passed", "sums", "uniques", "best", "overall")


@pytest.mark.parametrize("kills", [2, pytest.param(20, marks=pytest.mark.slow)])
def test_kills_change_nothing(tmp_path, request, kills):
    seed = int(os.environ.get("KILL_SEED", time.time_ns() % 1_000_000))
    print(f"KILL_SEED={seed}")
    chance = random.Random(seed)
    folder, journal = tmp_path / "data", tmp_path / "journal"
    ran = sum(run_and_kill(folder, journal, number, chance) for number in range(kills))
    assert ran >= kills // 2, f"seed {seed}: only {ran} of {kills} runs came as far as running"
    db = tidegate.connect(str(folder), spark=request.getfixturevalue("spark"))
    try:
        db.step()
        check(db, *read_journal(journal))
    finally:
        db.close()


def run_and_kill(folder: Path, journal: Path, number: int, chance: random.Random) -> bool:
    """Starts the pipeline and kills it with everything it started; whether it came as far as running."""
    arguments = [sys.executable, str(PIPELINE), str(folder), str(journal), str(number), str(chance.randrange(10**6))]
    with Path(f"{journal}.log").open("ab") as log:
        child = subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=log, start_new_session=True)
    try:
        patience = chance.uniform(1, 6) if number % 4 == 3 else 60
        running = said_running(child, patience)
        if running:
            time.sleep(chance.uniform(0, 2.5))
        assert child.poll() is None, f"run {number} ended by itself, see {journal}.log"
    finally:
        os.killpg(child.pid, signal.SIGKILL)
        child.wait()
    return running


def said_running(child: subprocess.Popen[bytes], patience: float) -> bool:
    assert child.stdout is not None
    ready, _, _ = select.select([child.stdout], [], [], patience)
    return bool(ready) and child.stdout.readline() == b"running\n"


def read_journal(path: Path) -> tuple[list[dict], set[str]]:
    """Every batch that was given, in order, and the ids of those that were durable."""
    lines = [json.loads(line) for line in path.read_text().splitlines() if line.endswith("]")]
    return [batch for what, batch in lines if what == "giving"], {
        batch["id"] for what, batch in lines if what == "durable"
    }


def check(db: tidegate.Database, given: list[dict], durable: set[str]) -> None:
    passed = Counter(row[0] for row in db.query("SELECT id FROM passed").rows())
    assert [one for one, count in passed.items() if count > 1] == [], "rows were doubled"
    assert durable - passed.keys() == set(), "rows were lost"
    assert passed.keys() <= {batch["id"] for batch in given}
    accepted = [batch for batch in given if batch["id"] in passed]
    assert len(accepted) > len({batch["id"].split("-")[0] for batch in accepted}) > 0
    expected = answers(accepted)
    for view in VIEWS:
        assert content(db, view) == expected[view], view
        assert sum_of_changes(db, view) == expected[view], view


def answers(accepted: list[dict]) -> dict[str, Counter]:
    """What each view must contain, computed as naively as can be."""
    stock: dict[int, int] = {}
    groups: dict[int, list[int]] = {}
    for batch in accepted:
        groups.setdefault(batch["k"], []).append(batch["x"])
        key, value = batch["stock"]
        if value is None:
            stock.pop(key, None)
        else:
            stock[key] = value
    every = [x for xs in groups.values() for x in xs]
    return {
        "passed": Counter((batch["id"], batch["k"], batch["x"]) for batch in accepted),
        "sums": Counter((k, len(xs), sum(xs), max(xs), len(set(xs))) for k, xs in groups.items()),
        "uniques": Counter((x,) for x in set(stock.values())),
        "best": Counter(sorted(stock.items(), key=lambda one: (-one[1], one[0]))[:3]),
        "overall": Counter([(len(groups), sum(every), len(every))]),
    }


def content(db: tidegate.Database, view: str) -> Counter:
    return Counter(db.query(f"SELECT * FROM {view}").rows())


def sum_of_changes(db: tidegate.Database, view: str) -> Counter:
    """The changes of all steps added up; after no step is there less than nothing of a row."""
    total: Counter = Counter()
    steps: dict[int, list] = {}
    for change in db.changes(view):
        steps.setdefault(change.step, []).append(change)
    for step in sorted(steps):
        for change in steps[step]:
            total[tuple(change.row.values())] += change.weight
        assert all(weight >= 0 for weight in total.values()), f"{view} has a debt after step {step}"
    return +total
