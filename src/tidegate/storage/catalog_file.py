"""The catalog as a file: all relations in the order of creation, with their SQL."""

from __future__ import annotations

from dataclasses import dataclass

from tidegate.catalog.catalog import Catalog
from tidegate.catalog.relation import ConnectorNote, Relation, TimeNote
from tidegate.core.failpoints import failpoint
from tidegate.core.records import Codec
from tidegate.core.schema import Column
from tidegate.storage.documents import Document
from tidegate.storage.objects import Storage

NAME = "catalog.json"
CODEC = Codec({"column": Column, "connector": ConnectorNote, "relation": Relation, "time_note": TimeNote})


@dataclass(frozen=True)
class CatalogRecord:
    """All relations, in the order of their creation."""

    relations: tuple[Relation, ...]


def document(storage: Storage) -> Document[CatalogRecord]:
    return Document(storage, NAME, "catalog", CatalogRecord, CODEC)


def save(catalog: Catalog, storage: Storage) -> None:
    """Replaces the stored catalog, durably."""
    document(storage).write(CatalogRecord(tuple(catalog)))
    failpoint("catalog.written")


def load(storage: Storage) -> Catalog:
    """The stored catalog; FOLDER_DAMAGED if it is missing or damaged."""
    return Catalog(document(storage).read().relations)
