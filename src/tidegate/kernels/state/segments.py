"""Blobs in memory: state for tests and benchmarks, with counters of what a step costs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field


@dataclass
class MemorySegments:
    """Named blobs in a dict. `calls` and `traffic` count what went through the door."""

    blobs: dict[str, bytes] = field(default_factory=dict)
    calls: int = 0
    traffic: int = 0

    def get(self, name: str) -> bytes | None:
        blob = self.blobs.get(name)
        self._count(blob)
        return blob

    def put(self, name: str, blob: bytes) -> None:
        self._count(blob)
        self.blobs[name] = blob

    def delete(self, name: str) -> None:
        self._count(None)
        self.blobs.pop(name, None)

    def scan(self, low: str, high: str) -> Iterator[tuple[str, bytes]]:
        for name in sorted(name for name in self.blobs if low <= name < high):
            self._count(self.blobs[name])
            yield name, self.blobs[name]

    def copy(self) -> MemorySegments:
        """The same blobs, changed apart from these: what a step that runs again starts from."""
        return MemorySegments(dict(self.blobs))

    def _count(self, blob: bytes | None) -> None:
        self.calls += 1
        self.traffic += len(blob or b"")
