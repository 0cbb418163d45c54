"""Late rows of a source are recognised among its rows, whatever types they have."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from tidegate.core.columns import WEIGHT
from tidegate.core.zset import frame_of
from tidegate.runtime.contents import without_late
from tidegate.spark import codec
from tidegate.storage.step_header import late_rows

VALUES: list[tuple[pa.DataType, Any, Any]] = [
    (pa.int64(), 1, 2),
    (pa.float64(), float("nan"), 1.0),
    (pa.string(), 'a\n"b"', ""),
    (pa.binary(), b"\x00\xff", b""),
    (pa.bool_(), True, None),
    (pa.decimal128(10, 2), Decimal("1.10"), Decimal("1.00")),
    (pa.date32(), dt.date(2024, 5, 1), None),
    (pa.timestamp("us", "UTC"), dt.datetime(2024, 5, 1, 0, 0, 0, 5, dt.UTC), dt.datetime(1969, 1, 1, tzinfo=dt.UTC)),
    (pa.timestamp("us"), dt.datetime(2024, 5, 1), None),
    (pa.duration("us"), dt.timedelta(seconds=1), None),
    (pa.list_(pa.int64()), [1, None], []),
    (pa.struct([("x", pa.int64()), ("y", pa.string())]), {"x": 1, "y": None}, None),
    (pa.map_(pa.string(), pa.int64()), [("a", 1), ("b", None)], []),
    (pa.list_(pa.map_(pa.string(), pa.int64())), [[("a", 1)], []], [[]]),
]


@pytest.mark.parametrize(("type_", "late", "other"), VALUES, ids=[str(type_) for type_, _, _ in VALUES])
def test_late_rows_are_removed_as_often_as_they_were_late(type_: pa.DataType, late: Any, other: Any) -> None:
    rows = pa.table({"v": pa.array([late, other, late, late], type_), "n": [1, 2, 1, 1]})
    late_frame = codec.decode(codec.encode(frame_of(rows.slice(0, 1).append_column(WEIGHT, [[2]]))))
    counts = Counter(each.row for each in late_rows(late_frame, "s", (), "ts", None))
    assert without_late(rows, counts).column("n").to_pylist() == [2, 1]
    assert counts.total() == 0
