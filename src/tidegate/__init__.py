"""Streaming SQL on Apache Spark that lets you say when results leave."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tidegate.database import Database, connect
    from tidegate.errors import Error
    from tidegate.runtime.results import Change, Result, StepReport

__version__ = "0.1.0"

_HOMES = {
    "Change": "tidegate.runtime.results",
    "Database": "tidegate.database",
    "Error": "tidegate.errors",
    "Result": "tidegate.runtime.results",
    "StepReport": "tidegate.runtime.results",
    "connect": "tidegate.database",
}

__all__ = ["Change", "Database", "Error", "Result", "StepReport", "__version__", "connect"]


def __getattr__(name: str) -> Any:
    """The public names are loaded when they are first used: `tidegate --help` needs none of them."""
    if name not in _HOMES:
        raise AttributeError(f"module 'tidegate' has no attribute '{name}'")
    return getattr(import_module(_HOMES[name]), name)
