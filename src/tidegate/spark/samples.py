"""Ordinary values of every type, as rows on which expressions are tried."""

from __future__ import annotations

from tidegate.core.quoting import identifier, literal
from tidegate.core.schema import Schema
from tidegate.core.types import Type, parse_type

TEXTS = ("a", "1", "2024-01-31", "2024-01-31 10:20:30", '{"a": 1}', "UTC", "UTF-8", "%s")
NUMBERS = (1, 2, 3, 5, 7, 10, 12, 16)
DAYS = tuple(f"2024-0{month}-15" for month in range(1, 9))


def sample_rows(schema: Schema) -> str:
    """A query with a few rows of ordinary values."""
    if not schema:
        return "SELECT * FROM VALUES (0) AS `__samples`(`__none`)"
    names = ", ".join(identifier(column.name) for column in schema)
    types = [parse_type(column.type) for column in schema]
    rows = (f"({', '.join(sample(type, number) for type in types)})" for number in range(len(TEXTS)))
    return f"SELECT * FROM VALUES {', '.join(rows)} AS `__samples`({names})"


def sample(type: Type, number: int) -> str:
    """The SQL of an ordinary value; NULL for a type without one."""
    match type.name:
        case "string":
            return literal(TEXTS[number])
        case "binary":
            return f"encode({literal(TEXTS[number])}, 'UTF-8')"
        case "boolean":
            return "true" if number % 2 else "false"
        case "tinyint" | "smallint" | "int" | "bigint" | "float" | "double" | "decimal":
            return f"CAST({NUMBERS[number]} AS {type})"
        case "date" | "timestamp" | "timestamp_ntz":
            return f"CAST('{DAYS[number]}' AS {type})"
        case "array":
            return f"array({sample(type.inner[0], number)}, {sample(type.inner[0], number)})"
        case "map":
            return f"map({sample(type.inner[0], number)}, {sample(type.inner[1], number)})"
        case "struct":
            pairs = zip(type.fields, type.inner, strict=True)
            return f"named_struct({', '.join(f'{literal(name)}, {sample(inner, number)}' for name, inner in pairs)})"
    return f"CAST(NULL AS {type})"
