"""The catalog in force. Statements replace it as a whole."""

from __future__ import annotations

from tidegate.catalog import Catalog
from tidegate.storage import catalog_file
from tidegate.storage.objects import Storage


class CurrentCatalog:
    """Holds the catalog of an open data folder for everyone who reads it."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self.value = catalog_file.load(storage)

    def replace(self, catalog: Catalog) -> None:
        """Make a catalog the current one, durably."""
        catalog_file.save(catalog, self._storage)
        self.value = catalog
