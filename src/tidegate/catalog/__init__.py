"""Relations, their columns, keys and time annotations, in one namespace."""

from tidegate.catalog.catalog import Catalog
from tidegate.catalog.relation import ConnectorNote, Relation, TimeNote
from tidegate.catalog.schema import Column, Schema, names
from tidegate.catalog.store import load, save

__all__ = ["Catalog", "Column", "ConnectorNote", "Relation", "Schema", "TimeNote", "load", "names", "save"]
