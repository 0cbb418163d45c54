"""Random values: few different ones, so that rows meet; NULLs and the odd ends of each type."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from random import Random
from typing import Any

from tests.model.random_views.queries import Field

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
WIDE: dict[str, tuple[Any, ...]] = {
    "int": (2**31 - 1, -(2**31)),
    "bigint": (2**63 - 1, -(2**63), 2**53 + 1),
    "double": (math.nan, math.inf, -math.inf, -0.0),
    "decimal(10,2)": (Decimal("99999999.99"), Decimal("-99999999.99")),
}
TEXTS = ("a", "b", "B", "", " a", "é", "x|y", "NULL", "it's", "🎉")


def random_value(random: Random, field: Field) -> Any:
    """A value of the field's type, or NULL."""
    if random.random() < 0.12:
        return None
    if field.wide and random.random() < 0.3:
        return random.choice(WIDE[field.type])
    match field.type:
        case "int" | "bigint":
            return random.randint(-3, 4)
        case "double":
            return random.randint(-8, 8) / 4
        case "decimal(10,2)":
            return Decimal(random.randint(-300, 300)) / 100
        case "string":
            return random.choice(TEXTS)
        case "boolean":
            return random.random() < 0.5
        case "timestamp":
            base = datetime(2020, 1, 1, tzinfo=UTC) if random.random() < 0.8 else EPOCH - timedelta(minutes=1)
            return base + timedelta(seconds=random.randint(0, 90))
        case _:
            return date(1969, 12, 30) + timedelta(days=random.choice((0, 1, 2, 18264, 18265)))
