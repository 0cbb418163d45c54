"""What is wrong with a row that Spark's CSV or JSON reader could not read, as Spark SQL.

The reader leaves the text of such a row in a column of its own and reads what it can; it does not say what failed. So
the text is parsed again, every column as text, and compared: a column that has text but no value is the culprit. Only
malformed rows pay for that.
"""

from __future__ import annotations

from tidegate.connectors.files.options import ReadOptions
from tidegate.core.quoting import identifier, literal
from tidegate.core.schema import Schema

CORRUPT = "__corrupt"


def error_text(columns: Schema, options: ReadOptions) -> str:
    """An expression: NULL for a good row, else what is wrong with it.

    It mentions every column, so that every column is always read: whether a row is malformed must not depend on which
    columns a query happens to use.
    """
    texts = _texts(columns, options)
    whole = literal(f"not a row of ({', '.join(f'{c.name} {c.type.upper()}' for c in columns)})")
    culprits = [_culprit(c.name, c.type, texts) for c in columns]
    shape = _wrong_shape(columns, options, texts)
    return (
        f"CASE WHEN {identifier(CORRUPT)} IS NULL THEN NULL {shape} ELSE coalesce({', '.join([*culprits, whole])}) END"
    )


def row_text(columns: Schema) -> str:
    """An expression: the row as JSON."""
    return f"to_json(struct({', '.join(identifier(c.name) for c in columns)}))"


def _texts(columns: Schema, options: ReadOptions) -> str:
    schema = ", ".join(f"{identifier(c.name)} STRING" for c in columns) + f", {identifier(CORRUPT)} STRING"
    function = "from_csv" if options.format == "csv" else "from_json"
    settings = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": CORRUPT}
    if options.format == "csv":
        settings |= {"sep": options.delimiter, "quote": options.quote, "escape": options.escape}
    pairs = ", ".join(f"{literal(key)}, {literal(value)}" for key, value in settings.items())
    return f"{function}({identifier(CORRUPT)}, {literal(schema)}, map({pairs}))"


def _wrong_shape(columns: Schema, options: ReadOptions, texts: str) -> str:
    """As text every column can be read, so what still fails has the wrong number of fields or is not JSON at all."""
    says = f"expected {len(columns)} fields" if options.format == "csv" else "not a JSON object"
    return f"WHEN {texts}.{identifier(CORRUPT)} IS NOT NULL THEN {literal(says)}"


def _culprit(name: str, type_: str, texts: str) -> str:
    text = f"{texts}.{identifier(name)}"
    says = (
        f"concat({literal(name + ': ')}, chr(39), left({text}, 80), chr(39), {literal(' is not a ' + type_.upper())})"
    )
    return f"CASE WHEN {identifier(name)} IS NULL AND {text} IS NOT NULL THEN {says} END"
