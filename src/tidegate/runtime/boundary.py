"""The edge of the Python interface: what leaves it is a result or a `tidegate.Error`."""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar, cast

from tidegate import errors
from tidegate.runtime.python_values import excerpt

P = ParamSpec("P")
R = TypeVar("R")
S = TypeVar("S", bound="Bounded")

KINDS: dict[str, tuple[tuple[type, ...], str]] = {
    "str": ((str,), "text"),
    "bool": ((bool,), "True or False"),
    "int": ((int,), "a whole number"),
    "int | None": ((int, type(None)), "a whole number, or None"),
    "float | None": ((int, float, type(None)), "a number of seconds, or None"),
    "timedelta": ((timedelta,), "a timedelta"),
}
"""The annotations of public methods that are checked: the types they take, and their names in messages."""
SPLIT = "split it: views can read views, and a long text can be several statements"


class Boundary:
    """What the calls of one database go through. `lost` returns the error to raise if Spark's JVM has ended."""

    def __init__(self, closed: Callable[[], bool], lost: Callable[[], errors.Error | None]) -> None:
        self._closed, self._lost = closed, lost

    def require_open(self) -> None:
        """Raise DATABASE_CLOSED if it is."""
        if self._closed():
            raise errors.make("DATABASE_CLOSED")

    @contextmanager
    def translated(self) -> Iterator[None]:
        """Turn failures of the JVM and of the file system into errors that say what to do."""
        try:
            yield
        except BrokenPipeError:
            raise
        except Exception as problem:
            error = self._error_of(problem)
            if error is None:
                raise
            raise error from problem

    def _error_of(self, problem: Exception) -> errors.Error | None:
        if isinstance(problem, errors.Error):
            return self._lost() if problem.code == "PIPELINE_FAILED" else None
        if (lost := self._lost()) is not None:
            return lost
        if isinstance(problem, RecursionError):
            return errors.make("NOT_SUPPORTED", message="this is nested too deeply", hint=SPLIT)
        if isinstance(problem, OSError):
            return errors.storage_error(problem)
        return errors.reported_storage_error(str(problem)) if _is_of_the_jvm(problem) else None


def _is_of_the_jvm(problem: Exception) -> bool:
    return type(problem).__module__.partition(".")[0] in ("py4j", "pyspark")


class Bounded(Protocol):
    """An object whose public methods go through a boundary."""

    @property
    def boundary(self) -> Boundary: ...


def public(method: Callable[Concatenate[S, P], R]) -> Callable[Concatenate[S, P], R]:
    """A method that users call: the object is open, arguments have the annotated types, and only errors of our own
    leave it, or those of the user's own objects."""
    signature = inspect.signature(method)
    checked = {name: KINDS[kind] for name, each in signature.parameters.items() if (kind := each.annotation) in KINDS}

    @functools.wraps(method)
    def call(self: S, *args: P.args, **kwargs: P.kwargs) -> R:
        self.boundary.require_open()
        given = signature.bind(self, *args, **kwargs).arguments
        for name, (types, expected) in checked.items():
            if name in given:
                _check(f"{method.__name__}({name})", given[name], types, expected)
        with self.boundary.translated():
            return method(self, *args, **kwargs)

    return cast(Callable[Concatenate[S, P], R], call)


def _check(name: str, value: Any, types: tuple[type, ...], expected: str) -> None:
    if not isinstance(value, types) or (isinstance(value, bool) and bool not in types):
        raise errors.make("INVALID_ARGUMENT", name=name, value=excerpt(value), expected=expected)
    if isinstance(value, str) and (bad := _not_storable(value)):
        raise errors.make("INVALID_ARGUMENT", message=f"{name} has {bad}", hint="pass Unicode text")


def _not_storable(text: str) -> str | None:
    try:
        text.encode()
    except UnicodeEncodeError as problem:
        return f"half of a character (a lone surrogate) at position {problem.start}"
    return None


def data_path(path: Any) -> Path | None:
    """The path of a data folder; None stands for a temporary one."""
    if path is None:
        return None
    if not isinstance(path, str | os.PathLike) or not isinstance(os.fspath(path), str):
        raise errors.make("INVALID_ARGUMENT", name="the path", value=excerpt(path), expected="a path, or None")
    text = os.fspath(path)
    _check("the path", text, (str,), "a path")
    if not text.strip() or "\0" in text:
        raise errors.make(
            "INVALID_ARGUMENT",
            name="the path",
            value=excerpt(text),
            expected="the path of a folder; connect() without a path makes a temporary one",
        )
    return Path(text)
