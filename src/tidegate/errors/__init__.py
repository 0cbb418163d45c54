"""Every error has a code, a message, a detail, a hint with the fix, and a span in the user's SQL."""

from tidegate.errors.catalogue import make, too_deep, warning
from tidegate.errors.nearest import did_you_mean, enumerated, nearest
from tidegate.errors.rendering import line_and_column, render
from tidegate.errors.storage import reported_storage_error, storage_error
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

__all__ = [
    "CatalogError",
    "Error",
    "InputError",
    "OptionError",
    "PipelineError",
    "SetupError",
    "Span",
    "SqlError",
    "SqlSyntaxError",
    "Warning_",
    "did_you_mean",
    "enumerated",
    "line_and_column",
    "make",
    "nearest",
    "render",
    "reported_storage_error",
    "storage_error",
    "too_deep",
    "warning",
]
