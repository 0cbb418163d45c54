"""Values for the parameters of a text: a sequence for `?`, a mapping for `:name`."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

from tidegate import errors
from tidegate.core.tables import counted
from tidegate.runtime.python_values import excerpt, plain
from tidegate.sql.parameters import Parameter, parameters
from tidegate.sql.statements import Script

Parameters = Sequence[Any] | Mapping[str, Any]
TYPES = (type(None), bool, int, float, Decimal, str, bytes, dt.datetime, dt.date, dt.timedelta)
LARGEST = (1 << 63) - 1


def bind_parameters(script: Script, values: Parameters | None) -> dict[str, Any]:
    """The value of each parameter by its name in the rendered SQL; INVALID_PARAMETER unless values and parameters
    match one to one."""
    expected = parameters(script)
    if values is None:
        values = {} if expected and not expected[0].positional else []
    if isinstance(values, str | bytes) or not isinstance(values, Mapping | Sequence):
        raise errors.make(
            "INVALID_PARAMETER",
            message=f"parameters are a list or a dict, not {excerpt(values)}",
            hint="write db.sql(text, [value]), or db.sql(text, {'name': value})",
        )
    by_name = _by_name(expected, values) if isinstance(values, Mapping) else _by_position(expected, values)
    return {parameter.name: _literal(parameter, by_name[parameter.name]) for parameter in expected}


def _by_name(expected: Sequence[Parameter], values: Mapping[str, Any]) -> Mapping[str, Any]:
    for parameter in expected:
        if parameter.positional:
            raise _invalid(parameter, "? takes its value from a list", "write db.sql(text, [value]), or :name for ?")
        if parameter.name not in values:
            suggestion = errors.did_you_mean(parameter.name, list(values), "parameters") if values else None
            hint = suggestion or f"write db.sql(text, {{'{parameter.name}': value}})"
            raise _invalid(parameter, f"parameter :{parameter.name} has no value", hint)
    if unknown := [str(name) for name in values if name not in {parameter.name for parameter in expected}]:
        raise errors.make("INVALID_PARAMETER", message=f"the text has no parameter :{unknown[0]}")
    return values


def _by_position(expected: Sequence[Parameter], values: Sequence[Any]) -> dict[str, Any]:
    for parameter in expected:
        if not parameter.positional:
            hint = f"write db.sql(text, {{'{parameter.name}': value}}), or ? for :{parameter.name}"
            raise _invalid(parameter, f":{parameter.name} takes its value from a dict", hint)
    if len(values) < len(expected):
        message = f"{counted(len(expected), 'parameter')}, but {counted(len(values), 'value')}"
        raise _invalid(expected[len(values)], message, "write db.sql(text, [value]) with a value for each ?")
    if len(values) > len(expected):
        message = f"{counted(len(expected), 'parameter')}, but {counted(len(values), 'value')}"
        raise errors.make("INVALID_PARAMETER", message=message)
    return dict(zip((parameter.name for parameter in expected), values, strict=True))


def _literal(parameter: Parameter, value: Any) -> Any:
    """A value as Spark takes it. A time without a zone is UTC, as it is in `insert`."""
    value = plain(value)
    if isinstance(value, bytearray | memoryview):
        value = bytes(value)
    if not isinstance(value, TYPES):
        hint = "write one parameter per value" if isinstance(value, list | tuple | set) else None
        raise _invalid(parameter, f"a parameter cannot be {excerpt(value)}, a {type(value).__name__}", hint)
    if isinstance(value, int) and not -LARGEST - 1 <= value <= LARGEST:
        raise _invalid(parameter, f"{excerpt(value)} does not fit into BIGINT", "pass a Decimal")
    if isinstance(value, dt.datetime) and value.tzinfo is None:
        return value.replace(tzinfo=dt.UTC)
    return value


def _invalid(parameter: Parameter, message: str, hint: str | None) -> errors.Error:
    return errors.make("INVALID_PARAMETER", message=message, hint=hint, span=parameter.span)
