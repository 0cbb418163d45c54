"""Relations, their columns, keys and time annotations, in one namespace."""

from tidegate.catalog.catalog import Catalog
from tidegate.catalog.relation import ConnectorNote, Relation, TimeNote
from tidegate.core.schema import Column, Schema, names

__all__ = ["Catalog", "Column", "ConnectorNote", "Relation", "Schema", "TimeNote", "names"]
