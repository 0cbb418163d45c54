"""A file of named Arrow parts behind one JSON header: what an entry of the insert log and of the step log is.

The file is written under a temporary name, flushed to disk and renamed, so it is there whole or not at all.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from tidegate.core.files import write_atomically

LENGTH = struct.Struct("<Q")


@dataclass(frozen=True)
class Part:
    """One table in a container, with what the header says of it."""

    name: str
    table: pa.Table
    info: dict[str, Any]


def encode(table: pa.Table) -> bytes:
    """An Arrow table as an IPC stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def decode(blob: bytes | pa.Buffer | memoryview) -> pa.Table:
    """The table of an IPC stream."""
    return pa.ipc.open_stream(blob).read_all()


def write(path: Path, header: dict[str, Any], parts: Sequence[Part]) -> None:
    """Writes a container durably: when this returns it survives a crash."""
    blobs = [encode(part.table) for part in parts]
    index = [
        {"name": part.name, "bytes": len(blob), "rows": part.table.num_rows, **part.info}
        for part, blob in zip(parts, blobs, strict=True)
    ]
    head = json.dumps({**header, "parts": index}).encode()
    write_atomically(path, LENGTH.pack(len(head)) + head + b"".join(blobs))


def read_header(path: Path) -> dict[str, Any]:
    """The header alone, without the rows."""
    with open(path, "rb") as file:
        (length,) = LENGTH.unpack(file.read(LENGTH.size))
        header: dict[str, Any] = json.loads(file.read(length))
    return header


def read(path: Path, only: set[str] | None = None) -> tuple[dict[str, Any], list[Part]]:
    """The header and the parts, or those of the given names."""
    data = memoryview(path.read_bytes())
    (length,) = LENGTH.unpack(data[: LENGTH.size])
    start = LENGTH.size + length
    header: dict[str, Any] = json.loads(bytes(data[LENGTH.size : start]))
    parts = []
    for info in header["parts"]:
        blob = data[start : start + info["bytes"]]
        start += info["bytes"]
        if only is None or info["name"] in only:
            parts.append(Part(info["name"], decode(pa.py_buffer(blob)), info))
    return header, parts
