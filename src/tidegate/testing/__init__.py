"""Testing pipelines: spec files, the oracle, random views."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tidegate.testing.paths import Summary, run_paths
    from tidegate.testing.spec.files import FileResult

_HOMES = {
    "FileResult": "tidegate.testing.spec.files",
    "Summary": "tidegate.testing.paths",
    "run_paths": "tidegate.testing.paths",
}

__all__ = ["FileResult", "Summary", "run_paths"]


def __getattr__(name: str) -> Any:
    """Loaded when first used: the naive reference model in here is used where there is no Spark."""
    if name not in _HOMES:
        raise AttributeError(f"module 'tidegate.testing' has no attribute '{name}'")
    return getattr(import_module(_HOMES[name]), name)
