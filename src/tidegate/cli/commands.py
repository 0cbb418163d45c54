"""Input of the shell: statements run on the database, `\\` commands are handled here."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import pyarrow as pa

from tidegate.core.tables import counted, text_table

if TYPE_CHECKING:
    from tidegate import Database, Result

HELP = """\
  \\d          all relations            \\dt         tables
  \\d NAME     columns of a relation    \\dv         views
  \\step       run until nothing more can happen
  \\auto on|off  a step after every statement that changes something (on)
  \\q          leave                    \\?          this text"""
FEEDING = ("INSERT", "DELETE", "UPDATE", "ADVANCE")
DEFINING = ("CREATE", "DROP")


class Quit(Exception):
    """Raised when the user leaves the shell."""


class Session:
    """An interactive session on a database."""

    def __init__(self, db: Database) -> None:
        self.db = db
        self.auto = True
        self._stale = False
        self._names: tuple[str, ...] | None = None
        self._commands: dict[str, Callable[[str], None]] = {
            "?": lambda _: print(HELP),
            "d": self._describe,
            "dt": lambda _: self._show("SHOW TABLES"),
            "dv": lambda _: self._show("SHOW VIEWS"),
            "step": lambda _: self._step(),
            "auto": self._set_auto,
            "q": self._quit,
        }

    def run(self, text: str) -> None:
        """Run one line or statement of an interactive session; errors are printed."""
        from tidegate.errors import Error, render

        try:
            self.execute(text)
        except Error as problem:
            print(render(problem), file=sys.stderr)

    def script(self, text: str) -> None:
        """Run all statements and commands of a text, until the first error."""
        from tidegate.cli.statement import pieces

        for piece in pieces(text):
            self.execute(piece)

    def execute(self, text: str) -> None:
        """Run one statement or command and print its result."""
        text = text.strip()
        if text.startswith("\\"):
            self._command(text)
        elif text.strip(";").strip():
            self._statement(text)

    def names(self) -> Iterable[str]:
        """Relations and their columns, for completion."""
        if self._names is None:
            relations = [row[0] for row in self._relations()]
            columns = [row[0] for name in relations for row in self.db.sql(f"DESCRIBE `{name}`").rows()]
            self._names = tuple(dict.fromkeys([*relations, *columns]))
        return self._names

    def _command(self, text: str) -> None:
        from tidegate.errors import SqlSyntaxError

        word, _, rest = text[1:].partition(" ")
        if word not in self._commands:
            raise SqlSyntaxError("SYNTAX_ERROR", f"there is no command \\{word}", hint="\\? lists them")
        self._commands[word](rest.strip().rstrip(";"))

    def _statement(self, text: str) -> None:
        """Run a statement. A step follows one that changes rows; after a definition it waits for the next read."""
        word = _first_word(text)
        if self._stale and word not in DEFINING:
            self._catch_up()
        _print(self.db.sql(text))
        if word in FEEDING or word in DEFINING:
            self._names, self._stale = None, True
        if word in FEEDING:
            self._catch_up()

    def _catch_up(self) -> None:
        if self.auto and not self.db.read_only:
            self.db.step()
            self._stale = False

    def _show(self, sql: str) -> None:
        _print(self.db.sql(sql))

    def _describe(self, name: str) -> None:
        if name:
            return self._show(f"DESCRIBE {name}")
        schema = pa.schema([("name", pa.string()), ("kind", pa.string())])
        rows = [dict(zip(schema.names, row, strict=True)) for row in self._relations()]
        print(text_table(pa.Table.from_pylist(rows, schema)))

    def _relations(self) -> list[tuple[str, str]]:
        kinds = (("source", "SHOW SOURCES"), ("table", "SHOW TABLES"), ("view", "SHOW VIEWS"), ("sink", "SHOW SINKS"))
        return [(row[0], kind) for kind, sql in kinds for row in self.db.sql(sql).rows()]

    def _step(self) -> None:
        report = self.db.step()
        self._stale = False
        print(f"{counted(len(report.steps), 'micro-batch', 'micro-batches')}, now at step {report.steps.stop - 1}")
        for name, rows in report.rows_out.items():
            print(f"  {name}: {counted(rows, 'change')}")

    def _set_auto(self, word: str) -> None:
        self.auto = word != "off"
        print(f"auto step is {'on' if self.auto else 'off'}")

    def _quit(self, _: str) -> None:
        raise Quit


def _first_word(text: str) -> str:
    from tidegate.cli.statement import without_comments

    words = without_comments(text).split(None, 1)
    return words[0].upper().strip("(") if words else ""


def _print(result: Result) -> None:
    from tidegate.errors import render

    for warning in result.warnings:
        print(f"warning {render(warning)}", file=sys.stderr)
    if result.columns:
        print(text_table(result.arrow()))
    elif result.message:
        print(result.message)
