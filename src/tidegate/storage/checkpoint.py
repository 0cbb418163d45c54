"""Spark's checkpoint of a streaming query, as files: which batches were planned and committed, and their offsets.

Spark does not document this layout. Nothing else in Tidegate knows it; tests/spark/test_compat.py checks it against
every supported version of PySpark.
"""

from __future__ import annotations

import json
import os
import shutil
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote

from tidegate.core.files import write_atomically
from tidegate.storage.documents import MISSING, damaged

NO_OFFSET = "-"
"""The offset of a source that has not been read yet."""
_CRC_HEAD = struct.Struct(">4sI")


@dataclass(frozen=True)
class PlannedBatch:
    """One file of Spark's offset log: when the batch was planned, and the offset of every source after it."""

    planned_ms: int
    offsets: tuple[str, ...]


@dataclass(frozen=True)
class Checkpoint:
    """The folder of one checkpoint."""

    folder: Path

    def planned(self) -> int | None:
        """The last batch whose offsets are in Spark's write-ahead log, None if there is none."""
        return max(self._batches("offsets"), default=None)

    def committed(self) -> int | None:
        """The last batch that Spark has committed, None if there is none."""
        return max(self._batches("commits"), default=None)

    def batches(self) -> int:
        """The number of batches that Spark has committed."""
        committed = self.committed()
        return 0 if committed is None else committed + 1

    def batch(self, number: int) -> PlannedBatch:
        """A planned batch; FOLDER_DAMAGED if its file is missing or cannot be read."""
        path = self.folder / "offsets" / str(number)
        try:
            metadata, *offsets = _parse_lines(path)
            return PlannedBatch(int(json.loads(metadata)["batchTimestampMs"]), tuple(offsets))
        except (OSError, ValueError, LookupError) as problem:
            raise damaged(str(path), MISSING if isinstance(problem, OSError) else problem) from None

    def offset(self, batch: int, source: int) -> str | None:
        """The offset of a source, by its position in the union of the query, after a planned batch; None if it has not
        been read yet."""
        offset = self.batch(batch).offsets[source]
        return None if offset == NO_OFFSET else offset

    def source_log(self, index: int) -> Path:
        """The folder in which Spark logs the progress of a source, by its position in the union of the query."""
        return self.folder / "sources" / str(index)

    def remove_if_unplanned(self) -> None:
        """Remove what a query that was killed before its first batch was planned has left behind: Spark does not begin
        in a folder that contains even a temporary file."""
        if self.planned() is None and self.committed() is None:
            shutil.rmtree(self.folder, ignore_errors=True)

    def has_state(self) -> bool:
        """True if Spark stored state here, as pipelines of format 2 let it do."""
        return any(self.folder.glob("state/*"))

    def relocate(self) -> None:
        """Make Spark's state readable after its folder was moved: Spark records the absolute paths of its schemas."""
        for path in self.folder.glob("state/*/_metadata/v2/[0-9]*"):
            version, document = path.read_text(encoding="utf-8").split("\n", 1)
            metadata = json.loads(document)
            for store in metadata["stateStoreInfo"]:
                store["stateSchemaFilePaths"] = [self._relocated(each) for each in store["stateSchemaFilePaths"]]
            if metadata != json.loads(document):
                text = json.dumps(metadata, separators=(",", ":"))
                write_atomically(path, f"{version}\n{text}".encode())
                path.with_name(f".{path.name}.crc").unlink(missing_ok=True)

    def problems(self) -> Iterator[tuple[Path, str]]:
        """Files of Spark's write-ahead log that do not parse or are missing, with the reason."""
        if not self.folder.exists():
            return
        planned, committed = self._batches("offsets"), self._batches("commits")
        metadata = self.folder / "metadata"
        if planned and not metadata.exists():
            yield metadata, MISSING
        first = max(min(planned, default=0), min(committed, default=0))
        last = max((*planned, *committed), default=-1)
        first = min(first, max(0, last - 1))  # Spark resumes by its newest two batches.
        for name, present, until in (("offsets", planned, last), ("commits", committed, last - 1)):
            missing = sorted(set(range(first, until + 1)) - present)
            yield from ((self.folder / name / str(batch), MISSING) for batch in missing)
        files = [metadata] if metadata.exists() else []
        files += [self.folder / "offsets" / str(each) for each in sorted(planned)]
        files += [self.folder / "commits" / str(each) for each in sorted(committed)]
        yield from _unparsable(files)

    def checksums(self) -> Iterator[tuple[Path, str | None]]:
        """Every file that has a checksum of Hadoop beside it (`.name.crc`), with what is wrong with it, or None."""
        for home, _, names in os.walk(self.folder):
            for name in sorted(names):
                if name.startswith(".") and name.endswith(".crc"):
                    path = Path(home, name[1:].removesuffix(".crc"))
                    try:
                        yield path, None if _crc_matches(path, Path(home, name)) else "its checksum is wrong"
                    except FileNotFoundError:
                        if Path(home, name).exists():
                            yield path, MISSING

    def _batches(self, name: str) -> set[int]:
        folder = self.folder / name
        return {int(path.name) for path in folder.iterdir() if path.name.isdigit()} if folder.exists() else set()

    def _relocated(self, address: str) -> str:
        """Where a file of the checkpoint is now, as Spark writes it; the address itself if it still holds."""
        now = f"file:{self.folder}/{address.rpartition('/checkpoint/')[2]}"
        return address if now in (address, unquote(address)) else now


def _parse_lines(path: Path) -> list[str]:
    """The lines after the version; ValueError unless each is JSON. Spark writes the metadata without a version."""
    lines = path.read_text(encoding="utf-8").splitlines()
    if path.name != "metadata":
        if lines[:1] != ["v1"]:
            raise ValueError("its first line is damaged" if lines else "it is empty")
        lines = lines[1:]
    if not lines:
        raise ValueError("it is cut off")
    for line in lines:
        if line != NO_OFFSET:
            json.loads(line)
    return lines


def _unparsable(files: list[Path]) -> Iterator[tuple[Path, str]]:
    for path in files:
        try:
            _parse_lines(path)
        except (OSError, ValueError) as problem:
            yield path, str(problem)


def _crc_matches(path: Path, checksums: Path) -> bool:
    stored, data = checksums.read_bytes(), path.read_bytes()
    if len(stored) < _CRC_HEAD.size:
        return False
    magic, chunk = _CRC_HEAD.unpack_from(stored)
    if magic != b"crc\0" or not chunk:
        return False
    actual = b"".join(zlib.crc32(data[at : at + chunk]).to_bytes(4, "big") for at in range(0, len(data), chunk))
    return actual == stored[_CRC_HEAD.size :]
