"""What `tidegate run` shows while it runs: a live table on a terminal, log lines elsewhere, JSON for programs."""

from __future__ import annotations

import datetime as dt
import json
import sys
import time
from collections.abc import Mapping
from typing import Any, Protocol, Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from tidegate.core.render import json_value, text
from tidegate.core.tables import counted
from tidegate.errors import Error

Metrics = Mapping[str, Any]
QUIET_SECONDS = 2.0
INPUT_FIELDS = {"rows in": "rows_in", "rows/s": "rate"}
VIEW_FIELDS = {"rows": "rows", "changes": "rows_out", "changes/s": "rate"}


class Screen(Protocol):
    """A display of metrics."""

    def __enter__(self) -> Self: ...
    def __exit__(self, *_: object) -> None: ...
    def loading(self, tables: Mapping[str, float]) -> None: ...
    def update(self, metrics: Metrics) -> None: ...
    def restarting(self, problem: Error, seconds: float) -> None: ...
    def ending(self) -> None: ...
    def finish(self, metrics: Metrics) -> None: ...


class LiveScreen:
    """A table that is redrawn in place."""

    def __init__(self, title: str, console: Console) -> None:
        self.title = title
        self.started = time.monotonic()
        self.last: Metrics | None = None
        self.live = Live(Text("starting ..."), console=console, refresh_per_second=4, transient=False)

    def __enter__(self) -> Self:
        self.live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.live.stop()

    def loading(self, tables: Mapping[str, float]) -> None:
        self.live.update(Text(loading_line(tables)))

    def update(self, metrics: Metrics) -> None:
        self.last = metrics
        self.live.update(self._picture(metrics, "Ctrl-C ends it"))

    def restarting(self, problem: Error, seconds: float) -> None:
        self.live.console.print(restart_line(problem, seconds))

    def ending(self) -> None:
        if self.last is not None:
            self.live.update(self._picture(self.last, "ending after this step ..."), refresh=True)

    def finish(self, metrics: Metrics) -> None:
        self.live.update(self._picture(metrics, "ended"), refresh=True)

    def _picture(self, metrics: Metrics, foot: str) -> RenderableType:
        parts: list[RenderableType] = [self._head(metrics)]
        parts.append(_counters("input", INPUT_FIELDS, metrics["inputs"]))
        parts.append(_counters("view", VIEW_FIELDS, metrics["views"]))
        if metrics["watermarks"]:
            parts.append(_watermarks(metrics["watermarks"]))
        parts.append(_troubles(metrics, foot))
        return Group(*parts)

    def _head(self, metrics: Metrics) -> Text:
        seconds = int(time.monotonic() - self.started)
        head = Text(f"{self.title}", style="bold")
        head.append(f"   step {metrics['step']:,}   {metrics['steps_per_s']:.1f} steps/s   {seconds} s", style="dim")
        return head


class LogScreen:
    """A line per step, at most one every two seconds, and a last one."""

    def __init__(self) -> None:
        self.shown_step = -1
        self.shown_at = 0.0
        self.loaded = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def loading(self, tables: Mapping[str, float]) -> None:
        now, line = time.monotonic(), loading_line(tables)
        if line != self.loaded and now - self.shown_at >= QUIET_SECONDS:
            print(f"{dt.datetime.now():%H:%M:%S}  {line}", flush=True)
            self.loaded, self.shown_at = line, now

    def update(self, metrics: Metrics) -> None:
        now = time.monotonic()
        if metrics["step"] != self.shown_step and now - self.shown_at >= QUIET_SECONDS:
            self._print(metrics)
            self.shown_step, self.shown_at = metrics["step"], now

    def restarting(self, problem: Error, seconds: float) -> None:
        print(restart_line(problem, seconds), file=sys.stderr, flush=True)

    def ending(self) -> None:
        pass

    def finish(self, metrics: Metrics) -> None:
        if metrics["step"] != self.shown_step:
            self._print(metrics)

    def _print(self, metrics: Metrics) -> None:
        print(f"{dt.datetime.now():%H:%M:%S}  {log_line(metrics)}", flush=True)


class JsonScreen(LogScreen):
    """The metrics themselves, one JSON object per line."""

    def loading(self, tables: Mapping[str, float]) -> None:
        """Print nothing: the first metrics show that tables are loaded."""

    def _print(self, metrics: Metrics) -> None:
        print(json.dumps(json_value(dict(metrics))), flush=True)


def loading_line(tables: Mapping[str, float]) -> str:
    """`reading tables before the first row is joined: instruments 45 %`."""
    shares = ", ".join(f"{name} {share:.0%}" for name, share in tables.items())
    return f"reading tables before the first row is joined: {shares}"


def restart_line(problem: Error, seconds: float) -> str:
    """`12:00:10  PIPELINE_FAILED: the pipeline stopped: ...; starts again in 1 s`."""
    return f"{dt.datetime.now():%H:%M:%S}  {problem.code}: {problem.message}; starts again in {seconds:g} s"


def log_line(metrics: Metrics) -> str:
    """`step 12  in 5,000 rows  bids.ts 2024-05-01 12:00:10  revenue 8 rows  late 0  errors 0`."""
    rows_in = sum(each["rows_in"] for each in metrics["inputs"].values())
    watermarks = (f"{column} {value}" for column, value in _of_inputs(metrics).items())
    views = (f"{name} {counted(each['rows'], 'row')}" for name, each in metrics["views"].items())
    parts = [f"step {metrics['step']}", f"in {counted(rows_in, 'row')}", *watermarks, *views]
    return "  ".join([*parts, f"late {metrics['late']}", f"errors {metrics['errors']}"])


def _of_inputs(metrics: Metrics) -> dict[str, Any]:
    """Watermarks of sources and tables that have a value; those of views follow from them."""
    with_value = {column: value for column, value in metrics["watermarks"].items() if value is not None}
    return {column: value for column, value in with_value.items() if column.split(".")[0] in metrics["inputs"]}


def _counters(kind: str, fields: Mapping[str, str], rows: Mapping[str, Any]) -> Table:
    table = Table(box=None, header_style="dim", padding=(0, 2), pad_edge=False)
    table.add_column(kind, min_width=24)
    for head in fields:
        table.add_column(head, justify="right", min_width=12)
    for name, each in rows.items():
        table.add_row(name, *(f"{each[field]:,.0f}" if each[field] is not None else "-" for field in fields.values()))
    return table


def _watermarks(watermarks: Mapping[str, Any]) -> Table:
    table = Table(box=None, header_style="dim", padding=(0, 2), pad_edge=False)
    table.add_column("watermark", min_width=24)
    table.add_column("at")
    for column, value in watermarks.items():
        table.add_row(column, text(value))
    return table


def _troubles(metrics: Metrics, foot: str) -> Text:
    line = Text(f"late {metrics['late']:,}", style="yellow" if metrics["late"] else "dim")
    line.append(f"   errors {metrics['errors']:,}", style="red" if metrics["errors"] else "dim")
    return line.append(f"   {foot}", style="dim")
