"""Names and texts as Spark SQL writes them."""

from __future__ import annotations

import re


def identifier(name: str) -> str:
    """A name in back quotes."""
    return "`" + name.replace("`", "``") + "`"


def literal(text: str) -> str:
    """A string literal."""
    return "'" + re.sub(r"(['\\])", r"\\\1", text) + "'"
