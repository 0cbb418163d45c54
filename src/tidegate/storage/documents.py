"""JSON files with a checksum and an explicit schema, and the error for damaged files."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from tidegate import errors
from tidegate.core.files import seal, unseal
from tidegate.core.records import Codec
from tidegate.storage.objects import Storage

T = TypeVar("T")
MISSING = "it is missing"


def damaged(location: str, reason: object) -> errors.Error:
    """The error for a file of a data folder that is missing or damaged."""
    return errors.make("FOLDER_DAMAGED", file=location, reason=reason)


@dataclass(frozen=True)
class Document(Generic[T]):
    """One JSON file: `name` in `storage`, a `record` of that class, written under the word `kind`."""

    storage: Storage
    name: str
    kind: str
    record: type[T]
    codec: Codec = Codec()  # noqa: RUF009 - immutable

    def read(self) -> T:
        """The record that was written last; FOLDER_DAMAGED if it is missing or damaged."""
        try:
            return self.parse(self.storage.read(self.name))
        except FileNotFoundError:
            raise damaged(self.storage.location(self.name), MISSING) from None
        except ValueError as problem:
            raise damaged(self.storage.location(self.name), problem) from None

    def parse(self, data: bytes) -> T:
        """The record in the bytes of a file; ValueError if they are damaged."""
        return self.codec.decode(self.record, json.loads(unseal(self.kind, data)))

    def write(self, record: T) -> None:
        """Replaces the file, durably."""
        self.storage.put(self.name, self.bytes_of(record))

    def bytes_of(self, record: T) -> bytes:
        return seal(self.kind, json.dumps(self.codec.encode(record), ensure_ascii=False, indent=1).encode())

    def update(self, change: Callable[[T], T]) -> None:
        """Replace the record by `change(record)`."""
        self.write(change(self.read()))

    def exists(self) -> bool:
        return self.storage.size(self.name) is not None


def checked_read(storage: Storage, name: str, parse: Callable[[bytes], Any]) -> Any:
    """Read and parse a file; FOLDER_DAMAGED if it is missing or `parse` raises ValueError."""
    try:
        return parse(storage.read(name))
    except FileNotFoundError:
        raise damaged(storage.location(name), MISSING) from None
    except ValueError as problem:
        raise damaged(storage.location(name), problem) from None
