"""The catalog in force. Statements replace it as a whole."""

from __future__ import annotations

from tidegate.catalog import Catalog
from tidegate.storage import catalog_file
from tidegate.storage.objects import Storage


class CurrentCatalog:
    """Holds the catalog of an open data folder for everyone who reads it. With `follow` it is what another process has
    stored last."""

    def __init__(self, storage: Storage, follow: bool = False) -> None:
        self._storage, self._follow = storage, follow
        self._stored = self._bytes() if follow else None
        self._value = catalog_file.load(storage)

    @property
    def value(self) -> Catalog:
        if self._follow and (stored := self._bytes()) != self._stored:
            self._value, self._stored = catalog_file.load(self._storage), stored
        return self._value

    def _bytes(self) -> bytes | None:
        """The file as it is now, None if it is missing."""
        try:
            return self._storage.read(catalog_file.NAME)
        except FileNotFoundError:
            return None

    def replace(self, catalog: Catalog) -> None:
        """Make a catalog the current one, durably."""
        catalog_file.save(catalog, self._storage)
        self._value = catalog
