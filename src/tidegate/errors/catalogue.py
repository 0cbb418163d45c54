"""The codes: the class that each raises, and its default message and hint.

Codes are interface: programs and spec files match on them. `make(code, name=...)` fills the templates; a caller that
knows more passes `message=` or `hint=` itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tidegate.errors.tree import (
    CatalogError,
    Error,
    InputError,
    OptionError,
    PipelineError,
    SetupError,
    Span,
    SqlError,
    SqlSyntaxError,
    Warning_,
)


@dataclass(frozen=True)
class Entry:
    """One code: its class, its message and its hint, both with `{parameters}`."""

    raises: type[Error]
    message: str
    hint: str | None = None


CATALOGUE: dict[str, Entry] = {
    "SYNTAX_ERROR": Entry(SqlSyntaxError, "this is not a statement"),
    "UNKNOWN_RELATION": Entry(
        SqlError, "there is no relation {name}", "SHOW TABLES, SHOW SOURCES and SHOW VIEWS list what there is"
    ),
    "UNKNOWN_COLUMN": Entry(SqlError, "there is no column {name}"),
    "UNKNOWN_FUNCTION": Entry(SqlError, "there is no function {name}", "all of Spark SQL's functions can be used"),
    "AMBIGUOUS_COLUMN": Entry(SqlError, "column {name} is ambiguous: it is in {candidates}", "qualify it: {qualified}"),
    "NOT_GROUPED": Entry(SqlError, "{name} is neither in GROUP BY nor inside an aggregate"),
    "ALREADY_EXISTS": Entry(
        CatalogError,
        "{name} exists already, as a {kind}",
        "write CREATE OR REPLACE, or CREATE ... IF NOT EXISTS, or DROP it first",
    ),
    "HAS_DEPENDENTS": Entry(
        CatalogError, "{name} is read by {dependents}", "drop those first, or write CASCADE to drop them too"
    ),
    "TYPE_MISMATCH": Entry(SqlError, "expected {expected}, found {found}", "write a CAST where the value is meant"),
    "INVALID_CONSTANT": Entry(
        SqlError, "{call} fails for every row: {reason}", "correct the constant: no row could be processed"
    ),
    "UNKNOWN_OPTION": Entry(OptionError, "{where} has no option '{name}'"),
    "INVALID_OPTION": Entry(OptionError, "option '{name}' cannot be '{value}'", "expected {expected}"),
    "MISSING_OPTION": Entry(OptionError, "{where} needs option '{name}'", "add {name} = '...'"),
    "INVALID_ARGUMENT": Entry(OptionError, "{name} cannot be {value}", "pass {expected}"),
    "UNKNOWN_CONNECTOR": Entry(OptionError, "there is no connector {name}"),
    "UNKNOWN_FORMAT": Entry(OptionError, "there is no format {name}"),
    "INVALID_PARAMETER": Entry(SqlError, "parameter {name} has no value"),
    "NOT_SUPPORTED": Entry(SqlError, "{what} is not maintained"),
    "WINDOW_ARGUMENTS": Entry(SqlError, "{window} cannot take {found} arguments", "write {usage}"),
    "INVALID_WINDOW": Entry(SqlError, "{window} cannot have {problem}"),
    "EMIT_NEEDS_WATERLINE": Entry(SqlError, "EMIT {strategy} waits for a watermark, but {column} has none"),
    "EMIT_NEEDS_KEY": Entry(
        SqlError,
        "EMIT {strategy} needs a key to update, and this view has none",
        "write EMIT CHANGES, or GROUP BY a key",
    ),
    "EMIT_FINAL_LATENESS": Entry(
        SqlError,
        "EMIT FINAL drops late rows, so it cannot have ALLOWED LATENESS",
        "leave out ALLOWED LATENESS, or write EMIT ON WINDOW CLOSE, which waits for late rows",
    ),
    "LATENESS_TYPE": Entry(SqlError, "{value} cannot be subtracted from {column}, which is {type}"),
    "APPEND_ONLY": Entry(
        InputError, "{relation} is append_only: {found}", "leave out 'append_only', or insert new rows only"
    ),
    "INVALID_HINT": Entry(SqlError, "EARLY_FIRE: {problem}", "write /*+ EARLY_FIRE('delay' = '5s') */"),
    "SINK_CANNOT_TAKE": Entry(SqlError, "sink {sink} cannot take {view}: {reason}"),
    "VIEW_READS_VIEWS": Entry(
        SqlError,
        "channel {channel} carries results of views, which a CDC view cannot read",
        "read that view by its name",
    ),
    "TABLE_NOT_READY": Entry(
        PipelineError, "table {name} is not ready", "its snapshot is still being read: SHOW TABLES says when it is"
    ),
    "PIPELINE_CHANGED": Entry(PipelineError, "the pipeline in {folder} was built from other definitions: {changes}"),
    "PIPELINE_IN_USE": Entry(
        PipelineError, "{folder} is in use by process {pid}", "stop that process, or query it with `tidegate query`"
    ),
    "FOLDER_VERSION": Entry(
        PipelineError,
        "{folder} has format {found}, this version reads format {expected}",
        "open it with the version that wrote it, or begin a new folder and run your script there",
    ),
    "FOLDER_DAMAGED": Entry(
        PipelineError,
        "{file} is damaged: {reason}",
        "restore the data folder from a backup, or begin a new one; `tidegate doctor DIR` checks every file",
    ),
    "PIPELINE_FAILED": Entry(PipelineError, "the pipeline stopped: {reason}", "see {log}"),
    "EXPRESSION_FAILED": Entry(PipelineError, "view {view} cannot process a row: {problem}; the row: {row}"),
    "STORAGE_FAILED": Entry(
        PipelineError,
        "{path} cannot be read or written: {reason}",
        "{remedy}, then start again: it goes on after the last finished step, and nothing is lost",
    ),
    "DATABASE_CLOSED": Entry(PipelineError, "this database is closed", "open it again with tidegate.connect(...)"),
    "READ_ONLY": Entry(PipelineError, "{folder} is open read-only", "open it without read_only=True to change it"),
    "UNKNOWN_FOLDER": Entry(PipelineError, "there is no database in {folder}", "`tidegate run FILE.sql` makes one"),
    "CONNECTOR_JARS": Entry(SetupError, "connector {name} needs {jars}", "`tidegate doctor` says how to get them"),
    "JAVA_MISSING": Entry(
        SetupError, "there is no Java 17 or later", "install one, or set JAVA_HOME; `tidegate doctor` checks it"
    ),
    "MALFORMED_ROW": Entry(InputError, "a row of {relation} cannot be read: {problem}"),
    "UNREADABLE_FILE": Entry(
        InputError,
        "a file of {relation} cannot be read: {path}",
        "replace it by a readable file of the same name: it is then read",
    ),
    "NULL_KEY": Entry(InputError, "a row of {relation} has NULL in its key {key}"),
    "NULL_TIME": Entry(InputError, "a row of {relation} has NULL in its time {column}"),
    "BAD_TIME": Entry(InputError, "a row of {relation} has no time in {column}: {value}"),
    "ROW_NOT_FOUND": Entry(InputError, "{relation} has no such row to delete"),
    "GROUP_CAP": Entry(InputError, "{view} has {cap} groups already"),
}

WARNINGS: dict[str, tuple[str, str | None]] = {
    "HINT_IGNORED": ("the hint has no effect here: {reason}", None),
    "LATENESS_VIEW_NOT_FOUND": (
        "LATENESS names {name}, which does not exist yet",
        "it takes effect when {name} is created",
    ),
    "ROWS_WAIT": (
        "the rows of {name} wait for the end of their window",
        "write EMIT CHANGES to get each at once, or EMIT ON WATERMARK to say that they wait",
    ),
    "CLOCK_BEHIND": (
        "the clock of the machine is {behind} behind that of the pipeline, which goes at half speed meanwhile",
        "what leaves by the clock (EVERY, NOW(), idle timeouts) takes up to twice as long; no row is lost",
    ),
    "UNBOUNDED_STATE": ("the state of {what} grows without bound", None),
}


class _Blank(dict[str, object]):
    """Template parameters; a missing one shows as `...` rather than hiding the error behind a KeyError."""

    def __missing__(self, key: str) -> str:
        return "..."


def make(
    code: str,
    *,
    message: str | None = None,
    detail: str | None = None,
    hint: str | None = None,
    span: Span | None = None,
    text: str | None = None,
    **params: object,
) -> Error:
    """An error to raise: `raise make("UNKNOWN_COLUMN", span=span, name="pirce", hint="did you mean price?")`."""
    entry = CATALOGUE[code]
    message = message if message is not None else entry.message.format_map(_Blank(params))
    advice = hint if hint is not None else _advice(entry.hint, params)
    return entry.raises(code, message, detail=detail, hint=advice, span=span, text=text)


def too_deep(text: str | None = None, span: Span | None = None) -> Error:
    """The error for a statement whose parts nest so deeply that they exhaust a stack."""
    hint = "write parts of it as views, or as WITH name AS (...)"
    return make("SYNTAX_ERROR", message="this statement is nested too deeply", hint=hint, span=span, text=text)


def _advice(template: str | None, params: Mapping[str, object]) -> str | None:
    """The filled hint; None if a parameter is missing."""
    try:
        return template and template.format_map(params)
    except KeyError:
        return None


def warning(
    code: str, *, message: str | None = None, hint: str | None = None, span: Span | None = None, **params: object
) -> Warning_:
    """A warning of the catalogue, filled in the same way."""
    template, advice = WARNINGS[code]
    message = message if message is not None else template.format_map(_Blank(params))
    return Warning_(code, message, hint if hint is not None else advice and advice.format_map(_Blank(params)), span)
