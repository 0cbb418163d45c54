"""Windows as written: function, time column and sizes. Sizes are checked by window_spellings.py.

`TABLE(TUMBLE(TABLE bids, DESCRIPTOR(ts), size))` (Flink) becomes `TUMBLE(bids, ts, size)`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from sqlglot import exp

from tidegate.errors import Error, Span, did_you_mean, make
from tidegate.ir.windows import WINDOW_KINDS
from tidegate.sql.clauses import Clauses
from tidegate.sql.functions import call
from tidegate.sql.spans import span_of

PARTITION = "partition_by"
"""Key of the partition columns of a relation in the meta of the argument that names it."""

RELATION_WINDOWS = frozenset({*WINDOW_KINDS, "slide"})
GROUP_WINDOWS = RELATION_WINDOWS | {
    "window",
    "session_window",
    "window_time",
    *(f"{kind}_{edge}" for kind in RELATION_WINDOWS for edge in ("start", "end", "rowtime", "proctime")),
}


def unwrap_window(table: exp.Expr) -> exp.Expr:
    """The table itself, or the windowed relation without Flink's wrappers."""
    wrapped = table.this
    if isinstance(table, exp.Table) and isinstance(wrapped, exp.Anonymous) and wrapped.name.upper() == "TABLE":
        inner = wrapped.expressions[0] if len(wrapped.expressions) == 1 else None
        if inner is not None and window_function(inner):
            table.set("this", inner)
    if isinstance(table, exp.Table) and window_function(table.this):
        for argument in list(table.this.expressions):
            _unwrap_descriptor(argument)
    return table


def window_function(node: object) -> str | None:
    """The name of the windowing function that a FROM item calls."""
    function = call(node) if isinstance(node, exp.Anonymous) else None
    return function.name if function and function.name in RELATION_WINDOWS else None


def _unwrap_descriptor(argument: exp.Expr) -> None:
    target = argument.expression if isinstance(argument, exp.Kwarg | exp.PropertyEQ) else argument
    function = call(target) if isinstance(target, exp.Anonymous) else None
    if function and function.name == "descriptor" and len(function.args) == 1:
        target.replace(function.args[0])


Kind = Literal["tumble", "hop", "cumulate", "session"]

_PARAMETERS: dict[str, tuple[str, ...]] = {
    "tumble": ("timecol", "size", "offset"),
    "hop": ("timecol", "slide", "size", "offset"),
    "slide": ("timecol", "slide", "size", "offset"),
    "cumulate": ("timecol", "step", "size", "offset"),
    "session": ("timecol", "gap"),
    "window": ("timecol", "size", "slide", "offset"),
    "session_window": ("timecol", "gap"),
}
"""The parameters of each window function, in order; in FROM the relation (`data`) comes first."""

_PARAMETER_WORDS = {"data": "relation", "timecol": "time"}
_OPTIONAL = ("offset",)
_KINDS: dict[str, Kind] = {"slide": "hop", "window": "tumble", "session_window": "session"}
_CLAUSE_KINDS: dict[str, Kind] = {"tumbling": "tumble", "sliding": "hop", "session": "session"}

_CLAUSE_USAGE = {
    "tumble": "TUMBLING WINDOW size",
    "hop": "SLIDING WINDOW size SLIDE slide",
    "session": "SESSION WINDOW gap",
}


@dataclass(frozen=True)
class WindowCall:
    """A window as written. `time` is None for the time column of the relation. `partition` is the PARTITION BY of a
    session in FROM. `name` is the function or clause as written."""

    kind: Kind
    name: str
    time: exp.Expr | None
    size: exp.Expr
    slide: exp.Expr | None
    offset: exp.Expr | None
    span: Span | None
    partition: tuple[exp.Expr, ...] | None = None
    in_from: bool = False

    @property
    def usage(self) -> str:
        """The syntax of the window, for hints."""
        name = self.name.lower()
        return usage(name, self.in_from) if name in _PARAMETERS else _CLAUSE_USAGE[self.kind]

    @property
    def parts(self) -> tuple[exp.Expr | None, ...]:
        """The time and sizes, which identify the window beside its kind."""
        return (self.time, self.size, self.slide, self.offset)


def table_window(table: exp.Table) -> tuple[exp.Expr, WindowCall]:
    """The relation of a windowing function in FROM, and the window.

    `TUMBLE(bids, ts, INTERVAL '1' MINUTE)` -> `bids`, tumble by ts
    """
    function = call(table.this)
    assert function is not None
    arguments = _arguments(table.this, function.name, function.args, ("data", *_PARAMETERS[function.name]))
    relation = arguments.pop("data")
    partition = relation.meta.get(PARTITION)
    window = replace(_window(table.this, function.name, arguments), in_from=True)
    if partition is None:
        return _relation(relation), window
    if window.kind != "session":
        message = f"{window.name} has no PARTITION BY: its windows are the same for all rows"
        raise make("WINDOW_ARGUMENTS", message=message, hint="leave it out, and GROUP BY it", span=window.span)
    return _relation(relation), replace(window, partition=tuple(partition))


def group_window(node: exp.Expr) -> WindowCall | None:
    """The window of a call in GROUP BY; None if the node is no such call."""
    function = call(node) if isinstance(node, exp.Anonymous) else None
    if function is None or function.name not in _PARAMETERS:
        return None
    return _window(node, function.name, _arguments(node, function.name, function.args, _PARAMETERS[function.name]))


def clause_window(own: Clauses) -> WindowCall | None:
    """The window of a clause, such as TUMBLING WINDOW 5m."""
    window = own.window
    if window is None:
        return None
    kind = _CLAUSE_KINDS[window.kind]
    return WindowCall(
        kind, f"{window.kind.upper()} WINDOW", own.event_time, window.size, window.slide, None, window.span
    )


def usage(name: str, in_from: bool) -> str:
    """`TUMBLE(relation, time, size [, offset])`"""
    parameters = (("data",) if in_from else ()) + _PARAMETERS[name]
    optional = ("slide", "offset") if name == "window" else _OPTIONAL
    text = ""
    for parameter in parameters:
        word = _PARAMETER_WORDS.get(parameter, parameter)
        text += f" [, {word}]" if parameter in optional else f", {word}" if text else word
    return f"{name if name in ('window', 'session_window') else name.upper()}({text})"


def _arguments(
    node: exp.Expr, name: str, args: tuple[exp.Expr, ...], parameters: tuple[str, ...]
) -> dict[str, exp.Expr]:
    """The arguments by the names of their parameters."""
    arguments: dict[str, exp.Expr] = {}
    for parameter, arg in zip((*parameters, *[""] * len(args)), args, strict=False):
        key = arg.this.name.lower() if isinstance(arg, exp.Kwarg) else parameter
        if isinstance(arg, exp.Kwarg) and (key not in parameters or key in arguments):
            raise _wrong_name(arg, name, key, parameters)
        if key not in parameters or key in arguments:
            raise _wrong_number(node, name, len(args), parameters)
        arguments[key] = arg.expression if isinstance(arg, exp.Kwarg) else arg
    optional = ("slide", "offset") if name == "window" else _OPTIONAL
    if any(parameter not in arguments for parameter in parameters if parameter not in optional):
        raise _wrong_number(node, name, len(args), parameters)
    return arguments


def _wrong_number(node: exp.Expr, name: str, count: int, parameters: tuple[str, ...]) -> Error:
    usual = usage(name, parameters[0] == "data")
    words = f"{count} argument" + ("" if count == 1 else "s")
    message = f"{usual.partition('(')[0]} cannot take {words}"
    return make("WINDOW_ARGUMENTS", message=message, usage=usual, span=span_of(node))


def _wrong_name(argument: exp.Expr, name: str, key: str, parameters: tuple[str, ...]) -> Error:
    usual = usage(name, parameters[0] == "data")
    function = usual.partition("(")[0]
    if key in parameters:
        message, hint = f"{function} was given {key.upper()} twice", f"write {usual}"
    else:
        message = f"{function} has no argument {key.upper()}"
        hint = did_you_mean(key, [parameter.upper() for parameter in parameters], what="arguments") or f"write {usual}"
    return make("WINDOW_ARGUMENTS", message=message, hint=hint, span=span_of(argument))


def _window(node: exp.Expr, name: str, arguments: dict[str, exp.Expr]) -> WindowCall:
    kind: Kind = _KINDS.get(name) or name  # type: ignore[assignment]
    slide = arguments.get("slide", arguments.get("step"))
    if name == "window" and slide is not None:
        kind = "hop"
    size = arguments.get("size", arguments.get("gap"))
    assert size is not None
    return WindowCall(
        kind,
        usage(name, False).partition("(")[0],
        arguments["timecol"],
        size,
        slide,
        arguments.get("offset"),
        span_of(node),
    )


def _relation(argument: exp.Expr) -> exp.Expr:
    """The relation that an argument names: a table, a subquery, or another window over one."""
    function = call(argument) if isinstance(argument, exp.Anonymous) else None
    if function is not None and function.name == "table" and len(function.args) == 1:
        return _relation(function.args[0])
    if function is not None and function.name in RELATION_WINDOWS:
        return unwrap_window(exp.Table(this=argument.copy()))
    if isinstance(argument, exp.Column):
        parts = [part.copy() for part in argument.parts]
        return exp.Table(this=parts[-1], db=parts[-2] if len(parts) > 1 else None)
    if isinstance(argument, exp.Select | exp.SetOperation):
        return exp.Subquery(this=argument.copy())
    if isinstance(argument, exp.Subquery):
        return argument.copy()
    message = "a window needs a relation as its first argument"
    raise make(
        "WINDOW_ARGUMENTS",
        message=message,
        hint="name a source, table or view, or write (SELECT ...)",
        span=span_of(argument),
    )
