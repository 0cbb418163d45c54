"""Generated rows: deterministic for a seed, at the configured rate, of the configured kinds."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given as for_all
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from pyspark.sql.streaming.datasource import ReadAllAvailable

from tests.connectors.streams import Run, good, option_list
from tests.tiers import examples
from tidegate.connectors import registry
from tidegate.connectors.datagen import source as datagen
from tidegate.connectors.datagen.options import Plan
from tidegate.core.schema import Column, Schema
from tidegate.errors import Error

ALL_TYPES: Schema = tuple(
    Column(f"c{i}", type_)
    for i, type_ in enumerate(
        [
            "boolean",
            "tinyint",
            "smallint",
            "int",
            "bigint",
            "float",
            "double",
            "decimal(3,1)",
            "decimal(38,2)",
            "string",
            "binary",
            "date",
            "timestamp",
            "timestamp_ntz",
            "array<bigint>",
            "array<array<string>>",
            "struct<a:int,b:array<timestamp>>",
        ]
    )
)


def plan(columns: Schema, **options: str) -> Plan:
    dotted = {key.replace("__", "."): value for key, value in options.items()}
    source = registry.source("DATAGEN", "r", columns, option_list(**dotted))
    assert isinstance(source, datagen.DatagenSource)
    return source.plan


def values(type_: str, count: int = 1000, **options: str) -> list[Any]:
    """The first values of a generated column `x` of a type."""
    fields = {f"fields__x__{key}": value for key, value in options.items()}
    generator = plan((Column("x", type_),), rows="1", **fields)
    return datagen.rows_between(generator, 0, count).column("x").to_pylist()


def error_of(columns: Schema, **options: str) -> str:
    with pytest.raises(Error) as caught:
        plan(columns, **options)
    return str(caught.value)


@examples(30)
@for_all(st.lists(st.integers(0, 400), max_size=6), st.integers(0, 5))
def test_rows_do_not_depend_on_how_they_are_split(cuts: list[int], seed: int) -> None:
    generator = plan(ALL_TYPES, rows="400", seed=str(seed))
    bounds = sorted({0, 400, *cuts})
    parts = [datagen.rows_between(generator, a, b) for a, b in pairwise(bounds)]
    whole = datagen.rows_between(generator, 0, 400)
    assert pa.Table.from_batches(parts).combine_chunks() == pa.Table.from_batches([whole])
    assert whole.column("__seq").to_pylist() == list(range(400))


def test_another_seed_gives_other_rows() -> None:
    columns = (Column("x", "bigint"), Column("y", "bigint"))
    one, two = (datagen.rows_between(plan(columns, rows="1", seed=seed), 0, 50) for seed in "12")
    assert one.column("x") != two.column("x") and one.column("x") != one.column("y")


def test_a_sequence_counts_and_restarts() -> None:
    assert values("bigint", 4, kind="sequence") == [1, 2, 3, 4]
    assert values("int", 5, kind="sequence", start="10", step="5", end="20") == [10, 15, 20, 10, 15]
    assert values("string", 2, kind="sequence", prefix="user-") == ["user-1", "user-2"]


@pytest.mark.parametrize(
    ("type_", "low", "high", "lowest", "highest"),
    [
        ("bigint", "-5", "5", -5, 5),
        ("tinyint", "-128", "127", -128, 127),
        ("decimal(5,2)", "0.98", "1.02", Decimal("0.98"), Decimal("1.02")),
        ("date", "2024-05-01", "2024-05-03", dt.date(2024, 5, 1), dt.date(2024, 5, 3)),
        ("string", "8", "9", "8", "9"),
    ],
)
def test_uniform_values_reach_both_ends(type_: str, low: str, high: str, lowest: Any, highest: Any) -> None:
    numbers = values(type_, 5000, kind="uniform", min=low, max=high)
    assert (min(numbers), max(numbers)) == (lowest, highest)


def test_uniform_real_numbers_and_times_stay_inside() -> None:
    assert all(1.5 <= x < 2.5 for x in values("double", kind="uniform", min="1.5", max="2.5"))
    times = values("timestamp", kind="uniform", min="2024-05-01 12:00:00", max="2024-05-01T14:00:01+02:00")
    noon = dt.datetime(2024, 5, 1, 12, tzinfo=dt.UTC)
    assert all(noon <= x <= noon + dt.timedelta(seconds=1) for x in times) and len(set(times)) > 900


def test_uniform_means_equally_often() -> None:
    counts = Counter(values("bigint", 100_000, kind="random", min="0", max="9"))
    assert len(counts) == 10 and all(9_000 < count < 11_000 for count in counts.values())


def test_zipf_prefers_the_first_values() -> None:
    counts = Counter(values("string", 50_000, kind="zipf", max="100", exponent="1", prefix="k"))
    assert counts["k1"] / counts["k2"] == pytest.approx(2, rel=0.1)
    assert counts["k1"] / counts["k10"] == pytest.approx(10, rel=0.2)
    assert len(counts) == 100


def test_choices_have_weights_and_types() -> None:
    counts = Counter(values("string", 40_000, kind="choice", choices="a, b,c", weights="3,1,0"))
    assert set(counts) == {"a", "b"} and counts["a"] / counts["b"] == pytest.approx(3, rel=0.1)
    assert set(values("decimal(5,2)", kind="choice", choices="1.5,2")) == {Decimal("1.50"), Decimal("2.00")}
    assert set(values("boolean", kind="choice", choices="true")) == {True}
    assert set(values("date", kind="choice", choices="2024-05-01,")) == {dt.date(2024, 5, 1), None}
    assert set(values("timestamp_ntz", kind="choice", choices="2024-05-01")) == {dt.datetime(2024, 5, 1)}


def test_text_has_its_length() -> None:
    texts = values("string", length="30")
    assert {len(x) for x in texts} == {30} and len(set(texts)) == 1000
    assert {len(x) for x in values("binary", kind="text", length="7")} == {7}


def test_timestamps_step_and_come_out_of_order() -> None:
    start = dt.datetime(2024, 5, 1, tzinfo=dt.UTC)
    steady = values("timestamp", 3, start="2024-05-01", step="500ms")
    assert [x - start for x in steady] == [dt.timedelta(milliseconds=500 * i) for i in range(3)]
    late = values("timestamp", 1000, start="2024-05-01", step="1s", disorder="10s")
    behind = [start + dt.timedelta(seconds=i) - x for i, x in enumerate(late)]
    assert all(dt.timedelta() <= d <= dt.timedelta(seconds=10) for d in behind)
    assert max(behind) > dt.timedelta(seconds=9) and late != sorted(late)
    assert values("date", 3, start="2024-05-01", step="12h") == [dt.date(2024, 5, d) for d in (1, 1, 2)]


def test_timestamps_follow_the_rate_by_default() -> None:
    generator = plan((Column("x", "timestamp"),), rows_per_second="4")
    first, second = datagen.rows_between(generator, 0, 2).column("x").to_pylist()
    assert second - first == dt.timedelta(milliseconds=250)


def test_some_values_are_null() -> None:
    arrays = values("array<bigint>", 10_000, null_rate="0.25")
    assert arrays.count(None) == pytest.approx(2500, rel=0.1)
    assert values("bigint", 5, null_rate="1") == [None] * 5


def test_parts_of_structs_and_elements_of_arrays_have_options() -> None:
    type_ = "struct<a:bigint,b:struct<c:string>>"
    generator = plan(
        (Column("X", type_),),
        rows="1",
        **{"fields.x.a.kind": "sequence", "fields.x.B.c.kind": "choice", "fields.x.b.C.choices": "z"},
    )
    assert datagen.rows_between(generator, 0, 2).column("X").to_pylist() == [{"a": i, "b": {"c": "z"}} for i in (1, 2)]
    assert values("array<bigint>", 2, kind="sequence", elements="2") == [[1, 2], [3, 4]]


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (
            {"fields__y__kind": "sequence"},
            "UNKNOWN_OPTION: DATAGEN has no column y\n  hint: known columns: x",
        ),
        (
            {"fields__x__kind": "guess"},
            "INVALID_OPTION: option 'fields.x.kind' cannot be 'guess'\n"
            "  hint: expected one of uniform, sequence, zipf, choice for a BIGINT",
        ),
        (
            {"fields__x__max": "ten"},
            "INVALID_OPTION: option 'max' cannot be 'ten'\n"
            "  hint: expected a value of type BIGINT, not below the lower end",
        ),
        (
            {"fields__x__min": "5", "fields__x__max": "4"},
            "INVALID_OPTION: option 'max' cannot be '4'\n"
            "  hint: expected a value of type BIGINT, not below the lower end",
        ),
        (
            {"fields__x__length": "4"},
            "UNKNOWN_OPTION: fields.x has no option 'length'\n"
            "  detail: options of fields.x: kind, max, min, null_rate\n  hint: leave it out",
        ),
        (
            {"fields__x__kind": "choice"},
            "MISSING_OPTION: fields.x needs option 'choices'\n  hint: add choices = 'a,b,c'",
        ),
        (
            {"fields__x__kind": "choice", "fields__x__choices": "1,2", "fields__x__weights": "1"},
            "INVALID_OPTION: option 'weights' cannot be '1'\n  hint: expected 2 numbers, not all 0",
        ),
        (
            {"fields__x__null_rate": "2"},
            "INVALID_OPTION: option 'null_rate' cannot be '2'\n  hint: expected a number from 0 to 1",
        ),
        (
            {"rows_per_second": "0"},
            "INVALID_OPTION: option 'rows_per_second' cannot be '0'\n  hint: expected a whole number from 1",
        ),
        ({"format": "json"}, "UNKNOWN_FORMAT: DATAGEN has no formats\n  hint: leave FORMAT out"),
    ],
)
def test_invalid_options(options: dict[str, str], text: str) -> None:
    assert error_of((Column("x", "bigint"),), **options) == text


def test_columns_that_cannot_be_generated() -> None:
    assert error_of((Column("m", "map<string,int>"),)) == (
        "NOT_SUPPORTED: DATAGEN cannot make column m of type MAP<STRING,INT>\n"
        "  hint: leave the column out, or feed it by INSERT"
    )
    assert error_of((Column("x", "int", nullable=False),), fields__x__null_rate="0.5") == (
        "INVALID_OPTION: column x is NOT NULL, so it cannot have a null_rate\n  hint: leave out null_rate or NOT NULL"
    )


def test_option_names_of_other_systems_are_accepted() -> None:
    columns = (Column("x", "bigint"),)
    flink = plan(columns, **{"number-of-rows": "7", "rows-per-second": "3", "fields.x.kind": "random"})
    assert (flink.rows, flink.rows_per_second) == (7, 3)
    assert plan(columns, **{"datagen.rows.per.second": "3"}).rows_per_second == 3


def test_without_rows_it_is_endless_and_slow() -> None:
    source = registry.source("DATAGEN", "r", (Column("x", "bigint"),), [])
    assert isinstance(source, datagen.DatagenSource)
    assert not source.bounded and source.plan.rows_per_second == 10


class Clock:
    """The clock of a reader, moved by the test."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1_000_000
        monkeypatch.setattr(datagen, "_now_ms", lambda: self.now)

    def reader(self, hurry: bool = False, first: int = 0, **options: str) -> datagen.DatagenReader:
        return datagen.DatagenReader(plan((Column("x", "bigint"),), **options), first, hurry, tasks=2)


def latest(reader: datagen.DatagenReader, start: dict[str, int]) -> dict[str, int]:
    return reader.latestOffset(start, ReadAllAvailable())


def test_rows_are_generated_at_the_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    reader = clock.reader(rows_per_second="50")
    offset = latest(reader, reader.initialOffset())
    assert offset["row"] == 50
    clock.now += 999
    assert latest(reader, offset) == offset
    clock.now += 1
    assert latest(reader, offset)["row"] == 100
    clock.now += 2000
    assert latest(reader, offset)["row"] == 200


def test_downtime_is_not_made_up_for(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    reader = clock.reader(rows_per_second="50")
    offset = latest(reader, reader.initialOffset())
    clock.now += 3_600_000
    resumed = clock.reader(rows_per_second="50")
    assert latest(resumed, offset)["row"] == 100


def test_a_time_of_another_clock_is_one_before_the_reader_started(monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock counts from the start of the machine, and in older folders from 1970."""
    clock = Clock(monkeypatch)
    resumed = clock.reader(rows_per_second="50")
    assert latest(resumed, {"row": 50, "at": 1_700_000_000_000})["row"] == 100


def test_max_rows_per_step_delays_the_other_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    reader = clock.reader(rows_per_second="50", max_rows_per_step="30")
    offset = latest(reader, reader.initialOffset())
    assert offset["row"] == 30
    clock.now += 5000
    while (following := latest(reader, offset)) != offset:
        assert following["row"] - offset["row"] == 30
        offset = following
    assert offset["row"] == 270
    clock.now += 400
    assert latest(reader, offset)["row"] == 300


def test_a_pipeline_that_runs_once_does_not_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    reader = Clock(monkeypatch).reader(hurry=True, rows="120", rows_per_second="50")
    offset = latest(reader, reader.initialOffset())
    assert offset["row"] == 120 and latest(reader, offset) == offset


def test_an_endless_generator_ends_when_it_runs_for_available_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    reader = clock.reader(rows_per_second="50")
    reader.prepareForTriggerAvailableNow()
    clock.now += 60_000
    offset = latest(reader, reader.initialOffset())
    assert offset["row"] == 50 and latest(reader, offset) == offset


def test_partitions_cover_a_step() -> None:
    reader = datagen.DatagenReader(plan((Column("x", "bigint"),), rows="1"), 0, False, tasks=2)
    assert reader.partitions({"row": 3}, {"row": 10}) == [datagen.RowRange(3, 10)]
    halves = reader.partitions({"row": 0}, {"row": 100_001})
    assert halves == [datagen.RowRange(0, 50_000), datagen.RowRange(50_000, 100_001)]


def test_all_types_arrive_in_spark_as_generated(spark: SparkSession, tmp_path: Path) -> None:
    options = option_list(rows="70", max_rows_per_step="30", **{"fields.c4.null_rate": "0.5"})
    source = registry.source("DATAGEN", "r", ALL_TYPES, options)
    assert isinstance(source, datagen.DatagenSource)
    run = Run(spark, source, tmp_path)
    rows = good(run.step(), ALL_TYPES)
    table = datagen.rows_between(source.plan, 0, 70)
    assert [len(batch) for batch in run.batches] == [30, 30, 10]
    for i, column in enumerate(ALL_TYPES):
        expected = [_as_spark(value) for value in table.column(column.name).to_pylist()]
        assert [_as_spark(row[i]) for row in rows] == expected, column.type


def _as_spark(value: Any) -> Any:
    """A value of Arrow in the form in which Spark returns it."""
    if hasattr(value, "asDict"):
        value = value.asDict()
    if isinstance(value, dict):
        return {key: _as_spark(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_as_spark(item) for item in value]
    if isinstance(value, dt.datetime):
        return value.replace(tzinfo=None)
    return bytes(value) if isinstance(value, bytearray) else value
