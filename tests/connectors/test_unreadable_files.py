"""Files that cannot be read: the pipeline goes on without them, records them, and reads them when they have changed."""

from __future__ import annotations

import gzip
import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import tidegate
from tidegate.core.failpoints import observed

Bytes = Callable[[list[int]], bytes]
DIRECT, EVALUATED = "SELECT k FROM s", "SELECT abs(k) AS k FROM s"
"""A view for which workers read parquet files themselves, and one that needs Spark's reader."""


class Input:
    """A folder of files that were written a while ago."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()

    def write(self, name: str, data: bytes) -> Path:
        path = self.folder / name
        path.write_bytes(data)
        at = time.time_ns() - 100_000_000_000
        os.utime(path, ns=(at, at))
        return path


@pytest.fixture
def input(tmp_path: Path) -> Input:
    return Input(tmp_path / "input")


@pytest.fixture
def opened(tmp_path: Path, spark: SparkSession) -> Callable[[], tidegate.Database]:
    return lambda: tidegate.connect(tmp_path / "data", spark=spark, clock="virtual")


def declare(db: tidegate.Database, folder: Path, options: str, view: str = DIRECT) -> None:
    db.sql(f"CREATE SOURCE s (k BIGINT) FROM FILES (path = '{folder}') FORMAT {options}")
    db.sql(f"CREATE MATERIALIZED VIEW v AS {view}")


def keys(db: tidegate.Database) -> list[int]:
    return sorted(row[0] for row in db.query("SELECT k FROM v"))


def errors(db: tidegate.Database) -> list[tuple[str, str, str]]:
    """(code, message, name of the file) of system.errors."""
    rows = db.query("SELECT code, message, row FROM system.errors")
    return sorted((code, message, Path(row).name) for code, message, row in rows)


def parquet(values: list[int]) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"k": pa.array(values, pa.int64())}), sink)
    return bytes(sink.getvalue())


def texts(values: list[int]) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"k": [str(each) for each in values]}), sink)
    return bytes(sink.getvalue())


def csv(values: list[int]) -> bytes:
    return "".join(f"{each}\n" for each in ["k", *values]).encode()


def json(values: list[int]) -> bytes:
    return "".join(f'{{"k":{each}}}\n' for each in values).encode()


def zipped(make: Bytes) -> Bytes:
    return lambda values: gzip.compress(make(values))


def truncated(make: Bytes) -> bytes:
    """Half of a file of many rows."""
    whole = make(list(range(100, 20_000)))
    return whole[: len(whole) // 2]


CASES: dict[str, tuple[str, str, str, Bytes, bytes, str]] = {
    "no_parquet": ("parquet", DIRECT, "parquet", parquet, b"this is not parquet", "Parquet magic bytes not found"),
    "no_parquet_for_spark": ("parquet", EVALUATED, "parquet", parquet, b"this is not parquet", "is not a Parquet file"),
    "no_footer": ("parquet", DIRECT, "parquet", parquet, truncated(parquet), "Parquet magic bytes not found"),
    "wrong_type": ("parquet", DIRECT, "parquet", parquet, texts([100]), "column k is string, expected int64"),
    "wrong_type_for_spark": ("parquet", EVALUATED, "parquet", parquet, texts([100]), "column k is BINARY"),
    "cut_csv": ("csv (header = 'true')", DIRECT, "csv.gz", zipped(csv), truncated(zipped(csv)), ""),
    "cut_json": ("json", DIRECT, "json.gz", zipped(json), truncated(zipped(json)), ""),
    "header": ("csv (header = 'true')", DIRECT, "csv", csv, b"other\n100\n", "its header is other, expected k"),
}


@pytest.mark.parametrize("case", CASES)
def test_the_others_are_read_and_a_new_copy_is_taken_in(
    case: str, input: Input, opened: Callable[[], tidegate.Database]
) -> None:
    format, view, suffix, good, bad, reason = CASES[case]
    input.write(f"a.{suffix}", good([1]))
    input.write(f"b.{suffix}", bad)
    input.write(f"c.{suffix}", good([2]))
    with opened() as db:
        declare(db, input.folder, format, view)
        db.step()
        assert keys(db) == [1, 2]
        [(code, message, name)] = errors(db)
        assert (code, name) == ("UNREADABLE_FILE", f"b.{suffix}")
        assert message.startswith("the file cannot be read: ") and reason in message
    with opened() as db:
        input.write(f"d.{suffix}", good([3]))
        db.step()
        assert keys(db) == [1, 2, 3]
        input.write(f"b.{suffix}", good([4, 5]))
        db.step()
        assert keys(db) == [1, 2, 3, 4, 5]
        assert len(errors(db)) == 1
    with opened() as db:
        db.step()
        assert keys(db) == [1, 2, 3, 4, 5]


def test_refresh_tries_again(input: Input, opened: Callable[[], tidegate.Database]) -> None:
    input.write("a.parquet", parquet([1]))
    bad = input.write("b.parquet", b"this is not parquet")
    with opened() as db:
        declare(db, input.folder, "parquet")
        db.step()
        stamp = bad.stat()
        assert db.sql("REFRESH SOURCE s").message == "1 file of s that could not be read: the next step tries again"
        db.step()
        assert (keys(db), len(errors(db))) == ([1], 2)
        # A copy of the same size and time is the same file until somebody says that it is not.
        whole = parquet([2])
        input.write("b.parquet", whole)
        os.truncate(bad, len(whole))
        os.utime(bad, ns=(stamp.st_mtime_ns, stamp.st_mtime_ns))
        db.refresh("s")
        db.step()
        assert keys(db) == [1, 2]


def test_a_file_that_is_removed_after_it_was_listed(input: Input, opened: Callable[[], tidegate.Database]) -> None:
    input.write("a.parquet", parquet([1]))
    gone = input.write("b.parquet", parquet([2]))
    with opened() as db:
        declare(db, input.folder, "parquet")
        with observed(lambda point: gone.unlink(missing_ok=True) if point == "offsets.written" else None):
            db.step()
        assert keys(db) == [1]
        message = "the file cannot be read: it was removed before it was read"
        assert errors(db) == [("UNREADABLE_FILE", message, "b.parquet")]
        input.write("b.parquet", parquet([3]))
        db.step()
        assert (keys(db), len(errors(db))) == ([1, 3], 1)


@pytest.mark.parametrize("format", ["parquet", "json"])
def test_an_empty_file_is_read_when_it_has_rows(
    format: str, input: Input, opened: Callable[[], tidegate.Database]
) -> None:
    make = {"parquet": parquet, "json": json}[format]
    input.write(f"a.{format}", make([1]))
    input.write(f"b.{format}", b"")
    with opened() as db:
        declare(db, input.folder, format)
        db.step()
        db.step()
        assert (keys(db), errors(db)) == ([1], [])
        input.write(f"b.{format}", make([2]))
        db.step()
        assert (keys(db), errors(db)) == ([1, 2], [])


def test_a_text_file_that_grows_after_it_was_listed_is_read_whole(
    input: Input, opened: Callable[[], tidegate.Database]
) -> None:
    growing = input.write("a.json", json([1]))
    listed: list[str] = []

    def grow(point: str) -> None:
        if point == "offsets.written" and not listed:
            listed.append(point)
            input.write("a.json", json([1, 2]))
            os.utime(growing)

    with opened() as db:
        declare(db, input.folder, "json")
        with observed(grow):
            db.step()
        assert (keys(db), errors(db)) == ([1, 2], [])


@pytest.fixture
def slow(input: Input) -> Iterator[threading.Event]:
    """Writes a file in small parts, as long as it takes for a step to find it incomplete."""
    whole, seen = parquet(list(range(10, 20))), threading.Event()

    def write() -> None:
        with open(input.folder / "b.parquet", "wb") as file:
            for at in range(0, len(whole), 100):
                file.write(whole[at : at + 100])
                file.flush()
                seen.wait(0.2 if at else None)
                seen.clear()

    (input.folder / "b.parquet").write_bytes(whole[:50])
    thread = threading.Thread(target=write)
    thread.start()
    yield seen
    thread.join()


def test_a_file_that_is_being_written_is_waited_for(
    input: Input, slow: threading.Event, opened: Callable[[], tidegate.Database]
) -> None:
    input.write("a.parquet", parquet([1]))
    with opened() as db:
        declare(db, input.folder, "parquet")
        with observed(lambda point: slow.set() if point == "unreadable.written" else None):
            db.step()
        assert (keys(db), errors(db)) == ([1, *range(10, 20)], [])


@pytest.mark.parametrize(("options", "expected"), [("", [2]), (" (recursive = 'true')", [1, 2])])
def test_folders_named_like_files_are_folders(
    options: str, expected: list[int], input: Input, opened: Callable[[], tidegate.Database]
) -> None:
    (input.folder / "a.parquet").mkdir()
    input.write("a.parquet/part-0.parquet", parquet([1]))
    (input.folder / "empty.parquet").mkdir()
    input.write("b.parquet", parquet([2]))
    with opened() as db:
        declare(db, input.folder, f"parquet{options}")
        db.step()
        assert (keys(db), errors(db)) == (expected, [])


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read every file")
def test_a_file_without_permission(input: Input, opened: Callable[[], tidegate.Database]) -> None:
    input.write("a.parquet", parquet([1]))
    input.write("b.parquet", parquet([2])).chmod(0)
    with opened() as db:
        declare(db, input.folder, "parquet")
        db.step()
        message = "the file cannot be read: permission denied"
        assert (keys(db), errors(db)) == ([1], [("UNREADABLE_FILE", message, "b.parquet")])


@pytest.mark.parametrize("point", ["unreadable.written", "offsets.written", "step_log.written", "generation.begun"])
def test_a_restart_at_any_point_loses_and_doubles_nothing(
    point: str, input: Input, opened: Callable[[], tidegate.Database]
) -> None:
    input.write("a.parquet", parquet([1]))
    input.write("b.parquet", b"this is not parquet")
    with opened() as db:
        declare(db, input.folder, "parquet")
        with pytest.raises(Exception, match="died"), observed(lambda name: die() if name == point else None):
            db.step()
            input.write("b.parquet", parquet([2]))
            db.step()
    input.write("b.parquet", parquet([2]))
    with opened() as db:
        db.step()
        assert keys(db) == [1, 2]
    with opened() as db:
        db.step()
        assert keys(db) == [1, 2]


def die() -> None:
    raise RuntimeError("died")
