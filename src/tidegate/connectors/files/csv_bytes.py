"""CSV files whose bytes reach the columns unchanged. Spark's CSV reader replaces bytes that are not UTF-8; so files are
read as ISO-8859-1, in which every byte is a character, and texts are decoded afterwards, without a check."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidegate.core.quoting import identifier
from tidegate.core.schema import Schema
from tidegate.formats.malformed import CORRUPT

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

ENCODING = "ISO-8859-1"


def bytes_as_characters(text: str) -> str:
    """A text as it stands in a file that is read as ISO-8859-1."""
    return text.encode().decode(ENCODING)


def decode_texts(frame: DataFrame, columns: Schema) -> DataFrame:
    """The columns under their names, and texts as they are in the file; with the metadata of files."""
    named = [(bytes_as_characters(column.name), column.name, column.type) for column in columns]
    items = [
        f"{_decoded(identifier(read)) if type == 'string' else identifier(read)} AS {identifier(name)}"
        for read, name, type in [*named, (CORRUPT, CORRUPT, "string")]
    ]
    return frame.selectExpr(*items, "_metadata")


def _decoded(text: str) -> str:
    return f"IF(octet_length({text}) = char_length({text}), {text}, CAST(encode({text}, '{ENCODING}') AS STRING))"
