"""The contract of all sinks: each step is written exactly once."""

from __future__ import annotations

import datetime as dt
import json
import os
import sys
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from tests.connectors.streams import Run, files, good, option_list
from tidegate.catalog.bus import BUS, EVENTS
from tidegate.connectors import registry
from tidegate.connectors.contract import OutputClosed, Sink, SinkContext
from tidegate.core.schema import Column, Schema
from tidegate.core.types import arrow_schema
from tidegate.errors import Error, Span
from tidegate.formats.events import Event, rows_of

VIEW: Schema = (Column("item", "string"), Column("total", "bigint"))
Change = tuple[str, int, int, Any, Any]


def changes(step: int, *rows: tuple[str, int, Any, Any]) -> pa.Table:
    """The rows (op, weight, item, total) of a step, as a sink receives them."""
    columns = list(zip(*rows, strict=True)) or [(), (), (), ()]
    ops, weights, items, totals = (list(column) for column in columns)
    schema = pa.schema([("op", pa.string()), ("weight", pa.int64()), ("step", pa.int64()), *arrow_schema(VIEW)])
    return pa.table([ops, weights, [step] * len(rows), items, totals], schema=schema)


def sink(kind: str, columns: Schema = VIEW, **options: str) -> Sink:
    return registry.sink(kind, "out", columns, option_list(**options))


OpenSink = Callable[[], Sink]
ReadChanges = Callable[[], list[Change]]


def read_files(folder: Path, format: str) -> list[Change]:
    rows: list[Change] = []
    for path in sorted(folder.glob(f"[!_]*.{format}")):
        rows += [tuple(row.values()) for row in _read(path, format)]  # type: ignore[misc]
    return rows


def _read(path: Path, format: str) -> list[dict[str, Any]]:
    if format == "parquet":
        return pq.read_table(path).to_pylist()
    if format == "json":
        return [json.loads(line) for line in path.read_text().splitlines()]
    from pyarrow import csv

    return csv.read_csv(path, convert_options=csv.ConvertOptions(strings_can_be_null=True)).to_pylist()


@dataclass(frozen=True)
class Case:
    """Creates a changelog sink, and reads the lines of JSON or the rows that it has written."""

    create: Callable[[], Sink]
    lines: Callable[[], list[str]] = list
    rows: Callable[[], list[Change]] | None = None


def files_case(request: pytest.FixtureRequest, folder: Path, format: str) -> Case:
    out = folder / "out"
    return Case(
        lambda: sink("FILES", path=str(out), format=format, mode="changelog"), rows=lambda: read_files(out, format)
    )


def file_case(request: pytest.FixtureRequest, folder: Path) -> Case:
    path = folder / "out.jsonl"
    return Case(lambda: sink("FILE", path=str(path)), lambda: path.read_text().splitlines() if path.exists() else [])


def stdout_case(request: pytest.FixtureRequest, folder: Path) -> Case:
    capsys, printed = request.getfixturevalue("capsys"), []

    def lines() -> list[str]:
        printed.extend(capsys.readouterr().out.splitlines())
        return printed

    return Case(lambda: sink("STDOUT", format="json"), lines)


def kafka_case(request: pytest.FixtureRequest, folder: Path) -> Case:
    broker = request.getfixturevalue("broker")
    topic = broker.create_topic(folder.name)
    return Case(
        lambda: sink("KAFKA", brokers=broker.address, topic=topic, format="ops"),
        lambda: [record.value.decode() for record in broker.read_committed(topic)],
    )


def redis_case(request: pytest.FixtureRequest, folder: Path) -> Case:
    server = request.getfixturevalue("redis")

    def rows() -> list[Change]:
        with server.client() as client:
            entries = [(entry, json.loads(entry["row"])) for _, entry in client.xrange(folder.name)]
        return [(e["op"], int(e["weight"]), int(e["step"]), row["item"], row["total"]) for e, row in entries]

    return Case(lambda: sink("REDIS", url=server.url(), stream=folder.name), rows=rows)


def postgres_case(request: pytest.FixtureRequest, folder: Path) -> Case:
    server = request.getfixturevalue("postgres")
    database = server.create_database("out")

    def rows() -> list[Change]:
        with server.connect(database) as connection:
            return list(connection.execute("SELECT op, weight, step, item, total FROM out").fetchall())

    return Case(lambda: sink("POSTGRES", url=server.url(database), table="out", mode="changelog"), rows=rows)


CASES: dict[str, Callable[[pytest.FixtureRequest, Path], Case]] = {
    **{format: partial(files_case, format=format) for format in ("parquet", "csv", "json")},
    "stdout": stdout_case,
    "file": file_case,
    "kafka": kafka_case,
    "redis": redis_case,
    "postgres": postgres_case,
}


SERVERS = ("kafka", "redis", "postgres")


@pytest.fixture(params=[pytest.param(name, marks=pytest.mark.server if name in SERVERS else ()) for name in CASES])
def case(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[OpenSink, ReadChanges]]:
    """Two functions: one opens a changelog sink, also repeatedly, the other reads what it has written."""
    folder = tmp_path / f"out-{uuid.uuid4().hex[:8]}"
    folder.mkdir()
    chosen = CASES[request.param](request, folder)
    sinks: list[Sink] = []

    def open_sink() -> Sink:
        sinks.append(chosen.create())
        sinks[-1].open(SinkContext("out", folder / "own", f"pipeline 1 {folder.name}"))
        return sinks[-1]

    def read_changes() -> list[Change]:
        if chosen.rows is not None:
            return chosen.rows()
        rows = [json.loads(line) for line in chosen.lines()]
        return [(row["op"], row["weight"], row["step"], row["row"]["item"], row["row"]["total"]) for row in rows]

    yield open_sink, read_changes
    for each in sinks:
        each.close()


def test_changes_arrive_with_op_weight_and_step(case: tuple[OpenSink, ReadChanges]) -> None:
    open_sink, read_changes = case
    target = open_sink()
    assert target.abilities.accepts == "changelog"
    target.write(3, changes(3, ("+I", 1, "pen", 5), ("+I", 2, None, None)))
    target.write(5, changes(5, ("-U", -1, "pen", 5), ("+U", 1, "pen", 6)))
    target.close()
    assert read_changes() == [
        ("+I", 1, 3, "pen", 5),
        ("+I", 2, 3, None, None),
        ("-U", -1, 5, "pen", 5),
        ("+U", 1, 5, "pen", 6),
    ]


def test_a_repeated_step_is_written_once(case: tuple[OpenSink, ReadChanges]) -> None:
    open_sink, read_changes = case
    target = open_sink()
    target.write(1, changes(1, ("+I", 1, "pen", 1)))
    target.write(2, changes(2, ("+I", 1, "ink", 2)))
    target.write(2, changes(2, ("+I", 1, "ink", 2)))
    again = open_sink()
    again.write(2, changes(2, ("+I", 1, "ink", 2)))
    assert read_changes() == [("+I", 1, 1, "pen", 1), ("+I", 1, 2, "ink", 2)]


def test_the_last_step_is_remembered(case: tuple[OpenSink, ReadChanges]) -> None:
    open_sink, _ = case
    target = open_sink()
    assert target.last_step() is None
    target.write(4, changes(4, ("+I", 1, "pen", 1)))
    assert target.last_step() == 4
    target.close()
    assert open_sink().last_step() == 4


def test_a_step_without_changes_writes_nothing(case: tuple[OpenSink, ReadChanges]) -> None:
    open_sink, read_changes = case
    open_sink().write(1, changes(1))
    assert read_changes() == []


NEEDED: dict[str, dict[str, str]] = {
    "FILES": {"path": "out"},
    "FILE": {"path": "out.jsonl"},
    "STDOUT": {},
    "KAFKA": {"brokers": "a:1", "topic": "a"},
    "REDIS": {"url": "redis://a", "stream": "a"},
    "POSTGRES": {"url": "postgresql://a/b", "table": "c"},
}


@pytest.mark.parametrize("kind", NEEDED)
def test_unknown_options_are_rejected(kind: str) -> None:
    with pytest.raises(Error) as caught:
        registry.sink(kind, "out", VIEW, [*option_list(**NEEDED[kind]), ("fromat", "x", Span(3, 9))])
    assert caught.value.code == "UNKNOWN_OPTION" and caught.value.span == Span(3, 9)
    assert caught.value.hint == "did you mean format?"


def test_unknown_formats_are_rejected() -> None:
    with pytest.raises(Error) as caught:
        sink("STDOUT", format="xml")
    assert str(caught.value) == "UNKNOWN_FORMAT: STDOUT has no format xml\n  hint: known formats: json, ops"


def test_appended_files_have_the_columns_only(tmp_path: Path) -> None:
    target = sink("FILES", path=str(tmp_path))
    assert target.abilities.accepts == "append"
    target.open(SinkContext("out", tmp_path, "pipeline 1"))
    target.write(7, changes(7, ("+I", 2, "pen", 5), ("+I", 1, "ink", 6)))
    assert [path.name for path in tmp_path.glob("[!_]*")] == ["out-000000000007.parquet"]
    rows = pq.read_table(tmp_path / "out-000000000007.parquet").to_pylist()
    assert rows == [{"item": "pen", "total": 5}, {"item": "pen", "total": 5}, {"item": "ink", "total": 6}]


def test_retractions_cannot_be_appended(tmp_path: Path) -> None:
    target = sink("FILES", path=str(tmp_path))
    target.open(SinkContext("out", tmp_path, "pipeline 1"))
    with pytest.raises(Error) as caught:
        target.write(7, changes(7, ("-D", -1, "pen", 5)))
    assert str(caught.value) == (
        "SINK_CANNOT_TAKE: sink out appends rows, but step 7 takes rows back\n  hint: write mode = 'changelog'"
    )


@pytest.mark.parametrize("format", ["parquet", "csv", "json"])
def test_files_are_never_seen_half_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, format: str) -> None:
    """Readers of a folder ignore names that begin with a dot or an underscore, as Spark does."""
    target = sink("FILES", path=str(tmp_path), format=format)
    target.open(SinkContext("out", tmp_path, "pipeline 1"))
    listings: list[list[str]] = []
    replace = __import__("os").replace
    monkeypatch.setattr(
        "os.replace", lambda *a: (listings.append([p.name for p in tmp_path.glob("[!_.]*")]), replace(*a))
    )
    target.write(1, changes(1, ("+I", 1, "pen", 5)))
    assert listings == [[]] and [p.name for p in tmp_path.glob("[!_.]*")] == [f"out-000000000001.{format}"]


def test_a_folder_of_another_pipeline_is_rejected(tmp_path: Path) -> None:
    first = sink("FILES", path=str(tmp_path))
    first.open(SinkContext("out", tmp_path, "pipeline 1"))
    first.write(500, changes(500, ("+I", 1, "pen", 5)))
    with pytest.raises(Error) as caught:
        sink("FILES", path=str(tmp_path)).open(SinkContext("out", tmp_path, "pipeline 2"))
    assert str(caught.value) == (
        f"INVALID_OPTION: folder {tmp_path} holds files of another sink named out\n"
        "  hint: choose another path, or empty the folder"
    )
    other = sink("FILES", path=str(tmp_path))
    other.open(SinkContext("other", tmp_path, "pipeline 2"))
    assert other.last_step() is None


def test_a_damaged_owner_marker_of_a_folder_is_an_error(tmp_path: Path) -> None:
    target = sink("FILES", path=str(tmp_path / "out"))
    target.open(SinkContext("out", tmp_path, "pipeline 1"))
    [marker] = (tmp_path / "out").iterdir()
    marker.write_bytes(marker.read_bytes().replace(b"pipeline 1", b"pipeline 2"))
    with pytest.raises(Error) as caught:
        target.open(SinkContext("out", tmp_path, "pipeline 2"))
    assert (caught.value.code, str(marker) in caught.value.message) == ("FOLDER_DAMAGED", True)


def test_stdout_of_another_pipeline_starts_from_the_beginning(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for owner in ("pipeline 1", "pipeline 2"):
        target = sink("STDOUT")
        target.open(SinkContext("out", tmp_path, owner))
        target.write(1, changes(1, ("+I", 1, "pen", 5)))
    assert capsys.readouterr().out == "     1  +I  pen | 5\n" * 2


def test_a_closed_pipe_ends_the_sink_and_the_step_is_not_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w") as unread:
        monkeypatch.setattr(sys, "stdout", unread)
        target = sink("STDOUT")
        target.open(SinkContext("out", tmp_path, "pipeline"))
        with pytest.raises(OutputClosed):
            target.write(1, changes(1, ("+I", 1, "pen", 5)))
        assert target.last_step() is None
        target.close()


def test_op_lines(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = sink("STDOUT")
    target.open(SinkContext("out", tmp_path, "pipeline 1"))
    target.write(12, changes(12, ("-D", -2, None, 5), ("+I", 1, "pen", 6)))
    assert capsys.readouterr().out == "    12  -D  NULL | 5  x2\n    12  +I  pen | 6\n"


def test_events_are_printed_without_an_envelope(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    event = Event("1", "pgcdc:orders", "INSERT", '{"row":{"id":7}}', "shop", 1_714_564_803_250_000)
    head = {"op": ["+I"], "weight": [2], "step": [4]}
    rows = rows_of([event])
    table = pa.table([*head.values(), *rows.columns], names=[*head, *rows.column_names])
    for format in (None, "ops"):
        target = registry.sink("STDOUT", "out", EVENTS.columns, option_list(), format, reads=BUS)
        target.open(SinkContext("out", tmp_path, f"pipeline {format}"))
        target.write(4, table)
    line = (
        '{"id":"1","channel":"pgcdc:orders","operation":"INSERT","payload":{"row":{"id":7}},"source":"shop",'
        '"created_at":"2024-05-01T12:00:03.25Z","transaction":null}\n'
    )
    line_of_ops = (
        '     4  +I  1 | pgcdc:orders | INSERT | {"row":{"id":7}} | shop | 2024-05-01 12:00:03.25 | NULL  x2\n'
    )
    assert capsys.readouterr().out == line * 2 + line_of_ops


def test_a_column_named_op_cannot_be_in_a_changelog(tmp_path: Path) -> None:
    with pytest.raises(Error) as caught:
        sink("FILES", (Column("Op", "string"),), path=str(tmp_path), mode="changelog")
    assert str(caught.value) == (
        "INVALID_OPTION: mode 'changelog' adds the columns op, weight and step, but there is a column Op already\n"
        "  hint: rename Op in a view on it"
    )
    sink("FILES", (Column("Op", "string"),), path=str(tmp_path))


EVERYTHING: Schema = (
    Column("b", "boolean"),
    Column("d", "decimal(10,2)"),
    Column("f", "double"),
    Column("ts", "timestamp"),
    Column("day", "date"),
    Column("text", "string"),
)
ROW = (True, Decimal("1.50"), 0.1, dt.datetime(2024, 5, 1, 12, 0, 3, 250000, dt.UTC), dt.date(2024, 5, 1), 'a "b", ü\\')


@pytest.mark.parametrize("format", ["parquet", "csv", "json"])
def test_what_was_written_can_be_read_as_a_source(spark: SparkSession, tmp_path: Path, format: str) -> None:
    out = tmp_path / "out"
    target = sink("FILES", EVERYTHING, path=str(out), format=format)
    target.open(SinkContext("out", tmp_path, "pipeline 1"))
    schema = pa.schema([("op", pa.string()), ("weight", pa.int64()), ("step", pa.int64()), *arrow_schema(EVERYTHING)])
    rows = [("+I", 1, 1, *ROW), ("+I", 1, 1, *[None] * 6)]
    target.write(1, pa.table([list(column) for column in zip(*rows, strict=True)], schema=schema))
    options = {"header": "true"} if format == "csv" else {}
    source = files(out, EVERYTHING, format=format, **options)
    expected = [value.replace(tzinfo=None) if isinstance(value, dt.datetime) else value for value in ROW]
    assert good(Run(spark, source, tmp_path).step(), EVERYTHING) == [tuple(expected), (None,) * 6]


def test_values_without_a_json_form_are_written_as_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    columns = (
        Column("n", "double"),
        Column("raw", "binary"),
        Column("s", "struct<a:array<timestamp>,m:map<int,decimal(3,1)>>"),
    )
    target = sink("STDOUT", columns, format="json")
    target.open(SinkContext("out", tmp_path, "pipeline 1"))
    nested = {"a": [dt.datetime(2024, 5, 1, tzinfo=dt.UTC)], "m": [(1, Decimal("2.5"))]}
    schema = pa.schema([("op", pa.string()), ("weight", pa.int64()), ("step", pa.int64()), *arrow_schema(columns)])
    target.write(1, pa.table([["+I"], [1], [1], [float("nan")], [b"\x00\xff"], [nested]], schema=schema))
    assert json.loads(capsys.readouterr().out)["row"] == {
        "n": "NaN",
        "raw": "AP8=",
        "s": {"a": ["2024-05-01T00:00:00Z"], "m": {"1": "2.5"}},
    }


def test_csv_files_are_plain(tmp_path: Path) -> None:
    columns = (*EVERYTHING, Column("list", "array<int>"))
    target = sink("FILES", columns, path=str(tmp_path), format="csv")
    target.open(SinkContext("out", tmp_path, "pipeline 1"))
    schema = pa.schema([("op", pa.string()), ("weight", pa.int64()), ("step", pa.int64()), *arrow_schema(columns)])
    target.write(1, pa.table([[value] for value in ("+I", 1, 1, *ROW, [1, None])], schema=schema))
    assert (tmp_path / "out-000000000001.csv").read_text() == (
        '"b","d","f","ts","day","text","list"\n'
        'true,1.50,0.1,2024-05-01 12:00:03.250000,2024-05-01,"a ""b"", ü\\","[1,null]"\n'
    )
