"""Python values as users have them: what they are without their wrappings, and how they look in an error text."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from decimal import Decimal
from typing import Any


class Refused(Exception):
    """A value that its column cannot take. `path` is where inside a nested value, such as `[2]` or `.city`."""

    def __init__(self, reason: str, path: str = "", hint: str | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.path = path
        self.hint = hint


class UnknownField(Refused):
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


def shown(value: Any) -> str:
    """A value in an error text, cut where it is long."""
    if isinstance(value, str):
        text = f"'{value}'"
    elif isinstance(value, (dt.datetime, dt.date, dt.time, Decimal)):
        text = str(value)
    else:
        text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def mapping_of(value: Any) -> Mapping[str, Any] | None:
    """What has named parts, as a mapping: dicts, dataclasses, named tuples, rows of Spark or SQLAlchemy. Else None."""
    if isinstance(value, Mapping):
        return value
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in fields(value)}
    for method in ("asDict", "_asdict"):
        if isinstance(value, tuple) and hasattr(value, method):
            named: Mapping[str, Any] = getattr(value, method)()
            return named
    found = getattr(value, "_mapping", None)
    return found if isinstance(found, Mapping) else None
