"""A pipeline and its history as a spec file, with what the simulator says after every step."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from tests.differential.marks import Mark
from tests.differential.pipeline import Beat, Change, Pipeline, Step
from tests.differential.simulator import Outcome, Simulator

TIMES = ("ts", "ws", "we", "t", "d")


def spec_of(pipeline: Pipeline, beats: Sequence[Beat]) -> str:
    """A spec file cannot move the clock together with rows: a comment says where that is meant."""
    model = Simulator(pipeline)
    lines = ["# A random pipeline.", "", "sql", *(f"  {line}" for line in pipeline.sql.splitlines())]
    for beat, step in zip(beats, pipeline.steps, strict=True):
        lines += ["", *_begun(beat, step), *_expected(model, model.step(step, beat))]
    return "\n".join(lines) + "\n"


def _begun(beat: Beat, step: Step) -> Iterator[str]:
    if beat.restart:
        yield from ("restart", "")
    written = step.changes or step.advances
    if written and beat.clock:
        yield f"# these rows and clock +{beat.clock}s are one step"
    if written or not (beat.clock or beat.end):
        yield "step"
    for change in step.changes:
        yield from (f"> {change.relation}", f"  {_written(change)}")
    for relation, column, value in step.advances:
        yield f"advance {relation}.{column} {_time(value)}"
    if beat.clock:
        yield f"clock +{beat.clock}s"
    if beat.end:
        yield "end"


def _expected(model: Simulator, outcome: Outcome) -> Iterator[str]:
    for name, view in model.views.items():
        yield f"= {name}"
        for row, weight in outcome.contents[name].items():
            values = [_value(value, _is_time(column)) for column, value in zip(view.columns, row, strict=True)]
            yield from [f"  {' | '.join(values)}"] * weight
    for name, marks in outcome.marks.items():
        yield from (f"watermark {name}.{column} {_mark(mark)}" for column, mark in marks.items())
    for (relation, view_, op), count in outcome.late.items():
        yield f"# late rows of {relation} in {view_ or 'its LATENESS'}: {count} {op}"


def _written(change: Change) -> str:
    if change.action == "DELETE" and len(change.row) == 4:
        return f"{change.row[0]} !"
    *others, time = change.row
    text = " | ".join([*(_value(value, False) for value in others), _value(time, True)])
    return f"- {text}" if change.action == "DELETE" else text


def _is_time(column: str) -> bool:
    """Columns of times are named after what they hold, behind the sides of a join and before numbers."""
    return column.split("_")[-1].rstrip("0123456789") in TIMES


def _value(value: Any, time: bool) -> str:
    if value is None:
        return "NULL"
    return _time(value) if time else str(value)


def _time(seconds: float) -> str:
    return str(datetime.fromtimestamp(0, UTC).replace(tzinfo=None) + timedelta(seconds=seconds))


def _mark(mark: Mark) -> str:
    return _time(mark) if isinstance(mark, float | int) and abs(mark) != float("inf") else "none"
