"""Spark's types between its JSON and the names that we keep (`bigint`, `array<struct<a:int>>`)."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

from pyspark.sql.types import DataType

SIMPLE = {"long": "bigint", "integer": "int", "short": "smallint", "byte": "tinyint"}


def name_of(found: Any) -> str:
    """The name of a type, from its JSON."""
    if isinstance(found, str):
        return SIMPLE.get(found, found)
    match found["type"]:
        case "array":
            return f"array<{name_of(found['elementType'])}>"
        case "map":
            return f"map<{name_of(found['keyType'])},{name_of(found['valueType'])}>"
        case "struct":
            fields = (f"{_quoted(field['name'])}:{name_of(field['type'])}" for field in found["fields"])
            return f"struct<{','.join(fields)}>"
        case other:
            return name_of(other)


@lru_cache(maxsize=4096)
def json_type(name: str) -> Any:
    """The JSON of a type, from its name."""
    return "void" if name == "void" else DataType.fromDDL(name).jsonValue()


def _quoted(field: str) -> str:
    return field if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", field) else "`" + field.replace("`", "``") + "`"
