"""The config as statements of Tidegate, and errors in them as errors in what the user wrote."""

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
    """A stretch of a statement that the user wrote elsewhere. `verbatim`: character by character."""

    span: Span
    origin: Origin
    verbatim: bool = False

    def at(self, span: Span | None, before: int) -> Origin:
        """Where the user wrote what is at this span of the statement, `before` characters of which come first."""
        whole = self.origin
        if not self.verbatim or span is None or whole.text is None or whole.span is None:
            return whole
        shift = whole.span.start - self.span.start - before
        moved = Span(span.start + shift, span.end + shift)
        line, _ = line_and_column(whole.text, moved.start)
        label = whole.label if whole.is_flag else f"{whole.label.rpartition(':')[0]}:{line}"
        return Origin(label, whole.text, moved)


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
    def shown(self) -> str:
        """The statement as it may be printed."""
        comment = "--" in self.body.rpartition("\n")[2]
        return mask_sql(self.create) + ("\n;" if comment else ";")

    def located(self, problem: Error, first: str = CREATE) -> Error:
        """An error in the statement, at the place where the user wrote what it is about."""
        piece = None if problem.span is None else self._piece(problem.span.start - len(first))
        at = self._unplaced() if piece is None else piece.at(problem.span, len(first))
        named = f"view {self.name}: " if self.kind == "view" and not at.is_flag else ""
        problem.message = f"{at.label}: {named}{problem.message}"
        problem.text, problem.span = at.text, at.span
        if self.kind != "view" and problem.hint:
            problem.hint = _OPTION.sub(partial(_spelled, at.label), problem.hint)
        return problem

    def _unplaced(self) -> Origin:
        """A view's origin is its query, which is not to blame."""
        return Origin(self.origin.label) if self.kind == "view" else self.origin

    def _piece(self, place: int) -> Piece | None:
        return next((each for each in self.pieces if each.span.start <= place <= each.span.end), None)


def _spelled(label: str, option: re.Match[str]) -> str:
    """An option of a hint as the user writes it there: `url: https://...` in a file, `--webhook https://...` as a
    flag."""
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
    body, pieces = _listed(head, endpoint.settings)
    return Definition(kind, endpoint.name, f"{body})", endpoint.origin, pieces)


def _listed(head: str, settings: Iterable[Setting]) -> tuple[str, tuple[Piece, ...]]:
    """A text with options behind it, and where each of them stands."""
    body, pieces = head, []
    for index, setting in enumerate(settings):
        body += ", " if index else ""
        text = f"{_key(setting.key)} = {literal(setting.value)}"
        pieces.append(Piece(Span(len(body), len(body) + len(text)), setting.origin))
        body += text
    return body, tuple(pieces)


def _view(view: View) -> Definition:
    head, pieces = f"MATERIALIZED VIEW {quoted(view.name)} AS ", tuple[Piece, ...]()
    options = [setting for setting in (view.emit, view.max_groups) if setting is not None]
    if options:
        head, pieces = _listed(f"MATERIALIZED VIEW {quoted(view.name)} WITH (", options)
        head += ") AS "
    query = _trimmed(view.query)
    own = Piece(Span(len(head), len(head) + len(query)), _without_indent(view), verbatim=True)
    return Definition("view", view.name, head + query, view.origin, (*pieces, own))


def _without_indent(view: View) -> Origin:
    """Where the query begins behind the blanks before it."""
    blanks = len(view.query) - len(view.query.lstrip())
    span = view.origin.span
    return replace(view.origin, span=span and Span(span.start + blanks, span.end))


def _trimmed(query: str) -> str:
    """A query without the blanks around it and the semicolon at its end."""
    return query.strip().rstrip("; \t\r\n")


def quoted(name: str) -> str:
    return f"`{name}`"


def literal(value: str) -> str:
    """A text as SQL writes it."""
    return "'" + value.replace("\\", "\\\\").replace("'", "''") + "'"


def _key(key: str) -> str:
    return key if re.fullmatch(r"[a-z_][a-z0-9_]*", key) else literal(key)


def script(found: Sequence[Definition]) -> str:
    """All statements as they may be printed."""
    return "\n".join(each.shown for each in found)
