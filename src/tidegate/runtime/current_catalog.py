"""The catalog in force. Statements replace it as a whole."""

from __future__ import annotations

from pathlib import Path

from tidegate.catalog import Catalog, store


class CurrentCatalog:
    """Holds the catalog of an open data folder for everyone who reads it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.value = store.load(path)

    def replace(self, catalog: Catalog) -> None:
        """Make a catalog the current one, durably."""
        store.save(catalog, self._path)
        self.value = catalog
