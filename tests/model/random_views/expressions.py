"""Random scalar expressions, conditions and aggregates over given fields."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from tests.model.random_views.queries import Field, Item

NUMBERS = ("int", "bigint", "double", "decimal(10,2)")
TYPES = (*NUMBERS, "string", "boolean", "timestamp", "date")
LITERALS = {
    "int": ("0", "1", "-1", "3"),
    "bigint": ("CAST(0 AS BIGINT)", "CAST(2 AS BIGINT)", "CAST(-5 AS BIGINT)"),
    "double": ("0.0D", "0.5D", "-2.25D"),
    "decimal(10,2)": ("CAST(0.10 AS DECIMAL(10,2))", "CAST(-1.50 AS DECIMAL(10,2))"),
    "string": ("'a'", "''", "'B'"),
    "boolean": ("true", "false"),
    "timestamp": ("TIMESTAMP '2020-01-01 00:00:10'", "TIMESTAMP '1969-12-31 23:59:59'"),
    "date": ("DATE '2020-01-02'", "DATE '1970-01-01'"),
}


def usable(fields: Sequence[Field], *types: str) -> list[Field]:
    """The fields of these types on which something may depend."""
    return [field for field in fields if field.type in types and not field.approximate]


def scalar(random: Random, fields: Sequence[Field], name: str) -> Item:
    """A column as it is, or something computed from columns."""
    known = [field for field in fields if not field.approximate]
    if not known or random.random() < 0.5:
        field = random.choice(list(fields))
        return Item(field.name, Field(name, field.type, field.approximate, field.wide))
    field = random.choice(known)
    sql, kind = _computed(random, field, known)
    return Item(sql, Field(name, kind, wide=field.wide and kind in NUMBERS))


def _computed(random: Random, field: Field, fields: Sequence[Field]) -> tuple[str, str]:
    name = field.name
    options: list[tuple[str, str]] = [
        (f"({name} IS NULL)", "boolean"),
        (f"CASE WHEN {condition(random, fields)} THEN {name} END", field.type),
        (f"coalesce({name}, {random.choice(LITERALS[field.type])})", field.type),
    ]
    match field.type:
        case "int":
            options += [(f"({name} + 1)", "int"), (f"({name} % 3)", "int"), (f"(- {name})", "int")]
        case "bigint":
            options += [(f"({name} * 2)", "bigint"), (f"({name} % 5)", "bigint")]
        case "double":
            options += [(f"({name} * 2)", "double"), (f"floor({name} / 2) * 1.0D", "double")]
        case "string":
            options += [(f"upper({name})", "string"), (f"length({name})", "int"), (f"concat({name}, '!')", "string")]
        case "boolean":
            options.append((f"(NOT {name})", "boolean"))
        case "timestamp":
            options += [(f"date_trunc('MINUTE', {name})", "timestamp"), (f"second({name})", "int")]
        case "date":
            options += [(f"date_add({name}, 1)", "date"), (f"year({name})", "int")]
    return random.choice(options)


def condition(random: Random, fields: Sequence[Field], depth: int = 1) -> str:
    """A condition that may be true, false or neither."""
    known = [field for field in fields if not field.approximate and field.type in LITERALS]
    if depth and random.random() < 0.35:
        word = random.choice(("AND", "OR"))
        return f"({condition(random, fields, depth - 1)} {word} {condition(random, fields, depth - 1)})"
    if not known:
        return "true"
    field = random.choice(known)
    literals = LITERALS[field.type]
    peers = [one.name for one in known if one.type == field.type]
    return random.choice(
        (
            f"{field.name} {random.choice(('<', '<=', '=', '<>', '>=', '>'))} {random.choice(literals)}",
            f"{field.name} IS {random.choice(('', 'NOT '))}NULL",
            f"{field.name} IN ({', '.join(literals[:2])})",
            f"NOT ({field.name} = {random.choice(literals)})",
            f"{field.name} IS NOT DISTINCT FROM {random.choice(peers)}",
        )
    )


def aggregate(random: Random, fields: Sequence[Field], name: str) -> Item:
    """An aggregate, perhaps of distinct values, perhaps of some rows only."""
    item = _aggregate(random, fields, name)
    if random.random() < 0.25:
        return Item(f"{item.sql} FILTER (WHERE {condition(random, fields, 0)})", item.field)
    return item


def _aggregate(random: Random, fields: Sequence[Field], name: str) -> Item:
    known = [field for field in fields if not field.approximate and field.type in LITERALS]
    if not known or random.random() < 0.2:
        return Item("COUNT(*)", Field(name, "bigint"))
    field = random.choice(known)
    distinct = "DISTINCT " if random.random() < 0.3 else ""
    options = [
        Item(f"COUNT({distinct}{field.name})", Field(name, "bigint")),
        Item(f"MIN({field.name})", Field(name, field.type, wide=field.wide)),
        Item(f"MAX({field.name})", Field(name, field.type, wide=field.wide)),
        Item(f"ARRAY_AGG({field.name})", Field(name, f"array<{field.type}>", approximate=True)),
    ]
    if field.type == "boolean":
        options += [Item(f"{word}({field.name})", Field(name, "boolean")) for word in ("BOOL_AND", "BOOL_OR")]
    if field.type in NUMBERS:
        options += 3 * [Item(f"SUM({distinct}{field.name})", _sum(field, name))]
    if field.type in NUMBERS and not field.wide:
        options.append(Item(f"AVG({distinct}{field.name})", Field(name, _mean(field), approximate=True)))
        spread = random.choice(("VAR_POP", "VAR_SAMP", "STDDEV_POP", "STDDEV_SAMP"))
        options.append(Item(f"{spread}({field.name})", Field(name, "double", approximate=True)))
    return random.choice(options)


def _sum(field: Field, name: str) -> Field:
    if field.type == "decimal(10,2)":
        return Field(name, "decimal(20,2)", approximate=True)
    if field.type == "double":
        return Field(name, "double", approximate=field.wide, wide=field.wide)
    return Field(name, "bigint", wide=True)


def _mean(field: Field) -> str:
    return "decimal(14,6)" if field.type == "decimal(10,2)" else "double"
