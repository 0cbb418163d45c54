"""The statements of a page that need somebody at the other end."""

from __future__ import annotations

import re
from pathlib import Path

from tidegate.catalog.bus import EVENTS, is_bus
from tidegate.connectors import registry
from tidegate.connectors.contract import Sink, Source
from tidegate.core.schema import Column
from tidegate.sql import parse
from tidegate.sql import statements as s

DOCS = Path(__file__).parents[2] / "docs"
_VIEW = (Column("region", "string"), Column("revenue", "decimal(10,2)"))


def connectors(page: str) -> dict[str, Sink | Source]:
    """What the sinks and sources of a page are built to, with every option checked."""
    text = (DOCS / page).read_text(encoding="utf-8")
    blocks = re.findall(r"^```sql at an? \w+\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    found: dict[str, Sink | Source] = {}
    for statement in (each for block in blocks for each in parse(block).statements):
        if isinstance(statement, s.CreateSink) and statement.relation is not None:
            given, reads = statement.connector, statement.relation.text
            options = [(option.key, option.value, option.span) for option in given.options]
            columns = EVENTS.columns if is_bus(reads) else _VIEW
            found[statement.name.text] = registry.sink(given.kind, statement.name.text, columns, options, reads=reads)
        elif isinstance(statement, s.CreateRelation) and statement.connector is not None:
            given = statement.connector
            options = [(option.key, option.value, option.span) for option in given.options]
            found[statement.name.text] = registry.source(given.kind, statement.name.text, (), options)
    return found
