"""Run `tidegate listen`: apply the configuration and follow its sources."""

from __future__ import annotations

import hashlib
import json
import os
import re
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from tidegate.cli.listening.config import Config, Endpoint
from tidegate.cli.listening.declaring import declare
from tidegate.cli.listening.merging import CONNECTION
from tidegate.cli.listening.notice import notice, notice_lines
from tidegate.cli.listening.page import metrics_page
from tidegate.cli.listening.statements import Definition
from tidegate.cli.opening import open_database, status_line
from tidegate.cli.run import check_data_folder, stop_on_signal
from tidegate.core.secrets import hide_known, is_secret, masked
from tidegate.database import runtime_of
from tidegate.errors import make

if TYPE_CHECKING:
    from tidegate import Database

LOOK_SECONDS = 0.25


def listen_to(config: Config, statements: Sequence[Definition], *, once: bool, as_json: bool) -> None:
    """Run the pipeline of a configuration until a signal arrives, or (`once`) until available input is processed."""
    folder = None if config.temporary else config.data or default_folder(config)
    if folder is not None:
        check_data_folder(folder)
    with metrics_page(config) as page, open_database(folder, master=config.master) as db:
        with report_unreachable():
            _declare(db, statements)
        with page.serving(db), stop_on_signal() as ended:
            if once:
                with report_unreachable():
                    catch_up(db, ended)
            else:
                _follow(db, ended, partial(_print_notice, config, folder, page.address, as_json))


@contextmanager
def report_unreachable() -> Iterator[None]:
    """Raise PIPELINE_FAILED if a server cannot be reached: it is not retried for DROP, nor with `once`."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as problem:
        raise make("PIPELINE_FAILED", message=str(problem), hint="try again when it is there") from problem


def default_folder(config: Config) -> Path:
    """The data folder for these sources and this file, among the user's state."""
    state = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state")
    file = "" if config.file is None else str(config.file.absolute())
    identity = "\n".join([file, *sorted(map(_identity, config.sources))])
    digest = hashlib.sha256(identity.encode()).hexdigest()[:10]
    return state / "tidegate" / "listen" / f"{_title(config.sources[0])}-{digest}"


def _identity(source: Endpoint) -> str:
    """The address of a source, without parts that may change: tables and passwords."""
    address = (*CONNECTION, "bootstrap_servers", "topic")
    options = [each for each in source.settings if each.key in address and not is_secret(each.key)]
    return " ".join([source.name, *(f"{each.key}={masked(each.key, each.value)}" for each in options)])


def _title(source: Endpoint) -> str:
    """The name of the database, else of the source."""
    match = re.search(r"://[^/]*/([\w\-]+)", source.get("url") or "")
    return match[1] if match else source.get("database") or source.name


def _declare(db: Database, statements: Sequence[Definition]) -> None:
    with status_line("reading the definitions ..."):
        notes = declare(db, statements)
    for note in notes:
        print(note, file=sys.stderr, flush=True)


def catch_up(db: Database, ended: threading.Event) -> None:
    """Process available input, and wait for sinks that retry."""
    _unless_ended(db.step, db, ended)
    while runtime_of(db).sinks.retrying() and not ended.wait(LOOK_SECONDS):
        pass
    db.stop()
    if ended.is_set():
        _report_lag(db)
    else:
        _check_delivered(db)


def _check_delivered(db: Database) -> None:
    for sink, reason in runtime_of(db).sinks.failures.items():
        message = f"sink {sink} did not receive everything: {reason}"
        raise make("PIPELINE_FAILED", message=message, hint="the same command resumes from there")


def _report_lag(db: Database) -> None:
    """Print which sinks are behind. Nothing is lost: the next run continues there."""
    for sink, steps in runtime_of(db).sinks.behind().items():
        if steps:
            print(f"sink {sink} is behind: the next run continues there", file=sys.stderr, flush=True)


def _follow(db: Database, ended: threading.Event, print_notice: Callable[[], None]) -> None:
    prepare(db, ended)
    if not ended.is_set():
        with status_line("starting the pipeline ..."):
            db.start(lambda tables: db.stop() if ended.is_set() else None)
        print_notice()
    while not ended.wait(LOOK_SECONDS) and db.wait(timeout=0):
        pass
    db.stop()
    _report_lag(db)


def prepare(db: Database, ended: threading.Event) -> None:
    """Catch up with the sources before the notice is printed: no change after the notice is missed. A server that
    cannot be reached is retried later."""
    try:
        with status_line("processing available input ..."):
            _unless_ended(runtime_of(db).captures.catch_up, db, ended)
    except OSError as problem:
        print(f"{hide_known(str(problem))}: retrying", file=sys.stderr, flush=True)


def _unless_ended(call: Callable[[], object], db: Database, ended: threading.Event) -> None:
    """Wait for a call; stop the pipeline if a signal arrives first."""
    with ThreadPoolExecutor(1) as pool:
        work = pool.submit(call)
        while not work.done() and not ended.wait(LOOK_SECONDS):
            pass
        if not work.done():
            db.stop()
            with runtime_of(db).sinks.time_limit():
                wait([work])
        work.result()


def _print_notice(config: Config, folder: Path | None, page: str | None, as_json: bool) -> None:
    """Print the notice on stderr: stdout is for events."""
    if as_json:
        print(json.dumps({"listening": notice(config, folder, page)}), file=sys.stderr, flush=True)
    else:
        print("\n".join(notice_lines(config, folder, page)), file=sys.stderr, flush=True)
