"""The configuration as SQL statements; errors in them are located in what the user wrote."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from tidegate.catalog.bus import BUS
from tidegate.cli.listening.config import Config, Endpoint, Origin, Setting, View
from tidegate.cli.listening.flags import FLAGS
from tidegate.core.secrets import mask_sql
from tidegate.errors import Error, Span, line_and_column

CREATE, REPLACE = "CREATE ", "CREATE OR REPLACE "
_OPTION = re.compile(r"\b([a-z_][\w.]*) = '([^']*)'")


@dataclass(frozen=True)
class Piece:
    """A part of a statement, and where the user wrote it. `verbatim`: the text is the same in both."""

    span: Span
    origin: Origin
    verbatim: bool = False

    def at(self, span: Span | None, before: int) -> Origin:
        """Where the user wrote this span of the statement; `before` is the length of CREATE [OR REPLACE]."""
        origin = self.origin
        if not self.verbatim or span is None or origin.text is None or origin.span is None:
            return origin
        shift = origin.span.start - self.span.start - before
        shifted = Span(span.start + shift, span.end + shift)
        line, _ = line_and_column(origin.text, shifted.start)
        label = origin.label if origin.is_flag else f"{origin.label.rpartition(':')[0]}:{line}"
        return Origin(label, origin.text, shifted)


@dataclass(frozen=True)
class Definition:
    """A CREATE statement without its first words. `kind` is source, view or sink."""

    kind: str
    name: str
    body: str
    origin: Origin
    pieces: tuple[Piece, ...]

    @property
    def create(self) -> str:
        return CREATE + self.body

    @property
    def printable(self) -> str:
        """The statement without secrets."""
        comment = "--" in self.body.rpartition("\n")[2]
        return mask_sql(self.create) + ("\n;" if comment else ";")

    def locate(self, problem: Error, first: str = CREATE) -> Error:
        """Move an error from the statement to the flag or file that the user wrote."""
        piece = None if problem.span is None else self._piece(problem.span.start - len(first))
        at = self._default_origin() if piece is None else piece.at(problem.span, len(first))
        prefix = f"view {self.name}: " if self.kind == "view" and not at.is_flag else ""
        problem.message = f"{at.label}: {prefix}{problem.message}"
        problem.text, problem.span = at.text, at.span
        if self.kind != "view" and problem.hint:
            problem.hint = _OPTION.sub(partial(_spell_option, at.label), problem.hint)
        return problem

    def _default_origin(self) -> Origin:
        """The location of an error that has none: the label alone for a view, whose origin is its query."""
        return Origin(self.origin.label) if self.kind == "view" else self.origin

    def _piece(self, position: int) -> Piece | None:
        return next((each for each in self.pieces if each.span.start <= position <= each.span.end), None)


def _spell_option(label: str, option: re.Match[str]) -> str:
    """Write an option of a hint as the user does: `url: https://...` in a file, `--webhook https://...` as a flag."""
    flag = FLAGS.get(label)
    if flag is None:
        return f"{option[1]}: {option[2]}"
    same = (name for name, other in FLAGS.items() if other[:3] == (flag.role, flag.kind, option[1]))
    name = next(same, None)
    if name is None:
        return option[0]
    return f"{name} {'NAME' if name.endswith('-env') else option[2]}"


def definitions(config: Config) -> tuple[Definition, ...]:
    """Sources, then views, then sinks: the order in which they can be created."""
    return (
        *(_source(each) for each in config.sources),
        *(_view(each) for each in config.views),
        *(_sink(each) for each in config.adapters),
    )


def _source(source: Endpoint) -> Definition:
    head = f"SOURCE {quoted(source.name)} FROM {source.kind.upper()} ("
    return _with_options("source", source, head)


def _sink(adapter: Endpoint) -> Definition:
    head = f"SINK {quoted(adapter.name)} FROM {BUS} INTO {adapter.kind.upper()} ("
    return _with_options("sink", adapter, head)


def _with_options(kind: str, endpoint: Endpoint, head: str) -> Definition:
    body, pieces = _append_options(head, endpoint.settings)
    return Definition(kind, endpoint.name, f"{body})", endpoint.origin, pieces)


def _append_options(head: str, settings: Iterable[Setting]) -> tuple[str, tuple[Piece, ...]]:
    """Append options to a text; also returns the position of each."""
    body, pieces = head, []
    for index, setting in enumerate(settings):
        body += ", " if index else ""
        text = f"{_key(setting.key)} = {literal(setting.option_text)}"
        pieces.append(Piece(Span(len(body), len(body) + len(text)), setting.origin))
        body += text
    return body, tuple(pieces)


def _view(view: View) -> Definition:
    head, pieces = f"MATERIALIZED VIEW {quoted(view.name)} AS ", tuple[Piece, ...]()
    options = [setting for setting in (view.emit, view.max_groups) if setting is not None]
    if options:
        head, pieces = _append_options(f"MATERIALIZED VIEW {quoted(view.name)} WITH (", options)
        head += ") AS "
    query = _trim(view.query)
    own = Piece(Span(len(head), len(head) + len(query)), _without_indent(view), verbatim=True)
    return Definition("view", view.name, head + query, view.origin, (*pieces, own))


def _without_indent(view: View) -> Origin:
    """Where the query begins, after leading whitespace."""
    blanks = len(view.query) - len(view.query.lstrip())
    span = view.origin.span
    return replace(view.origin, span=span and Span(span.start + blanks, span.end))


def _trim(query: str) -> str:
    """Strip surrounding whitespace and the final semicolon."""
    return query.strip().rstrip("; \t\r\n")


def quoted(name: str) -> str:
    return f"`{name}`"


def literal(value: str) -> str:
    """A text as a SQL literal."""
    return "'" + value.replace("\\", "\\\\").replace("'", "''") + "'"


def _key(key: str) -> str:
    return key if re.fullmatch(r"[a-z_][a-z0-9_]*", key) else literal(key)


def script(definitions: Sequence[Definition]) -> str:
    """All statements, without secrets."""
    return "\n".join(definition.printable for definition in definitions)
