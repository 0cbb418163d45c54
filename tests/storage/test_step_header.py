"""The typed header of a step: what it counts, and what its parser rejects."""

from dataclasses import replace
from typing import Any

import polars as pl
import pytest

from tidegate.core.records import Malformed
from tidegate.storage.step_header import ChangeFile, Changes, LateFile, LateRow, RejectedRow, StepHeader, late_rows

LATE = LateRow("s", "v", "+I", "ts", '{"k": 1}', "2024-01-01 00:00:00")
HEADER = StepHeader(
    step=7,
    started=1.5,
    millis=2.0,
    time_us=3,
    entry=4,
    rows_in={"s": 10},
    watermarks={"s.ts": "2024-01-01 00:00:00"},
    progress={"seen": {"s.ts": 5}},
    errors=(RejectedRow("s", "NULL_TIME", "ts is NULL", "{}"),),
    late=(LATE, replace(LATE, view=None)),
    late_files=(LateFile("blob", 300_000, "s", ("v", "w"), "ts", None), LateFile("other", 5, "s", (), "ts", None)),
    changes=(Changes("v", 3, 1), Changes("w", 2, 2)),
    files=(ChangeFile("v", 100, 90, "a"), ChangeFile("v", 10, -5, "b")),
)


def test_late_rows_kept_by_file_are_counted() -> None:
    assert HEADER.late_relations() == {"s"}
    assert HEADER.late_per_relation() == {"v": 150_001, "w": 150_000, "s": 6}


def test_changes_in_files_are_counted() -> None:
    assert HEADER.changes_per_relation() == {"v": (113, 86), "w": (2, 2)}
    assert (HEADER.changed("w"), HEADER.changed("unknown")) == ((2, 2), (0, 0))


def test_all_files_of_a_step_are_named() -> None:
    assert HEADER.blobs() == ("a", "b", "blob", "other")


def test_a_late_row_is_recorded_once_per_view_and_occurrence() -> None:
    rows = pl.DataFrame({"k": [1, 2], "__w": [2, -1]})
    recorded = [(row.view, row.op, row.row) for row in late_rows(rows, "s", ("v", "w"), "ts", None)]
    assert recorded == [("v", "+I", '{"k":1}'), ("w", "+I", '{"k":1}')] * 2 + [
        ("v", "-D", '{"k":2}'),
        ("w", "-D", '{"k":2}'),
    ]
    assert [row.view for row in late_rows(rows, "s", (), "ts", None)] == [None, None, None]


def test_a_header_is_the_same_after_json() -> None:
    assert StepHeader.from_json(HEADER.to_json()) == HEADER


@pytest.mark.parametrize("field", sorted(HEADER.to_json()))
def test_a_missing_field_is_rejected(field: str) -> None:
    document = HEADER.to_json()
    del document[field]
    with pytest.raises(Malformed, match=f"field {field} is missing"):
        StepHeader.from_json(document)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"extra": 1}, "unknown field extra"),
        ({"step": "7"}, "step: expected int"),
        ({"step": True}, "step: expected int"),
        ({"rows_in": {"s": 1.5}}, "rows_in.s: expected int"),
        ({"rows_in": []}, "rows_in: expected an object"),
        ({"errors": [["s", "X"]]}, "expected a list of 4"),
        ({"changes": [{"relation": "v", "rows": 1}]}, "field net is missing"),
        ({"watermarks": {"s.ts": None}}, "expected str"),
    ],
)
def test_a_document_of_another_shape_is_rejected(change: dict[str, Any], problem: str) -> None:
    with pytest.raises(Malformed, match=problem):
        StepHeader.from_json({**HEADER.to_json(), **change})
