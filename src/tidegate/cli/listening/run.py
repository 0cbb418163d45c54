"""`tidegate listen` at work."""

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
from tidegate.cli.opening import opened, told
from tidegate.cli.run import ended_by_signal, refuse_foreign
from tidegate.core.secrets import is_secret, masked
from tidegate.database import runtime_of
from tidegate.errors import make

if TYPE_CHECKING:
    from tidegate import Database

LOOK_SECONDS = 0.25


def listen_to(config: Config, found: Sequence[Definition], *, once: bool, as_json: bool) -> None:
    """Runs the pipeline of a config until someone ends it, or (`once`) until all that is there has been taken in."""
    folder = None if config.temporary else config.data or default_folder(config)
    if folder is not None:
        refuse_foreign(folder)
    with metrics_page(config) as page, opened(folder, master=config.master) as db:
        with told_when_away():
            _declare(db, found)
        with page.about(db), ended_by_signal() as ended:
            if once:
                with told_when_away():
                    catch_up(db, ended)
            else:
                _follow(db, ended, partial(_say, config, folder, page.address, as_json))


@contextmanager
def told_when_away() -> Iterator[None]:
    """A server that cannot be reached is tried again while it runs, but not to drop a source, nor with `once`."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as problem:
        raise make("PIPELINE_FAILED", message=str(problem), hint="try again when it is there") from problem


def default_folder(config: Config) -> Path:
    """A folder of the user's state that belongs to what is listened to, and to the file that says so."""
    state = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state")
    file = "" if config.file is None else str(config.file.absolute())
    known = "\n".join([file, *sorted(map(_identity, config.sources))])
    digest = hashlib.sha256(known.encode()).hexdigest()[:10]
    return state / "tidegate" / "listen" / f"{_title(config.sources[0])}-{digest}"


def _identity(source: Endpoint) -> str:
    """Where a source is. Tables come and go, and passwords change."""
    places = (*CONNECTION, "bootstrap_servers", "topic")
    said = [each for each in source.settings if each.key in places and not is_secret(each.key)]
    return " ".join([source.name, *(f"{each.key}={masked(each.key, each.value)}" for each in said)])


def _title(source: Endpoint) -> str:
    """The name of the database, else of the source."""
    found = re.search(r"://[^/]*/([\w\-]+)", source.get("url") or "")
    return found[1] if found else source.get("database") or source.name


def _declare(db: Database, found: Sequence[Definition]) -> None:
    with told("reading the definitions ..."):
        notes = declare(db, found)
    for note in notes:
        print(note, file=sys.stderr, flush=True)


def catch_up(db: Database, ended: threading.Event) -> None:
    """What a sink tries again, and will be through with sooner or later, is waited for."""
    _unless_ended(db.step, db, ended)
    while runtime_of(db).sinks.retrying() and not ended.wait(LOOK_SECONDS):
        pass
    db.stop()
    if ended.is_set():
        _say_who_lags(db)
    else:
        _refuse_undelivered(db)


def _refuse_undelivered(db: Database) -> None:
    for sink, reason in runtime_of(db).sinks.failures.items():
        message = f"sink {sink} did not receive everything: {reason}"
        raise make("PIPELINE_FAILED", message=message, hint="the same command resumes from there")


def _say_who_lags(db: Database) -> None:
    """Nothing of it is lost, but who ends it may want to know."""
    for sink, steps in runtime_of(db).sinks.behind().items():
        if steps:
            print(f"sink {sink} is behind: the next run continues there", file=sys.stderr, flush=True)


def _follow(db: Database, ended: threading.Event, say: Callable[[], None]) -> None:
    prepare(db, ended)
    if not ended.is_set():
        with told("starting the pipeline ..."):
            db.start(lambda tables: db.stop() if ended.is_set() else None)
        say()
    while not ended.wait(LOOK_SECONDS) and db.wait(timeout=0):
        pass
    db.stop()
    _say_who_lags(db)


def prepare(db: Database, ended: threading.Event) -> None:
    """Whoever is told that it listens can rely on it: from then on no change is missed. A server that is away is tried
    again later."""
    try:
        with told("processing available input ..."):
            _unless_ended(runtime_of(db).captures.catch_up, db, ended)
    except OSError as problem:
        print(f"{problem}: retrying", file=sys.stderr, flush=True)


def _unless_ended(call: Callable[[], object], db: Database, ended: threading.Event) -> None:
    """Waits for a call, which is stopped when someone ends it."""
    with ThreadPoolExecutor(1) as pool:
        work = pool.submit(call)
        while not work.done() and not ended.wait(LOOK_SECONDS):
            pass
        if not work.done():
            db.stop()
            with runtime_of(db).sinks.hurried():
                wait([work])
        work.result()


def _say(config: Config, folder: Path | None, page: str | None, as_json: bool) -> None:
    """To stderr: stdout is for events."""
    if as_json:
        print(json.dumps({"listening": notice(config, folder, page)}), file=sys.stderr, flush=True)
    else:
        print("\n".join(notice_lines(config, folder, page)), file=sys.stderr, flush=True)
