"""`INTO FILE`: every line exactly once, also after a kill, in files that are rotated."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tidegate.catalog.bus import BUS, EVENTS
from tidegate.connectors.contract import SinkContext, SinkSpec
from tidegate.connectors.file import sink as file_sink
from tidegate.connectors.file.sink import FileSink
from tidegate.core.options import Bag
from tidegate.core.schema import Column, Schema
from tidegate.core.types import arrow_schema
from tidegate.errors import Error
from tidegate.formats.events import Event, rows_of

VIEW: Schema = (Column("item", "string"), Column("total", "bigint"))


def changes(step: int, *rows: tuple[str, int, Any, Any]) -> pa.Table:
    """The rows (op, weight, item, total) of a step, as a sink receives them."""
    ops, weights, items, totals = (list(column) for column in zip(*rows, strict=True)) if rows else ([], [], [], [])
    schema = pa.schema([("op", pa.string()), ("weight", pa.int64()), ("step", pa.int64()), *arrow_schema(VIEW)])
    return pa.table([ops, weights, [step] * len(rows), items, totals], schema=schema)


def one(step: int) -> pa.Table:
    return changes(step, ("+I", 1, "pen", step))


def build_sink(
    path: Path, columns: Schema = VIEW, reads: str = "totals", format: str | None = None, **options: str
) -> FileSink:
    bag = Bag("FILE", [("path", str(path), None), *((name, value, None) for name, value in options.items())])
    sink = FileSink.build(SinkSpec("FILE", "out", columns, options, format, reads=reads), bag)
    bag.finish()
    return sink


def open_sink(path: Path, owner: str = "pipeline 1", **options: str) -> FileSink:
    sink = build_sink(path, **options)
    sink.open(SinkContext("out", path.parent / "own", owner))
    return sink


def totals(path: Path) -> list[int]:
    """The totals in the lines of a file: one per step in most tests."""
    return [json.loads(line)["row"]["total"] for line in path.read_text().splitlines()]


def test_a_line_has_step_op_weight_and_row(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "out.jsonl"
    sink = open_sink(path)
    assert sink.abilities.accepts == "changelog"
    sink.write(3, changes(3, ("-U", -1, "pen", 5), ("+U", 1, "pen", None)))
    assert path.read_text() == (
        '{"step":3,"op":"-U","weight":-1,"row":{"item":"pen","total":5}}\n'
        '{"step":3,"op":"+U","weight":1,"row":{"item":"pen","total":null}}\n'
    )


def test_format_ops_writes_readable_lines(tmp_path: Path) -> None:
    path = tmp_path / "out.txt"
    open_sink(path, format="ops").write(3, changes(3, ("-D", -2, "pen", 5)))
    assert path.read_text() == "     3  -D  pen | 5  x2\n"


def test_events_are_written_without_an_envelope(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    sink = open_sink(path, columns=EVENTS.columns, reads=BUS)
    events = rows_of([Event("1", "pgcdc:orders", "INSERT", '{"row":{"id":7}}', "shop", 1_714_564_803_250_000)])
    head = {"op": ["+I"], "weight": [1], "step": [4]}
    sink.write(4, pa.table([*head.values(), *events.columns], names=[*head, *events.column_names]))
    assert path.read_text() == (
        '{"id":"1","channel":"pgcdc:orders","operation":"INSERT","payload":{"row":{"id":7}},"source":"shop",'
        '"created_at":"2024-05-01T12:00:03.25Z","transaction":null}\n'
    )


def test_a_partly_written_step_is_truncated_after_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "out.jsonl"
    open_sink(path).write(1, one(1))
    with path.open("a") as file:
        file.write('{"step":2,"op":"+I","wei')
    again = open_sink(path)
    assert again.last_step() == 1 and totals(path) == [1]
    again.write(2, one(2))
    assert totals(path) == [1, 2]


def test_a_step_cut_short_by_a_full_disk_is_truncated_by_the_next_attempt(tmp_path: Path) -> None:
    path = tmp_path / "out.jsonl"
    sink = open_sink(path)
    sink.write(1, one(1))
    with path.open("a") as file:
        file.write("half a li")
    sink.write(2, one(2))
    assert totals(path) == [1, 2]


def test_a_file_is_rotated_before_it_exceeds_max_size(tmp_path: Path) -> None:
    path = tmp_path / "out.jsonl"
    sink = open_sink(path, max_size="150", keep="2")
    for step in range(1, 9):
        sink.write(step, one(step))
    totals_by_file = {file.name: totals(file) for file in tmp_path.glob("out.jsonl*")}
    assert totals_by_file == {"out.jsonl": [7, 8], "out.jsonl.1": [5, 6], "out.jsonl.2": [3, 4]}
    assert all(file.stat().st_size <= 150 for file in tmp_path.glob("out.jsonl*"))


def test_a_step_larger_than_max_size_has_its_own_file(tmp_path: Path) -> None:
    path = tmp_path / "out.jsonl"
    sink = open_sink(path, max_size="10")
    sink.write(1, one(1))
    sink.write(2, one(2))
    assert (totals(path), totals(tmp_path / "out.jsonl.1")) == ([2], [1])


def test_keep_0_keeps_no_rotated_files(tmp_path: Path) -> None:
    path = tmp_path / "out.jsonl"
    sink = open_sink(path, max_size="10", keep="0")
    sink.write(1, one(1))
    sink.write(2, one(2))
    assert [file.name for file in tmp_path.glob("out*")] == ["out.jsonl"] and totals(path) == [2]


def test_a_file_is_rotated_by_age(tmp_path: Path) -> None:
    path = tmp_path / "out.jsonl"
    clock = [1000.0]
    sink = open_sink(path, rotate_every="1h")
    sink.now = lambda: clock[0]
    for step, time in ((1, 1000.0), (2, 4599.0), (3, 4600.0)):
        clock[0] = time
        sink.write(step, one(step))
    assert (totals(tmp_path / "out.jsonl.1"), totals(path)) == ([1, 2], [3])


def test_the_age_of_a_file_counts_from_now_if_the_clock_is_set_back(tmp_path: Path) -> None:
    path = tmp_path / "out.jsonl"
    clock = [100_000.0]
    sink = open_sink(path, rotate_every="1h")
    sink.now = lambda: clock[0]
    for step, time in ((1, 100_000.0), (2, 1000.0), (3, 4599.0), (4, 4600.0)):
        clock[0] = time
        sink.write(step, one(step))
    assert (totals(tmp_path / "out.jsonl.1"), totals(path)) == ([1, 2, 3], [4])


@pytest.mark.parametrize("moves", range(1, 4))
def test_an_interrupted_rotation_is_finished(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moves: int) -> None:
    """Four files hold a step each; the fifth step is interrupted after `moves` of them were renamed."""
    path = tmp_path / "out.jsonl"
    sink = open_sink(path, max_size="10", keep="3")
    for step in range(1, 5):
        sink.write(step, one(step))
    renamed: list[str] = []

    def replace(old: Path, new: Path, really: Any = os.replace) -> None:
        really(old, new)
        renamed.extend([old.name] if old.name.startswith("out.jsonl") else [])
        if len(renamed) == moves:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(file_sink.os, "replace", replace)
        sink.write(5, one(5))
    again = open_sink(path, max_size="10", keep="3")
    again.write(5, one(5))
    again.write(6, one(6))
    totals_by_file = {file.name: totals(file) for file in tmp_path.glob("out.jsonl*")}
    assert totals_by_file == {"out.jsonl": [6], "out.jsonl.1": [5], "out.jsonl.2": [4], "out.jsonl.3": [3]}


WRITER = """
import sys
from pathlib import Path
from tests.connectors.test_file_sink import one, open_sink
sink = open_sink(Path(sys.argv[1]), max_size="2000", keep="1000")
print("ready", flush=True)
for step in range((sink.last_step() or 0) + 1, 100_000):
    sink.write(step, one(step))
    print(step, flush=True)
"""


def test_a_kill_at_any_moment_neither_loses_nor_repeats_a_line(tmp_path: Path) -> None:
    path = tmp_path / "out.jsonl"
    for life in range(4):
        command = [sys.executable, "-c", WRITER, str(path)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2]) as process:
            assert process.stdout is not None and process.stdout.readline() == "ready\n"
            for _ in range(40 + 17 * life):
                process.stdout.readline()
            os.kill(process.pid, signal.SIGKILL)
    last = open_sink(path, max_size="2000", keep="1000").last_step()
    files = sorted(tmp_path.glob("out.jsonl.*"), key=lambda file: -int(file.suffix[1:]))
    assert len(files) > 4
    assert [total for file in [*files, path] for total in totals(file)] == list(range(1, (last or 0) + 1))


def test_a_file_of_another_sink_is_rejected(tmp_path: Path) -> None:
    path = tmp_path / "out.jsonl"
    open_sink(path).write(1, one(1))
    with pytest.raises(Error) as caught:
        open_sink(path, owner="pipeline 2")
    assert str(caught.value) == (
        f"INVALID_OPTION: {path} exists already and was not written by this sink\n"
        "  hint: choose another path, or move the file away"
    )
    path.rename(tmp_path / "moved")
    other = open_sink(path, owner="pipeline 2")
    assert other.last_step() is None
    other.write(1, one(9))
    assert totals(path) == [9]


def test_a_file_that_was_removed_is_created_again(tmp_path: Path) -> None:
    path = tmp_path / "out.jsonl"
    sink = open_sink(path)
    sink.write(1, one(1))
    path.unlink()
    sink.write(2, one(2))
    assert totals(path) == [2] and file_sink.read_record(path) == file_sink.Record(
        "pipeline 1", 2, path.stat().st_size, sink._record.since if sink._record else 0.0
    )


def test_a_folder_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(Error) as caught:
        build_sink(tmp_path)
    assert str(caught.value) == (
        f"INVALID_OPTION: {tmp_path} is a folder, and FILE writes one file\n"
        f"  hint: write path = '{tmp_path}/events.jsonl', or INTO FILES for a file per step"
    )


@pytest.mark.parametrize(
    ("option", "value", "hint"),
    [
        ("max_size", "0", "expected a size such as '100mb'"),
        ("rotate_every", "0s", "expected a duration above zero, such as '10s', '5 min' or '1h30m'"),
        ("keep", "-1", "expected a whole number from 0"),
    ],
)
def test_invalid_option_values(tmp_path: Path, option: str, value: str, hint: str) -> None:
    with pytest.raises(Error) as caught:
        build_sink(tmp_path / "out", **{option: value})
    assert str(caught.value) == f"INVALID_OPTION: option '{option}' cannot be '{value}'\n  hint: {hint}"
