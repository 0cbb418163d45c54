"""`tidegate run`: apply the statements of files, run the pipeline, show its metrics."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from tidegate.cli.opening import open_database, read_script, status_line
from tidegate.cli.restarts import RestartPolicy, Restarts
from tidegate.core.tables import counted, text_table

if TYPE_CHECKING:
    from types import FrameType

    from tidegate import Database
    from tidegate.cli.screen import Screen

REFRESH_SECONDS = 0.25
SHOWN_ROWS = 20


def run_pipeline(
    files: Sequence[Path],
    *,
    data: Path | None,
    once: bool,
    master: str | None,
    show: bool,
    skip_poison: bool,
    restart: RestartPolicy,
    as_json: bool,
) -> None:
    """Run the pipeline of the files in its folder until its inputs end (`once`) or a signal arrives."""
    folder = data or Path(files[0].stem)
    scripts = [(read_script(path), path.name) for path in files]
    check_data_folder(folder)
    with open_database(folder, master=master, skip_poison=skip_poison) as db:
        with status_line("reading the definitions ..."):
            declare(db, scripts)
        with _screen(folder.name, as_json) as screen, stop_on_signal() as ended:
            _run_restarting(db, screen, ended, once, restart)
        if show:
            show_views(db)


def check_data_folder(folder: Path) -> None:
    """Raise if the folder contains other files: it should not become a data folder by accident."""
    from tidegate.storage.folder import Folder

    if folder.is_dir() and any(folder.iterdir()) and not Folder(folder).exists():
        from tidegate.errors import OptionError

        raise OptionError(
            "INVALID_OPTION", f"{folder} has other files in it", hint="name a folder for the pipeline: --data DIR"
        )


def declare(db: Database, scripts: Sequence[tuple[str, str]]) -> None:
    """Apply the statements that the folder does not have yet, and print their warnings."""
    from tidegate.errors import render

    for text, origin in scripts:
        for warning in db.run_script(text, origin).warnings:
            print(f"warning {render(warning)}", file=sys.stderr)


@contextmanager
def stop_on_signal() -> Iterator[threading.Event]:
    """An event that Ctrl-C or SIGTERM sets. A second Ctrl-C interrupts at once."""
    ended = threading.Event()

    def end(number: int, frame: FrameType | None) -> None:
        if ended.is_set():
            raise KeyboardInterrupt
        ended.set()

    before = {number: signal.signal(number, end) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield ended
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def show_views(db: Database) -> None:
    """Print the first rows of every materialized view, and how many there are."""
    for name, counters in db.metrics()["views"].items():
        result = db.query(f"SELECT * FROM `{name}` LIMIT {SHOWN_ROWS}")
        more = f": {SHOWN_ROWS} of {counted(counters['rows'], 'row')}" if counters["rows"] > SHOWN_ROWS else ""
        print(f"\n{name}{more}\n{text_table(result.arrow())}")


def _run_restarting(db: Database, screen: Screen, ended: threading.Event, once: bool, policy: RestartPolicy) -> None:
    """Run, and start again after failures that can pass. One before the first start is final: it is a mistake in the
    definitions, or a server that was never there."""
    from tidegate.errors import Error

    restarts, started = Restarts(policy, db.metrics()["step"]), threading.Event()
    while True:
        try:
            return _run_until_stopped(db, screen, ended, once, started)
        except Error as problem:
            delay = restarts.delay_after(problem, db.metrics()["step"]) if started.is_set() else None
            if delay is None:
                raise
            screen.restarting(problem, delay)
        if ended.wait(delay):
            return None


def _run_until_stopped(
    db: Database, screen: Screen, ended: threading.Event, once: bool, started: threading.Event
) -> None:
    work = _Background(db.run_once) if once else None
    if work is None:
        db.start(lambda tables: db.stop() if ended.is_set() else screen.loading(tables))
        started.set()
    first = db.metrics()["step"]
    while not ended.wait(REFRESH_SECONDS):
        metrics = db.metrics()
        screen.update(metrics)
        if metrics["step"] > first:
            started.set()
        if work.done() if work else not db.wait(timeout=0):
            break
    screen.ending()
    db.stop()
    if work:
        work.result()
    screen.finish(db.metrics())


def _screen(title: str, as_json: bool) -> Screen:
    from rich.console import Console

    from tidegate.cli.screen import JsonScreen, LiveScreen, LogScreen

    if as_json:
        return JsonScreen()
    console = Console()
    return LiveScreen(title, console) if console.is_terminal else LogScreen()


class _Background:
    """A call in its own thread, so that the main thread can draw and handle signals."""

    def __init__(self, call: Callable[[], object]) -> None:
        self.problem: BaseException | None = None
        self.thread = threading.Thread(target=self._run, args=(call,), daemon=True)
        self.thread.start()

    def _run(self, call: Callable[[], object]) -> None:
        try:
            call()
        except BaseException as problem:
            self.problem = problem

    def done(self) -> bool:
        return not self.thread.is_alive()

    def result(self) -> None:
        """Wait for the end of the call, and raise what it raised."""
        self.thread.join()
        if self.problem is not None:
            raise self.problem
