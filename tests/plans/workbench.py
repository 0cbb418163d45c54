"""Applies statements to a catalog, without a pipeline."""

from __future__ import annotations

from tidegate import bind, compile
from tidegate.bind import Analyzer
from tidegate.catalog import Catalog
from tidegate.errors import Error
from tidegate.sql import parse
from tidegate.sql import statements as s

RELATIONS = """
CREATE SOURCE bids (
  item STRING, price BIGINT, qty INT, ts TIMESTAMP, addr STRUCT<city: STRING, zip: INT>, tags ARRAY<STRING>,
  WATERMARK FOR ts AS ts - INTERVAL '5' SECOND
);
CREATE TABLE users (id INT PRIMARY KEY, name STRING, region STRING);
CREATE TABLE moves (a INT, b STRING);
CREATE TABLE clicks (a INT, b STRING) WITH ('append_only' = 'true');
"""


def apply(text: str, catalog: Catalog, analyzer: Analyzer) -> Catalog:
    """The catalog after all statements of a text; errors carry the text."""
    try:
        for statement in parse(text).statements:
            catalog = _apply(statement, catalog, analyzer)
    except Error as error:
        raise error.in_text(text) from None
    return catalog


def _apply(statement: s.Statement, catalog: Catalog, analyzer: Analyzer) -> Catalog:
    match statement:
        case s.CreateRelation():
            entry = bind.bind_relation(statement, analyzer)
        case s.CreateView():
            view = compile.compile_view(statement, catalog, analyzer)
            bind.check_constants(view.bound, analyzer)
            entry = compile.view_entry(statement, view)
        case s.CreateSink():
            entry, _ = compile.compile_sink(statement, catalog, analyzer)
        case s.Drop():
            return catalog.drop(statement.name.text, cascade=statement.cascade, span=statement.name.span)
        case s.Select():
            bind.bind_select(statement.query, catalog)
            return catalog
        case _:
            raise TypeError(f"{type(statement).__name__} changes no catalog")
    make = catalog.replace if statement.or_replace else catalog.create
    return make(entry, statement.name.span)
