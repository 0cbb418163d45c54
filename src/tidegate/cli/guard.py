"""Exceptions as text on stderr and exit codes; a traceback only with --debug."""

from __future__ import annotations

import json
import os
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import typer

FAILED = 1
REJECTED = 2
USAGE = ("PIPELINE_CHANGED", "UNKNOWN_FOLDER", "READ_ONLY")


@contextmanager
def guard(debug: bool, as_json: bool = False) -> Iterator[None]:
    """Turn exceptions of a command into text on stderr and an exit code: 1 for a failure, 2 for rejected input."""
    try:
        yield
    except (typer.Exit, typer.Abort):
        raise
    except KeyboardInterrupt:
        raise typer.Exit(FAILED) from None
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit(0) from None
    except Exception as problem:
        if debug:
            _print_traceback(problem)
            raise typer.Exit(exit_code(problem)) from None
        raise typer.Exit(_report(problem, as_json)) from None


def _print_traceback(problem: Exception) -> None:
    """The exceptions of libraries in it may repeat URLs and passwords."""
    from tidegate.core.secrets import hide_known

    print(hide_known("".join(traceback.format_exception(problem))), end="", file=sys.stderr, flush=True)


def _report(problem: Exception, as_json: bool) -> int:
    fields = error_fields(problem)
    text = json.dumps({"error": fields}) if as_json else _render(problem, fields)
    print(text, file=sys.stderr, flush=True)
    return exit_code(problem)


def exit_code(problem: Exception) -> int:
    """2 if the user's input is at fault, 1 if a machine, a folder or a pipeline failed."""
    from tidegate.errors import Error, PipelineError, SetupError

    if not isinstance(problem, Error):
        return FAILED
    failed = isinstance(problem, PipelineError | SetupError) and problem.code not in USAGE
    return FAILED if failed else REJECTED


def error_fields(problem: Exception) -> dict[str, Any]:
    """The fields of an error, for programs."""
    from tidegate.core.secrets import hide_known
    from tidegate.errors import Error, line_and_column

    if not isinstance(problem, Error):
        return {"code": "INTERNAL", "message": hide_known(f"{type(problem).__name__}: {problem}")}
    parts: dict[str, Any] = {"code": problem.code, "message": problem.message}
    if problem.text is not None and problem.span is not None:
        parts["line"], parts["column"] = line_and_column(problem.text, problem.span.start)
    if problem.detail:
        parts["detail"] = problem.detail
    if problem.hint:
        parts["hint"] = problem.hint
    return parts


def _render(problem: Exception, fields: dict[str, Any]) -> str:
    from tidegate.errors import Error, render

    if isinstance(problem, Error):
        return render(problem)
    first = str(fields["message"]).split("\n", 1)[0]
    return f"INTERNAL: {first}\n  hint: the same command with --debug shows where"
