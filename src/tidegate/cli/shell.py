"""`tidegate sql`: an interactive shell, or a script from stdin."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from tidegate.cli.commands import Quit, Session
from tidegate.cli.opening import open_database
from tidegate.cli.statement import complete

if TYPE_CHECKING:
    from prompt_toolkit import PromptSession
    from prompt_toolkit.key_binding import KeyBindings

    from tidegate import Database

GREETING = "\\? lists the commands, \\q leaves; a statement ends with ;"


def open_shell(folder: Path | None, master: str | None) -> None:
    """Run statements from the terminal, or from stdin if that is a pipe."""
    with _opened(folder, master) as (db, note):
        session = Session(db)
        if sys.stdin.isatty():
            print(f"{note}{GREETING}")
            _interact(session)
        else:
            session.script(sys.stdin.read())


@contextmanager
def _opened(folder: Path | None, master: str | None) -> Iterator[tuple[Database, str]]:
    """Open the folder for writing, or for reading if another process runs it."""
    from tidegate.errors import Error
    from tidegate.storage.folder import Folder

    try:
        if folder is not None:
            with Folder(folder) as probe:
                probe.open()
        read_only = False
    except Error as problem:
        if problem.code != "PIPELINE_IN_USE":
            raise
        read_only = True
    note = f"{folder} runs in another process: reading only\n" if read_only else ""
    with open_database(folder, master=master, read_only=read_only, spark=not read_only) as db:
        yield db, note


def _interact(session: Session) -> None:
    prompt = _prompt(session)
    while True:
        try:
            text = prompt.prompt("tidegate> ")
            session.run(text)
        except KeyboardInterrupt:
            continue
        except (EOFError, Quit):
            return


def _prompt(session: Session) -> PromptSession[str]:
    from prompt_toolkit import PromptSession
    from prompt_toolkit.history import FileHistory
    from prompt_toolkit.lexers import PygmentsLexer
    from pygments.lexers.sql import SqlLexer

    from tidegate.cli.completion import SqlCompleter

    return PromptSession(
        history=FileHistory(str(_history_file())),
        completer=SqlCompleter(session.names),
        complete_while_typing=False,
        lexer=PygmentsLexer(SqlLexer),
        multiline=True,
        prompt_continuation=lambda width, line, wrapped: "...> ".rjust(width),
        key_bindings=_keys(),
    )


def _keys() -> KeyBindings:
    """Enter sends a complete statement or a `\\` command, and begins a new line otherwise."""
    from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent

    keys = KeyBindings()

    @keys.add("enter")
    def enter(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        if complete(buffer.text):
            buffer.validate_and_handle()
        else:
            buffer.insert_text("\n")

    return keys


def _history_file() -> Path:
    state = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state")
    folder = state / "tidegate"
    folder.mkdir(parents=True, exist_ok=True)
    return folder / "history"
