"""Spark's type names as a small tree, so that values can be read and printed by type."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

INTEGRAL = frozenset({"tinyint", "smallint", "int", "bigint"})
FLOATING = frozenset({"float", "double"})

_ARROW = {
    pa.bool_(): "boolean",
    pa.int8(): "tinyint",
    pa.int16(): "smallint",
    pa.int32(): "int",
    pa.int64(): "bigint",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.date32(): "date",
    pa.null(): "void",
}


@dataclass(frozen=True)
class Type:
    """`array<int>` is Type("array", (Type("int"),)); a struct has `fields`, a decimal has `digits`."""

    name: str
    inner: tuple[Type, ...] = ()
    fields: tuple[str, ...] = ()
    digits: tuple[int, int] = (10, 0)

    def __str__(self) -> str:
        match self.name:
            case "decimal":
                return "decimal({},{})".format(*self.digits)
            case "struct":
                members = zip(self.fields, self.inner, strict=True)
                return f"struct<{','.join(f'{name}:{kind}' for name, kind in members)}>"
            case "array" | "map":
                return f"{self.name}<{','.join(map(str, self.inner))}>"
            case _:
                return self.name


def parse_type(text: str) -> Type:
    """The type that Spark prints as `text`."""
    text = text.strip()
    head, _, rest = text.partition("<")
    head = head.strip().lower()
    if head in ("array", "map"):
        return Type(head, tuple(parse_type(part) for part in _split(rest[:-1])))
    if head == "struct":
        members = [part.partition(":") for part in _split(rest[:-1])]
        return Type(
            head, tuple(parse_type(kind) for _, _, kind in members), tuple(name.strip(" `") for name, _, _ in members)
        )
    return _simple(text.lower())


def of_arrow(kind: pa.DataType) -> Type:
    """The Spark type that an Arrow column holds."""
    if kind in _ARROW:
        return Type(_ARROW[kind])
    if pa.types.is_decimal(kind):
        return Type("decimal", digits=(kind.precision, kind.scale))
    if pa.types.is_timestamp(kind):
        return Type("timestamp" if kind.tz else "timestamp_ntz")
    if pa.types.is_map(kind):
        return Type("map", (of_arrow(kind.key_type), of_arrow(kind.item_type)))
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return Type("array", (of_arrow(kind.value_type),))
    if pa.types.is_struct(kind):
        members = [kind.field(index) for index in range(kind.num_fields)]
        return Type("struct", tuple(of_arrow(one.type) for one in members), tuple(one.name for one in members))
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return Type("binary")
    return Type("string")


def _simple(text: str) -> Type:
    if text.startswith("decimal"):
        inside = text.removeprefix("decimal").strip("() ")
        precision, _, scale = inside.partition(",")
        return Type("decimal", digits=(int(precision or 10), int(scale or 0)))
    if text.startswith(("varchar", "char")):
        return Type("string")
    return Type({"integer": "int", "long": "bigint", "short": "smallint", "byte": "tinyint"}.get(text, text))


def _split(text: str) -> list[str]:
    """Splits at the commas that are not inside brackets."""
    parts, depth = [""], 0
    for letter in text:
        depth += (letter in "<(") - (letter in ">)")
        if letter == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return parts
