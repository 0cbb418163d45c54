"""Values that are not stored: texts that are not UTF-8, times outside of the years 1 to 9999, and large values. Spark
computes them without complaint; all here is SQL by which it finds them."""

from __future__ import annotations

import re

from tidegate.core.quoting import identifier
from tidegate.core.types import Type, parse_type
from tidegate.spark.can_fail import column_of
from tidegate.spark.consumers import Consumer, rounds_of

MAX_BYTES = 1 << 24
"""Larger values are not stored: the rows of a batch have to fit into memory together."""

_AMPLIFYING = re.compile(
    r"\b(repeat|array_repeat|sequence|[lr]pad|space|replace|regexp_replace|translate|overlay|concat(_ws)?|array_join"
    r"|flatten|transform|aggregate|reduce|zip_with|arrays_zip|format_string|printf|map_concat|array_insert)\(",
    re.IGNORECASE,
)
"""Functions that make large values of small ones."""

REASONS = {
    "string": "the text is not UTF-8, or larger than 16 MiB",
    "binary": "it is larger than 16 MiB",
    **dict.fromkeys(("date", "timestamp", "timestamp_ntz"), "the time is outside of the years 1 to 9999"),
}

FIRST_TIME, LAST_TIME = "0001-01-01 00:00:00", "9999-12-31 23:59:59.999999"


def unfit(consumer: Consumer, prefix: str) -> list[str]:
    """Conditions on the last projection of a branch: a computed value that no view can hold, since it is a text that is
    not UTF-8, or a time outside of the years 1 to 9999."""
    computed: set[str] = set()
    for number, (_, items, _) in enumerate(rounds_of(consumer.branch)):
        read = [(name, column_of(sql)) for name, sql in items]
        computed = {name for name, source in read if not source or (number and source in computed)}
    tests = []
    for column in consumer.branch.columns:
        if column.name not in computed:
            continue
        test = unfit_value(f"{prefix}.{identifier(column.name)}", column.type)
        tests += [test] if test else []
    return tests


def unfit_value(sql: str, type: str) -> str | None:
    """The condition under which a value of a type cannot be held; None if every value can be."""
    size, misfit = _bytes(sql, parse_type(type), 0), misfit_value(sql, type)
    tests = [f"coalesce({size} > {MAX_BYTES}, FALSE)"] if size is not None else []
    tests += [misfit] if misfit is not None else []
    return f"({' OR '.join(tests)})" if tests else None


def misfit_value(sql: str, type: str) -> str | None:
    """The condition under which a value, however small, cannot be held; None if every value of the type can be."""
    return _misfit(sql, parse_type(type), 0)


def bounded(sql: str, type: str) -> str:
    """The expression, raising an error for a value that is too large. A value that an expression made of little input
    must not reach the rows that Spark copies, since what happens there is not caught."""
    size = _bytes("v", parse_type(type), 0) if _AMPLIFYING.search(sql) else None
    if size is None:
        return sql
    checked = f"v -> IF(coalesce({size} > {MAX_BYTES}, FALSE), raise_error('it is larger than 16 MiB'), v)"
    return f"element_at(transform(array({sql}), {checked}), 1)"


def _bytes(sql: str, type: Type, depth: int) -> str | None:
    """About how many bytes a value has; None if a value of the type is never large."""
    match type.name:
        case "string" | "binary":
            return f"octet_length({sql})"
        case "array":
            of_element = _bytes(f"e{depth}", type.inner[0], depth + 1)
            slots = f"8L * size({sql})"
            if of_element is None:
                return slots
            total = f"aggregate({sql}, {slots}, (b{depth}, e{depth}) -> b{depth} + coalesce({of_element}, 0L))"
            return f"IF({slots} > {MAX_BYTES}, {slots}, {total})"
        case "map":
            parts = zip(("map_keys", "map_values"), type.inner, strict=True)
            sizes = (_bytes(f"{part}({sql})", Type("array", (inner,)), depth) for part, inner in parts)
        case "struct":
            fields = zip(type.fields, type.inner, strict=True)
            sizes = (_bytes(f"{sql}.{identifier(name)}", inner, depth) for name, inner in fields)
        case _:
            return None
    known = [f"coalesce({size}, 0L)" for size in sizes if size is not None]
    return f"({' + '.join(known)})" if known else None


def _misfit(sql: str, type: Type, depth: int) -> str | None:
    tests: list[str | None]
    match type.name:
        case "string":
            tests = [f"NOT is_valid_utf8({sql})"]
        case "date" | "timestamp" | "timestamp_ntz":
            cut = slice(0, 10) if type.name == "date" else slice(None)
            first, last = (f"CAST('{each[cut]}' AS {type.name})" for each in (FIRST_TIME, LAST_TIME))
            tests = [f"{sql} NOT BETWEEN {first} AND {last}"]
        case "struct":
            fields = zip(type.fields, type.inner, strict=True)
            tests = [_misfit(f"{sql}.{identifier(name)}", inner, depth) for name, inner in fields]
        case "array":
            tests = [_any_misfit(sql, type.inner[0], depth)]
        case "map":
            keys, values = type.inner
            tests = [_any_misfit(f"map_keys({sql})", keys, depth), _any_misfit(f"map_values({sql})", values, depth)]
        case _:
            return None
    found = [f"coalesce({test}, FALSE)" for test in tests if test is not None]
    return f"({' OR '.join(found)})" if found else None


def _any_misfit(array: str, type: Type, depth: int) -> str | None:
    """The condition under which an element of an array cannot be held."""
    test = _misfit(f"e{depth}", type, depth + 1)
    return None if test is None else f"exists({array}, e{depth} -> {test})"
