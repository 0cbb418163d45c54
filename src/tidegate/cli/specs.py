"""`tidegate test`: run spec files."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tidegate.testing.spec.files import FileResult, Summary


def run_specs(paths: Sequence[Path], *, restarts: bool, word: str | None, jobs: int, as_json: bool) -> int:
    """Print a line per file and `N passed, N failed`. Returns the exit code: 1 if a file failed."""
    from tidegate.testing.spec.files import run_paths

    _check_paths(paths)
    summary = run_paths(paths, restarts, word, jobs, on_result=None if as_json else _print_result)
    print(json.dumps(_as_dict(summary), indent=2) if as_json else f"\n{summary}")
    return 1 if summary.failed else 0


def _check_paths(paths: Sequence[Path]) -> None:
    from tidegate.errors import OptionError
    from tidegate.testing.spec.files import find

    for path in paths:
        if not path.exists():
            raise OptionError("INVALID_OPTION", f"{path} does not exist")
        if not find([path]):
            raise OptionError("INVALID_OPTION", f"{path} has no spec files", hint="their names end in .spec")


def _print_result(result: FileResult) -> None:
    print(f"{'ok  ' if result.ok else 'FAIL'}  {result.path}  {result.seconds:.1f} s", flush=True)
    for failure in result.failures:
        print("\n" + failure.render() + "\n", flush=True)


def _as_dict(summary: Summary) -> dict[str, object]:
    return {
        "passed": summary.passed,
        "failed": summary.failed,
        "files": [
            {
                "path": str(result.path),
                "title": result.title,
                "ok": result.ok,
                "seconds": round(result.seconds, 3),
                "failures": [{"line": f.line, "step": f.step, "message": f.message} for f in result.failures],
            }
            for result in summary.results
        ],
    }
