"""Creates a data folder with a file of every kind, without Spark, and reads all of it."""

from __future__ import annotations

import json
import struct
import zlib
from dataclasses import replace
from pathlib import Path

import pyarrow as pa

import tidegate
from tidegate.catalog import Catalog, Column, Relation
from tidegate.circuit.model import Circuit
from tidegate.storage import catalog_file
from tidegate.storage.blobs import write_blob
from tidegate.storage.clock_file import write_clock
from tidegate.storage.container import encode
from tidegate.storage.folder import Folder, Settings
from tidegate.storage.generations import FeedStart, GenerationFiles, GenerationRecord
from tidegate.storage.insert_log import InsertLog
from tidegate.storage.ledger import Ledger
from tidegate.storage.objects import LocalStorage
from tidegate.storage.step_header import ChangeFile, StepHeader
from tidegate.storage.step_log import StepLog, StepRecord

SCHEMA = pa.schema([("k", pa.string()), ("n", pa.int64())])
LOGGED = pa.schema([*SCHEMA, ("__op", pa.string()), ("__w", pa.int64())])
COLUMNS = (Column("k", "string"), Column("n", "bigint"))
VIEW = Relation(
    name="v",
    kind="view",
    columns=COLUMNS,
    sql="CREATE MATERIALIZED VIEW v AS SELECT k, n FROM s",
    materialized=True,
    dependencies=("s",),
)
SOURCE = Relation(name="s", kind="source", columns=COLUMNS, sql="CREATE SOURCE s ...", append_only=True)


def rows(start: int, count: int) -> pa.Table:
    numbers = range(start, start + count)
    return pa.Table.from_pylist([{"k": f"key {n}", "n": n, "__op": "+I", "__w": 1} for n in numbers], schema=LOGGED)


def make_folder(root: Path) -> Path:
    """Four entries and six steps; the first two steps are compacted, the last one has a blob. Returns the blob."""
    with Folder(root) as folder:
        folder.open()
        catalog_file.save(Catalog((SOURCE, VIEW)), folder.storage)
        folder.settings.write(Settings(2))
        Ledger(folder.storage).created("v", 0, 0)
        inserts, log = InsertLog(LocalStorage(folder.inserts)), StepLog(folder.storage)
        inserts.open_for_writing()
        for number in range(4):
            inserts.append([("s", rows(number, 2).select(["k", "n"]), 1)], marks={"capture": number})
        blob = write_blob(encode(rows(100, 5)), folder.blobs)
        for step in range(1, 7):
            files = (ChangeFile("v", 5, 5, blob),) if step == 6 else ()
            header = replace(StepHeader.empty(step), entry=min(step, 4), files=files)
            log.write(StepRecord(header, {"v": rows(step * 10, 3)}))
        log.compact({"v": SCHEMA}, keep=4, needed=None)
        write_clock(folder.root, {"tick": 6, "time": 1, "released": None, "lines": {"s.ts": 5}})
        _add_generation(GenerationFiles(folder.generations))
    return root / "blobs" / blob


def _add_generation(generations: GenerationFiles) -> None:
    generations.write(
        GenerationRecord(
            number=0,
            base_step=0,
            circuit=Circuit((), (), ()),
            sources=(),
            fed={"s": 0},
            fingerprint="f",
            logged=frozenset(),
            begun={"v": 0},
            idle={},
            start=FeedStart(0, 0, 0, {}),
            positions={},
            carried=frozenset(),
            known_outputs={},
        )
    )
    checkpoint = generations.checkpoint(0).folder
    for batch in range(6):
        offset = json.dumps({"entry": min(batch + 1, 4), "tick": batch, "time": 0, "lines": {}})
        _spark_file(checkpoint / "offsets" / str(batch), f'v1\n{{"batchTimestampMs":0}}\n{offset}')
        _spark_file(checkpoint / "commits" / str(batch), 'v1\n{"nextBatchWatermarkMs":0}')
    _spark_file(checkpoint / "metadata", '{"id":"d70852de"}')
    _spark_file(checkpoint / "state" / "0" / "0" / "1.changelog", "state" * 300)


def _spark_file(path: Path, text: str) -> None:
    """A file with the checksum that Hadoop's file system writes beside it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    data = text.encode()
    sums = b"".join(zlib.crc32(data[at : at + 512]).to_bytes(4, "big") for at in range(0, len(data), 512))
    path.with_name(f".{path.name}.crc").write_bytes(struct.pack(">4sI", b"crc\0", 512) + sums)


def read_everything(root: Path, read_only: bool = True) -> dict[str, object]:
    """Opens a folder and reads all of its rows."""
    with tidegate.connect(root, read_only=read_only) as db:
        runtime = db._runtime
        content = runtime.log.content("v", SCHEMA).sort_by("n").to_pylist()
        changes = [table.num_rows for _, table in runtime.log.changes("v", 0, runtime.log.last())]
        entries = [
            part.table.to_pylist()
            for _, _, parts in runtime.inserts.entries(runtime.inserts.first(), runtime.inserts.head())
            for part in parts
        ]
        return {
            "relations": [relation.name for relation in runtime.catalog.value],
            "begun": runtime.ledger.start_steps(),
            "marks": runtime.inserts.marks(),
            "content": content,
            "changes": changes,
            "entries": entries,
        }
