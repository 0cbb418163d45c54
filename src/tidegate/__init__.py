"""Streaming SQL on Apache Spark that lets you say when results leave."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tidegate.database import Database, connect
    from tidegate.errors import (
        CatalogError,
        Error,
        InputError,
        OptionError,
        PipelineError,
        SetupError,
        SqlError,
        SqlSyntaxError,
    )
    from tidegate.runtime.batch import Batch
    from tidegate.runtime.results import Change, Result, StepReport
    from tidegate.runtime.subscription import Subscription

__version__ = "0.1.0"

_HOMES = {
    "Batch": "tidegate.runtime.batch",
    "CatalogError": "tidegate.errors",
    "Change": "tidegate.runtime.results",
    "Database": "tidegate.database",
    "Error": "tidegate.errors",
    "InputError": "tidegate.errors",
    "OptionError": "tidegate.errors",
    "PipelineError": "tidegate.errors",
    "Result": "tidegate.runtime.results",
    "SetupError": "tidegate.errors",
    "SqlError": "tidegate.errors",
    "SqlSyntaxError": "tidegate.errors",
    "StepReport": "tidegate.runtime.results",
    "Subscription": "tidegate.runtime.subscription",
    "connect": "tidegate.database",
}

__all__ = [
    "Batch",
    "CatalogError",
    "Change",
    "Database",
    "Error",
    "InputError",
    "OptionError",
    "PipelineError",
    "Result",
    "SetupError",
    "SqlError",
    "SqlSyntaxError",
    "StepReport",
    "Subscription",
    "__version__",
    "connect",
]


def __getattr__(name: str) -> Any:
    """Load a public name when it is first used: `tidegate --help` needs none of them."""
    if name not in _HOMES:
        raise AttributeError(f"module 'tidegate' has no attribute '{name}'")
    return getattr(import_module(_HOMES[name]), name)
