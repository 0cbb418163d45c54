"""The CREATE SINK and CREATE SOURCE statements of a page, for connectors whose peer the tests do not run."""

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
    """Builds the sinks and sources of a page, with every option checked."""
    text = (DOCS / page).read_text(encoding="utf-8")
    blocks = re.findall(r"^```sql at an? \w+\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    built: dict[str, Sink | Source] = {}
    for statement in (each for block in blocks for each in parse(block).statements):
        if isinstance(statement, s.CreateSink) and statement.relation is not None:
            connector, reads = statement.connector, statement.relation.text
            options = [(option.key, option.value, option.span) for option in connector.options]
            columns = EVENTS.columns if is_bus(reads) else _VIEW
            built[statement.name.text] = registry.sink(
                connector.kind, statement.name.text, columns, options, reads=reads
            )
        elif isinstance(statement, s.CreateRelation) and statement.connector is not None:
            connector = statement.connector
            options = [(option.key, option.value, option.span) for option in connector.options]
            built[statement.name.text] = registry.source(connector.kind, statement.name.text, (), options)
    return built
