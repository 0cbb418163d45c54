"""Compares multisets of rows. Doubles are equal within a relative tolerance of 1e-9."""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from tidegate.core.types import FLOATING, Type
from tidegate.testing.spec.values import JsonText, members, pairs

TOLERANCE = 1e-9
NAN = "NaN"


@dataclass(frozen=True)
class Comparable:
    """A row in canonical values, with its op (empty for rows that are not changes)."""

    values: tuple[Any, ...]
    op: str = ""


@dataclass(frozen=True)
class Diff:
    """The difference of two multisets: index pairs of equal rows, and the indices left on either side."""

    agreed: tuple[tuple[int, int], ...]
    missing: tuple[int, ...]
    unexpected: tuple[int, ...]

    def __bool__(self) -> bool:
        return bool(self.missing or self.unexpected)


def comparable(row: Sequence[Any], kinds: Sequence[Type], op: str = "") -> Comparable:
    """A row in canonical values."""
    return Comparable(tuple(canonical(value, kind) for value, kind in zip(row, kinds, strict=True)), op)


def canonical(value: Any, kind: Type) -> Any:
    """A hashable value that is the same for all Python values that are equal by their type."""
    if value is None:
        return None
    if kind.name in FLOATING:
        return NAN if value == NAN or math.isnan(value) else float(value) + 0.0
    match kind.name:
        case "timestamp":
            return (value if value.tzinfo else value.replace(tzinfo=UTC)).astimezone(UTC).replace(tzinfo=None)
        case "timestamp_ntz":
            return value.replace(tzinfo=None)
        case "date":
            return value.date() if isinstance(value, datetime) else value
        case "array":
            return tuple(canonical(item, kind.inner[0]) for item in value)
        case "struct":
            fields = zip(members(value, kind), kind.inner, strict=True)
            return tuple(canonical(member, inner) for member, inner in fields)
        case "map":
            key, item = kind.inner
            return frozenset((canonical(name, key), canonical(entry, item)) for name, entry in pairs(value))
        case "binary":
            return bytes(value)
        case _:
            return value


def diff(expected: Sequence[Comparable], actual: Sequence[Comparable], slack: float = 0.0) -> Diff:
    """Pair up equal rows, then those equal within tolerance, rows with exact ops before those with bare ones.

    `slack` is an additional absolute tolerance, for expectations that were computed in doubles."""
    open_actual: dict[Comparable, list[int]] = defaultdict(list)
    for index, row in enumerate(actual):
        open_actual[row].append(index)
    agreed, left = [], []
    for index, row in enumerate(expected):
        equal = open_actual.get(row)
        if equal:
            agreed.append((index, equal.pop(0)))
        else:
            left.append(index)
    rest = sorted(index for indices in open_actual.values() for index in indices)
    missing = []
    for index in sorted(left, key=lambda index: len(expected[index].op) == 1):
        match = next((other for other in rest if agrees(expected[index], actual[other], slack)), None)
        if match is None:
            missing.append(index)
        else:
            rest.remove(match)
            agreed.append((index, match))
    return Diff(tuple(sorted(agreed)), tuple(sorted(missing)), tuple(rest))


def agrees(expected: Comparable, actual: Comparable, slack: float = 0.0) -> bool:
    """True if a row is the expected one; a bare `+` or `-` stands for any op of its sign."""
    return (
        actual.op.startswith(expected.op)
        and len(expected.values) == len(actual.values)
        and all(same(one, other, slack) for one, other in zip(expected.values, actual.values, strict=True))
    )


def same(one: Any, other: Any, slack: float = 0.0) -> bool:
    """Equality of canonical values, with a tolerance for doubles; JSON texts are compared as JSON."""
    if isinstance(one, float) and isinstance(other, float):
        return one == other or math.isclose(one, other, rel_tol=TOLERANCE, abs_tol=slack)
    if isinstance(one, tuple) and isinstance(other, tuple):
        return len(one) == len(other) and all(same(left, right, slack) for left, right in zip(one, other, strict=True))
    if isinstance(one, JsonText) and isinstance(other, str):
        return _same_json(one, other)
    return bool(one == other)


def _same_json(one: str, other: str) -> bool:
    try:
        return bool(json.loads(one) == json.loads(other))
    except ValueError:
        return False
