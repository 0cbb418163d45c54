"""Python values of users: without the wrappers of other libraries, and as text in error messages."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from decimal import Decimal
from typing import Any


class InvalidValue(Exception):
    """A value that its column cannot take. `path` is where inside a nested value, such as `[2]` or `.city`."""

    def __init__(self, reason: str, path: str = "", hint: str | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.path = path
        self.hint = hint


class UnknownField(InvalidValue):
    """A key that a struct does not have."""


def plain(value: Any) -> Any:
    """NumPy scalars as Python values; pandas' NA and NaT as None."""
    kind = type(value)
    if kind.__name__ in ("NAType", "NaTType"):
        return None
    if kind.__module__ == "numpy" and hasattr(value, "item") and getattr(value, "ndim", 1) == 0:
        return _numpy_time(value) if kind.__name__ in ("datetime64", "timedelta64") else value.item()
    return value


def _numpy_time(value: Any) -> Any:
    exact: Any = value.astype(f"{type(value).__name__}[us]").item()
    return exact


def excerpt(value: Any) -> str:
    """A value as error messages show it, shortened if it is long. It may be any object, even one without a text."""
    try:
        text = _text_of(value)
    except Exception:
        text = f"a value of type {type(value).__name__}"
    return text if len(text) <= 60 else text[:57] + "..."


def _text_of(value: Any) -> str:
    if isinstance(value, str):
        return f"'{value}'"
    if isinstance(value, int) and value.bit_length() > 1024:
        return f"a number of {value.bit_length()} bits"
    return str(value) if isinstance(value, (dt.datetime, dt.date, dt.time, Decimal)) else repr(value)


def mapping_of(value: Any) -> Mapping[str, Any] | None:
    """A value with named fields as a mapping: dict, dataclass, named tuple, row of Spark or SQLAlchemy; else None."""
    if isinstance(value, Mapping):
        return value
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in fields(value)}
    for method in ("asDict", "_asdict"):
        if isinstance(value, tuple) and hasattr(value, method):
            mapping: Mapping[str, Any] = getattr(value, method)()
            return mapping
    fields_by_name = getattr(value, "_mapping", None)
    return fields_by_name if isinstance(fields_by_name, Mapping) else None
