"""A pipeline that inserts for ever, to be killed: `python pipeline.py FOLDER JOURNAL RUN SEED`.

Each batch is one row of a source and one change of a keyed table, atomically. The journal has a line before each batch
(what will be given) and one after it (that it is durable)."""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path
from typing import TextIO

import tidegate

DEFINITIONS = """
CREATE SOURCE events (id STRING, k INT, x INT);
CREATE TABLE stock (k INT PRIMARY KEY, x INT);
CREATE MATERIALIZED VIEW passed AS SELECT id, k, x FROM events;
CREATE MATERIALIZED VIEW sums AS SELECT k, COUNT(*) AS n, SUM(x) AS total, MAX(x) AS high, COUNT(DISTINCT x) AS u
  FROM events GROUP BY k;
CREATE MATERIALIZED VIEW uniques AS SELECT DISTINCT x FROM stock;
CREATE MATERIALIZED VIEW best AS SELECT k, x FROM stock ORDER BY x DESC, k LIMIT 3;
CREATE MATERIALIZED VIEW overall AS SELECT COUNT(*) AS keys, SUM(total) AS total, SUM(n) AS n FROM sums;
"""


class Batches:
    """Random batches, each with an id that no other batch of any run has."""

    def __init__(self, run: int, source: random.Random) -> None:
        self.run, self.random, self.number = run, source, 0

    def __next__(self) -> dict[str, object]:
        self.number += 1
        key, value = self.random.randint(0, 9), self.random.randint(0, 50)
        change = None if self.random.random() < 0.2 else value
        return {"id": f"{self.run}-{self.number}", "k": key, "x": value, "stock": [self.random.randint(0, 9), change]}


def note(journal: TextIO, what: str, batch: dict[str, object]) -> None:
    journal.write(json.dumps([what, batch]) + "\n")
    journal.flush()


def give(db: tidegate.Database, batch: dict[str, object]) -> None:
    key, value = batch["stock"]  # type: ignore[misc]
    with db.batch() as atomic:
        atomic.insert("events", [(batch["id"], batch["k"], batch["x"])])
        if value is None:
            atomic.tombstone("stock", [(key,)])
        else:
            atomic.insert("stock", [(key, value)])


def main() -> None:
    folder, journal_path, run, seed = sys.argv[1:5]
    db = tidegate.connect(folder, master="local[2]")
    if not db.views():
        db.sql(DEFINITIONS)
    with Path(journal_path).open("a", encoding="utf-8") as journal, db.running():
        print("running", flush=True)
        source = Batches(int(run), random.Random(int(seed)))
        while True:
            batch = next(source)
            note(journal, "giving", batch)
            give(db, batch)
            note(journal, "durable", batch)
            db.wait(0.02)


if __name__ == "__main__":
    main()
