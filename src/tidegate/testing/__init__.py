"""Testing pipelines: spec files, and the oracle that computes what views must contain."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tidegate.testing.spec.files import FileResult, Summary, run_paths

__all__ = ["FileResult", "Summary", "run_paths"]


def __getattr__(name: str) -> Any:
    """Import on first use: parts of the oracle are also used where there is no Spark."""
    if name not in __all__:
        raise AttributeError(f"module 'tidegate.testing' has no attribute '{name}'")
    return getattr(import_module("tidegate.testing.spec.files"), name)
