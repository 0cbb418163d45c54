"""The contract of all stream sources."""

from __future__ import annotations

import csv
import datetime as dt
import json
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from tests.connectors.streams import ITEMS, Run, bad, files, good, option_list, through_json
from tests.servers import Broker
from tidegate.connectors import registry
from tidegate.connectors.contract import Partitioned, StreamSource
from tidegate.errors import Error, Span

Rows = list[tuple[Any, ...]]


def item(number: int) -> tuple[Any, ...]:
    return (number, f"item {number}", number / 2, dt.datetime(2024, 5, 1, 12, 0, number % 60, 250000))


def write_parquet(folder: Path, rows: Rows) -> None:
    columns = list(zip(*rows, strict=True))
    table = pa.table({c.name: list(values) for c, values in zip(ITEMS, columns, strict=True)})
    pq.write_table(table, folder / f"{rows[0][0]:06d}.parquet")


def write_csv(folder: Path, rows: Rows) -> None:
    with (folder / f"{rows[0][0]:06d}.csv").open("w", newline="") as file:
        csv.writer(file).writerows(rows)


def write_json(folder: Path, rows: Rows) -> None:
    lines = [json.dumps(dict(zip((c.name for c in ITEMS), row, strict=True)), default=str) for row in rows]
    (folder / f"{rows[0][0]:06d}.json").write_text("\n".join(lines) + "\n")


@dataclass
class Case:
    """A source; `more()` adds rows to it and returns them."""

    source: StreamSource
    more: Callable[[], Rows]


def files_case(format: str, write: Callable[[Path, Rows], None]) -> Callable[[Path], Case]:
    def make(folder: Path) -> Case:
        rows_so_far: Rows = []

        def more() -> Rows:
            new = [item(len(rows_so_far) + i) for i in range(3)]
            rows_so_far.extend(new)
            write(folder, new)
            return new

        return Case(files(folder, format=format), more)

    return make


def datagen_case(folder: Path) -> Case:
    """All rows are generated in the first step, so there are no more rows later."""
    options = option_list(rows="5", **{"fields.id.kind": "sequence", "fields.id.start": "0"})
    source = registry.source("DATAGEN", "items", ITEMS, options)
    calls: Rows = []

    def more() -> Rows:
        calls.append(())
        return expected if len(calls) == 1 else []

    from tidegate.connectors.datagen.source import DatagenSource, rows_between

    assert isinstance(source, DatagenSource)
    generated = rows_between(source.plan, 0, 5).to_pylist()
    expected = [(r["id"], r["name"], r["price"], r["ts"].replace(tzinfo=None)) for r in generated]
    return Case(source, more)


def kafka_case(folder: Path, broker: Broker) -> Case:
    """Records as JSON in a topic."""
    name = broker.create_topic(f"items-{uuid.uuid4().hex[:8]}")
    rows_so_far: Rows = []

    def more() -> Rows:
        new = [item(len(rows_so_far) + i) for i in range(3)]
        rows_so_far.extend(new)
        texts = [json.dumps(dict(zip((c.name for c in ITEMS), row, strict=True)), default=str) for row in new]
        broker.produce(name, [(None, text.encode()) for text in texts])
        return new

    return Case(registry.source("KAFKA", "items", ITEMS, option_list(brokers=broker.address, topic=name)), more)


CASES = {
    "parquet": files_case("parquet", write_parquet),
    "csv": files_case("csv", write_csv),
    "json": files_case("json", write_json),
    "datagen": datagen_case,
}


@pytest.fixture(params=[*CASES, pytest.param("kafka", marks=pytest.mark.server)])
def case(request: pytest.FixtureRequest, tmp_path: Path) -> Case:
    folder = tmp_path / "input"
    folder.mkdir()
    if request.param == "kafka":
        return kafka_case(folder, request.getfixturevalue("broker"))
    return CASES[request.param](folder)


def test_the_frame_has_the_columns_and_four_more(spark: SparkSession, case: Case, tmp_path: Path) -> None:
    case.more()
    frame = Run(spark, case.source, tmp_path).frame()
    assert frame.isStreaming
    shards = [("__seen_shard", "string")] if isinstance(case.source, Partitioned) else []
    assert frame.dtypes == [
        ("id", "bigint"),
        ("name", "string"),
        ("price", "double"),
        ("ts", "timestamp"),
        ("__w", "bigint"),
        ("__seq", "bigint"),
        ("__error", "string"),
        ("__raw", "string"),
        *shards,
    ]


def test_every_row_arrives_once_and_in_order(spark: SparkSession, case: Case, tmp_path: Path) -> None:
    run = Run(spark, case.source, tmp_path)
    first = case.more()
    rows = run.step()
    assert good(rows) == first and bad(rows) == []
    assert {row["__w"] for row in rows} == {1} and {row["__raw"] for row in rows} == {None}
    assert run.step() == []
    assert good(run.step()) == [] and good(Run(spark, case.source, tmp_path / "again").step()) == first


def test_a_restart_continues_at_its_offsets(spark: SparkSession, case: Case, tmp_path: Path) -> None:
    case.more()
    Run(spark, case.source, tmp_path).step()
    second = case.more()
    assert good(Run(spark, case.source, tmp_path).step()) == second


def test_a_new_checkpoint_continues_at_the_position(spark: SparkSession, case: Case, tmp_path: Path) -> None:
    old = Run(spark, case.source, tmp_path / "1")
    case.more()
    old.step()
    second = case.more()
    new = Run(spark, case.source, tmp_path / "2", through_json(old.position()))
    assert good(new.step()) == second
    third = case.more()
    assert good(Run(spark, case.source, tmp_path / "3", through_json(new.position())).step()) == third


def test_a_checkpoint_that_read_nothing_keeps_its_start(spark: SparkSession, case: Case, tmp_path: Path) -> None:
    old = Run(spark, case.source, tmp_path / "1")
    case.more()
    old.step()
    unused = Run(spark, case.source, tmp_path / "2", old.position())
    assert unused.position() == old.position()
    assert Run(spark, case.source, tmp_path / "3").source.position(None, tmp_path) in (
        {"files": []},
        {"row": 0},
        {"offsets": None},
    )


def test_one_column_can_be_read_alone(spark: SparkSession, case: Case, tmp_path: Path) -> None:
    expected = case.more()
    assert [row["id"] for row in Run(spark, case.source, tmp_path).step("id")] == [row[0] for row in expected]


def test_errors_alone_can_be_read(spark: SparkSession, case: Case, tmp_path: Path) -> None:
    expected = case.more()
    assert [tuple(row) for row in Run(spark, case.source, tmp_path).step("__w", "__error")] == [(1, None)] * len(
        expected
    )


def test_the_source_is_bounded(case: Case) -> None:
    assert case.source.bounded


def test_a_failure_of_something_else_is_not_explained(case: Case) -> None:
    assert case.source.failure("java.lang.OutOfMemoryError") is None


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("FILES", {"path": ".", "format": "csv"}),
        ("DATAGEN", {"rows": "1"}),
        ("KAFKA", {"brokers": "a:1", "topic": "a"}),
    ],
)
def test_unknown_options_are_rejected(kind: str, options: dict[str, str]) -> None:
    with pytest.raises(Error) as caught:
        registry.source(kind, "items", ITEMS, [*option_list(**options), ("hedaer", "x", Span(3, 9))])
    assert (caught.value.code, caught.value.span) == ("UNKNOWN_OPTION", Span(3, 9))
    assert caught.value.message == f"{kind} has no option 'hedaer'"
    assert (caught.value.detail or "").startswith(f"options of {kind}: ")
