"""Large blocks are exchanged by file: Spark only transports the name, so their bytes are not copied from process to
process, compressed or sorted. A file lives as long as its micro-batch."""

from __future__ import annotations

import shutil
import uuid
from dataclasses import dataclass
from pathlib import Path

from tidegate.spark.blocks import Block
from tidegate.spark.compat import batch_of_task

LARGE = 256 * 1024
BY_FILE = "@"
"""Begins the tag of a block whose payload is the name of a file."""


@dataclass(frozen=True)
class Exchange:
    """Files of blocks in transit, in a folder that every worker can read."""

    folder: str

    def send(self, block: Block) -> Block:
        """Write a large block to a file; a small one is returned as it is."""
        if len(block.payload) < LARGE:
            return block
        folder = Path(self.folder, str(batch_of_task()))
        folder.mkdir(parents=True, exist_ok=True)
        name = uuid.uuid4().hex
        (folder / name).write_bytes(block.payload)
        return block._replace(tag=BY_FILE + block.tag, payload=f"{folder.name}/{name}".encode())

    def receive(self, block: Block) -> Block:
        """The block as it was sent."""
        if not block.tag.startswith(BY_FILE):
            return block
        path = Path(self.folder, block.payload.decode())
        return block._replace(tag=block.tag.removeprefix(BY_FILE), payload=path.read_bytes())

    def end_batch(self, number: int) -> None:
        """Remove the files of a micro-batch that has ended."""
        shutil.rmtree(Path(self.folder, str(number)), ignore_errors=True)

    def begin(self) -> None:
        """Remove leftover files before the first micro-batch."""
        shutil.rmtree(self.folder, ignore_errors=True)
