"""Rows that workers read themselves are assigned to the same buckets as rows hashed by Spark."""

import datetime as dt
import random

import polars as pl
import pytest

from tidegate.spark.xxhash64 import SUPPORTED, hashes

VALUES = {
    "boolean": [True, False],
    "tinyint": [0, 1, -1, 127, -128],
    "smallint": [0, 1, -1, 32767, -32768],
    "int": [0, 1, -1, 2**31 - 1, -(2**31)],
    "bigint": [0, 1, -1, 2**63 - 1, -(2**63), 12345678901234],
    "date": [dt.date(1970, 1, 1), dt.date(1, 1, 1), dt.date(9999, 12, 31), dt.date(2024, 2, 29)],
    "timestamp": [dt.datetime(1970, 1, 1, tzinfo=dt.UTC), dt.datetime(1901, 3, 4, 5, 6, 7, 8, tzinfo=dt.UTC)],
    "timestamp_ntz": [dt.datetime(1970, 1, 1), dt.datetime(2024, 2, 29, 23, 59, 59, 999999)],
    "double": [0.0, -0.0, 1.5, -1.5, float("inf"), float("nan"), 1e-300],
    "string": ["", "a", "ünïcödé", "x" * 31, "y" * 32, "z" * 100, "\U0001f600"],
}


def test_every_supported_type_is_tested():
    assert VALUES.keys() == SUPPORTED


@pytest.mark.parametrize("nulls", [False, True])
def test_hashes_equal_those_of_spark(spark, nulls):
    generator = random.Random(7)
    names = list(VALUES)
    rows = [
        [None if nulls and generator.random() < 0.3 else generator.choice(VALUES[name]) for name in names]
        for _ in range(200)
    ]
    schema = ", ".join(f"c{place} {name}" for place, name in enumerate(names))
    frame = spark.createDataFrame(rows, schema)
    columns = [(f"c{place}", name) for place, name in enumerate(names)]
    keys = [[column] for column in columns] + [columns, columns[::-1], columns[3:6]]
    items = [f"xxhash64({', '.join(name for name, _ in each)}) AS h{n}" for n, each in enumerate(keys)]
    table = pl.from_arrow(frame.selectExpr("*", *items).toArrow())
    for number, each in enumerate(keys):
        assert hashes(table, each).to_list() == table[f"h{number}"].to_list(), each
