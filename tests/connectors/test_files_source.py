"""`FROM FILES`: listing, reading and ordering files, and errors of malformed ones."""

from __future__ import annotations

import datetime as dt
import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from tests.connectors.streams import ITEMS, Run, bad, files, good, option_list
from tidegate.connectors import registry
from tidegate.core.schema import Column
from tidegate.errors import Error, Span

NOON = dt.datetime(2024, 5, 1, 12)
PAIRS = (Column("k", "bigint"), Column("v", "string"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    created = tmp_path / "input"
    created.mkdir()
    return created


def write_file(folder: Path, name: str, text: str, age: float = 0) -> None:
    """Writes a file that was last modified `age` seconds ago."""
    path = folder / name
    path.write_text(text)
    if age:
        mtime = path.stat().st_mtime - age
        os.utime(path, (mtime, mtime))


def test_errors_of_malformed_csv_rows(spark: SparkSession, folder: Path, tmp_path: Path) -> None:
    write_file(
        folder,
        "a.csv",
        "1,pen,0.5,2024-05-01 12:00:00\n"
        "two,pen,0.5,2024-05-01 12:00:00\n"
        "3,pen\n"
        "4,pen,0.5,2024-05-01 12:00:00,more\n"
        "5,pen,0.5,yesterday\n"
        "6,'a',,\n"
        '7,"a, b",1e3,2024-05-01T12:00:00Z\n'
        '8,"open,1,\n',
    )
    rows = Run(spark, files(folder, format="csv"), tmp_path).step()
    assert good(rows) == [(1, "pen", 0.5, NOON), (6, "'a'", None, None), (7, "a, b", 1000.0, NOON)]
    assert bad(rows) == [
        ("id: 'two' is not a BIGINT", "two,pen,0.5,2024-05-01 12:00:00"),
        ("expected 4 fields", "3,pen"),
        ("expected 4 fields", "4,pen,0.5,2024-05-01 12:00:00,more"),
        ("ts: 'yesterday' is not a TIMESTAMP", "5,pen,0.5,yesterday"),
        ("expected 4 fields", '8,"open,1,'),
    ]


def test_errors_of_malformed_json_rows(spark: SparkSession, folder: Path, tmp_path: Path) -> None:
    write_file(
        folder,
        "a.json",
        '{"id":1,"name":"pen","price":0.5,"ts":"2024-05-01 12:00:00"}\n'
        '{"id":"2"}\n'
        "broken{\n"
        '{"id":3.5}\n'
        '{"id":4,"ts":"yesterday"}\n'
        '{"id":5,"unknown":1}\n'
        "7\n",
    )
    rows = Run(spark, files(folder, format="json"), tmp_path).step()
    assert good(rows) == [(1, "pen", 0.5, NOON), (5, None, None, None)]
    assert bad(rows) == [
        ("id: '2' is not a BIGINT", '{"id":"2"}'),
        ("not a JSON object", "broken{"),
        ("id: '3.5' is not a BIGINT", '{"id":3.5}'),
        ("ts: 'yesterday' is not a TIMESTAMP", '{"id":4,"ts":"yesterday"}'),
        ("not a JSON object", "7"),
    ]


@pytest.mark.parametrize("format", ["csv", "json"])
def test_a_row_is_malformed_whichever_columns_are_read(
    spark: SparkSession, folder: Path, tmp_path: Path, format: str
) -> None:
    write_file(folder, "a.csv", "1,pen,cheap,\n" if format == "csv" else '{"id":1,"name":"pen","price":"cheap"}\n')
    (row,) = Run(spark, files(folder, format=format), tmp_path).step("id", "__error")
    assert row["__error"] == "price: 'cheap' is not a DOUBLE"


def test_names_and_texts_with_quotes(spark: SparkSession, folder: Path, tmp_path: Path) -> None:
    columns = (Column("a`b", "bigint"), Column("it's", "string"), Column("back\\slash", "int"))
    write_file(folder, "a.csv", "1|x|2\n'1`|\\|3\n")
    rows = Run(spark, files(folder, columns, format="csv", delimiter="|"), tmp_path).step()
    assert good(rows, columns) == [(1, "x", 2)]
    assert bad(rows) == [("a`b: ''1`' is not a BIGINT", "'1`|\\|3")]


@pytest.mark.parametrize("format", ["csv", "json", "parquet"])
def test_null_in_a_required_column_is_an_error(spark: SparkSession, folder: Path, tmp_path: Path, format: str) -> None:
    columns = (Column("k", "bigint", nullable=False), Column("v", "string"))
    pq.write_table(pa.table({"k": [1, None], "v": ["a", "b"]}), folder / "a.parquet")
    write_file(folder, "a.csv", "1,a\n,b\n")
    write_file(folder, "a.json", '{"k":1,"v":"a"}\n{"v":"b"}\n')
    rows = Run(spark, files(folder, columns, format=format, pattern=f"*.{format}"), tmp_path).step()
    assert good(rows, columns) == [(1, "a")]
    assert bad(rows) == [("k is NULL, but the column is NOT NULL", '{"v":"b"}')]


def test_a_header_is_skipped(spark: SparkSession, folder: Path, tmp_path: Path) -> None:
    write_file(folder, "a.csv", "K,v\n1,a\n")
    write_file(folder, "b.csv", "k,v\n2,b\n")
    rows = Run(spark, files(folder, PAIRS, format="csv", header="true"), tmp_path).step()
    assert sorted(good(rows, PAIRS)) == [(1, "a"), (2, "b")]


def failure_text(run: Run) -> str:
    with pytest.raises(Exception) as caught:
        run.step()
    error = run.source.failure(str(caught.value))
    assert error is not None and error.code == "UNREADABLE_FILE"
    return str(error)


def test_a_header_with_other_names_fails_the_step(spark: SparkSession, folder: Path, tmp_path: Path) -> None:
    write_file(folder, "a b.csv", "k,value\n1,a\n")
    assert failure_text(Run(spark, files(folder, PAIRS, format="csv", header="true"), tmp_path)) == (
        f"UNREADABLE_FILE: a file of items cannot be read: {folder}/a b.csv\n"
        "  detail: its header is k, value, expected k, v\n"
        "  hint: replace it by a readable file of the same name: it is then read"
    )


def test_a_broken_parquet_file_fails_the_step_until_it_is_replaced(
    spark: SparkSession, folder: Path, tmp_path: Path
) -> None:
    write_file(folder, "a.parquet", "this is not parquet")
    run = Run(spark, files(folder, PAIRS, format="parquet"), tmp_path)
    text = failure_text(run)
    assert text.startswith(
        f"UNREADABLE_FILE: a file of items cannot be read: {folder}/a.parquet\n  detail: it is not a Parquet"
    )
    pq.write_table(pa.table({"k": [1], "v": ["a"]}), folder / "a.parquet")
    assert good(run.step(), PAIRS) == [(1, "a")]


def test_a_parquet_column_of_another_type_fails_the_step(spark: SparkSession, folder: Path, tmp_path: Path) -> None:
    pq.write_table(pa.table({"k": ["x"], "v": ["a"]}), folder / "a.parquet")
    text = failure_text(Run(spark, files(folder, PAIRS, format="parquet"), tmp_path))
    assert "detail: column k is BINARY, expected bigint\n" in text


def test_parquet_columns_may_be_missing_additional_or_narrower(
    spark: SparkSession, folder: Path, tmp_path: Path
) -> None:
    pq.write_table(pa.table({"v": ["a"], "more": [1]}), folder / "a.parquet")
    pq.write_table(pa.table({"K": pa.array([7], pa.int32())}), folder / "b.parquet")
    rows = Run(spark, files(folder, PAIRS, format="parquet"), tmp_path).step()
    assert sorted(good(rows, PAIRS), key=str) == [(7, None), (None, "a")]


@pytest.mark.parametrize("format", ["csv", "parquet"])
def test_older_files_come_first_regardless_of_size(
    spark: SparkSession, folder: Path, tmp_path: Path, format: str
) -> None:
    for age, (name, count) in enumerate({"c": 1, "a": 500, "b": 20}.items()):
        path = folder / f"{name}.{format}"
        if format == "csv":
            write_file(folder, path.name, "".join(f"{i},{name}\n" for i in range(count)))
        else:
            pq.write_table(pa.table({"k": list(range(count)), "v": [name] * count}), path)
        os.utime(path, ns=(1_700_000_000_000_000_000 + age * 1_000_000,) * 2)
    rows = Run(spark, files(folder, PAIRS, format=format), tmp_path).step()
    assert good(rows, PAIRS) == [(i, name) for name, count in (("c", 1), ("a", 500), ("b", 20)) for i in range(count)]


def test_a_file_read_in_pieces_keeps_its_order(spark: SparkSession, folder: Path, tmp_path: Path) -> None:
    write_file(folder, "a.csv", "".join(f"{i},{'x' * (i % 7)}\n" for i in range(3000)))
    write_file(folder, "b.csv", "".join(f"{i},b\n" for i in range(100)), age=10)
    spark.conf.set("spark.sql.files.maxPartitionBytes", "4096")
    try:
        rows = Run(spark, files(folder, PAIRS, format="csv"), tmp_path).step()
    finally:
        spark.conf.unset("spark.sql.files.maxPartitionBytes")
    assert [k for k, _ in good(rows, PAIRS)] == [*range(100), *range(3000)]


def test_files_of_any_age_are_read(spark: SparkSession, folder: Path, tmp_path: Path) -> None:
    run = Run(spark, files(folder, PAIRS, format="csv"), tmp_path)
    write_file(folder, "a.csv", "1,a\n")
    run.step()
    write_file(folder, "b.csv", "2,b\n", age=86400 * 365)
    assert good(run.step(), PAIRS) == [(2, "b")]


def test_patterns_globs_and_subfolders(spark: SparkSession, folder: Path, tmp_path: Path) -> None:
    (folder / "x").mkdir()
    write_file(folder, "a.csv", "1,a\n")
    write_file(folder, "b.txt", "2,b\n")
    write_file(folder / "x", "c.csv", "3,c\n")
    write_file(folder, "_hidden.csv", "4,d\n")

    def keys_in(path: Path, **options: str) -> list[object]:
        run = Run(spark, files(path, PAIRS, format="csv", **options), tmp_path / str(len(results)))
        results.append(sorted(k for k, _ in good(run.step(), PAIRS)))
        return results[-1]

    results: list[list[object]] = []
    assert keys_in(folder, pattern="*.csv") == [1]
    assert keys_in(folder, recursive="true") == [1, 2, 3]
    assert keys_in(folder / "*.txt") == [2]
    assert keys_in(folder / "x" / "c.csv") == [3]


def test_max_files_per_step_limits_a_step(spark: SparkSession, folder: Path, tmp_path: Path) -> None:
    for i in range(12):
        write_file(folder, f"{i}.csv", f"{i},a\n", age=100 - i)
    run = Run(spark, files(folder, PAIRS, format="csv", max_files_per_step="1"), tmp_path)
    run.step()
    assert [[k for k, *_ in batch] for batch in run.batches] == [[i] for i in range(12)]
    assert len(run.position()["files"]) == 12


def test_a_position_that_is_not_reached_again_yet_is_kept(spark: SparkSession, folder: Path, tmp_path: Path) -> None:
    """A new checkpoint lists the old files again, a few per step; a position taken meanwhile contains all of them."""
    for i in range(4):
        write_file(folder, f"{i}.csv", f"{i},a\n", age=100 - i)
    source = files(folder, PAIRS, format="csv")
    old = Run(spark, source, tmp_path / "1")
    old.step()
    log = tmp_path / "half"
    log.mkdir()
    (log / "0").write_text((old.folder / "checkpoint/sources/0/0").read_text().splitlines()[0] + "\n")
    half = source.position('{"logOffset":0}', log, old.position())
    write_file(folder, "new.csv", "9,z\n")
    assert good(Run(spark, source, tmp_path / "2", half).step(), PAIRS) == [(9, "z")]


def test_files_already_read_are_not_opened(spark: SparkSession, folder: Path, tmp_path: Path) -> None:
    source = files(folder, PAIRS, format="parquet")
    odd = folder / "a b%20ü+.parquet"
    pq.write_table(pa.table({"k": [1], "v": ["a"]}), odd)
    old = Run(spark, source, tmp_path / "1")
    assert good(old.step(), PAIRS) == [(1, "a")]
    odd.write_text("no longer parquet")
    pq.write_table(pa.table({"k": [2], "v": ["b"]}), folder / "b.parquet")
    assert good(Run(spark, source, tmp_path / "2", old.position()).step(), PAIRS) == [(2, "b")]


def test_a_missing_folder_is_an_error(tmp_path: Path) -> None:
    missing = tmp_path / "nowhere"
    with pytest.raises(Error) as caught:
        registry.source("FILES", "items", ITEMS, [("path", str(missing), Span(5, 9)), ("format", "csv", None)])
    assert caught.value.span == Span(5, 9)
    assert str(caught.value) == (
        f"INVALID_OPTION: there is no folder or file {missing}\n"
        f"  detail: looked for {missing}\n"
        "  hint: create the folder first; files may come later"
    )


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({}, "MISSING_OPTION: FILES needs option 'path'\n  hint: add path = 'some/folder'"),
        (
            {"path": "."},
            "MISSING_OPTION: FILES needs option 'format'\n  hint: add format = 'parquet', or write FORMAT PARQUET",
        ),
        ({"path": ".", "format": "jsn"}, "UNKNOWN_FORMAT: FILES has no format jsn\n  hint: did you mean json?"),
        (
            {"path": ".", "format": "avro"},
            "UNKNOWN_FORMAT: FILES has no format avro\n  hint: known formats: csv, json, parquet",
        ),
        (
            {"path": ".", "format": "csv", "header": "yes"},
            "INVALID_OPTION: option 'header' cannot be 'yes'\n  hint: expected 'true' or 'false'",
        ),
        (
            {"path": ".", "format": "csv", "max_files_per_step": "0"},
            "INVALID_OPTION: option 'max_files_per_step' cannot be '0'\n  hint: expected a whole number from 1",
        ),
        (
            {"path": ".", "format": "parquet", "header": "true"},
            "UNKNOWN_OPTION: FILES has no option 'header'\n"
            "  detail: options of FILES: format, max_file_age, max_files_per_step, path, pattern, recursive\n"
            "  hint: leave it out",
        ),
    ],
)
def test_invalid_options(options: dict[str, str], text: str) -> None:
    with pytest.raises(Error) as caught:
        registry.source("FILES", "items", ITEMS, option_list(**options))
    assert str(caught.value) == text


def test_a_table_is_not_read_a_few_files_at_a_time() -> None:
    """Stream rows would join half of it, and later an old version."""
    options = option_list(path=".", format="csv", max_files_per_step="10")
    with pytest.raises(Error) as caught:
        registry.source("FILES", "items", ITEMS, options, key=(ITEMS[0].name,))
    assert str(caught.value) == (
        "INVALID_OPTION: a table is ready when all its files are read, which takes one step\n"
        "  hint: leave out max_files_per_step"
    )
    assert registry.source("FILES", "items", ITEMS, options)


def test_the_format_is_taken_from_the_file_name_or_the_clause(tmp_path: Path) -> None:
    assert registry.source("FILES", "i", ITEMS, option_list(path=str(tmp_path / "*.jsonl"))).options.format == "json"  # type: ignore[attr-defined]
    assert registry.source("files", "i", ITEMS, option_list(path="."), "CSV").spec.format == "csv"
    with pytest.raises(Error, match="FORMAT CSV and format = 'json' contradict each other"):
        registry.source("FILES", "i", ITEMS, option_list(path=".", format="json"), "CSV")


def test_partition_folders_give_column_values(spark: SparkSession, folder: Path, tmp_path: Path) -> None:
    (folder / "k=5").mkdir()
    write_file(folder / "k=5", "a.csv", "v\nx\n")
    rows = Run(spark, files(folder, PAIRS, format="csv", header="true"), tmp_path).step()
    assert good(rows, PAIRS) == [(5, "x")]


def test_listing_many_files_does_not_take_a_task_each(spark: SparkSession, folder: Path, tmp_path: Path) -> None:
    Run(spark, files(folder, PAIRS, format="csv"), tmp_path).frame()
    assert spark.conf.get("spark.sql.sources.parallelPartitionDiscovery.parallelism") == "8"
