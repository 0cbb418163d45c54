"""Large blocks travel by file: Spark carries the name alone, so their bytes are not copied from process to process, nor
compressed and sorted on the way. A file lives as long as the micro-batch that it belongs to."""

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
    """Files of blocks on their way, under a folder that every worker sees."""

    folder: str

    def sent(self, block: Block) -> Block:
        """The block itself if it is small."""
        if len(block.payload) < LARGE:
            return block
        folder = Path(self.folder, str(batch_of_task()))
        folder.mkdir(parents=True, exist_ok=True)
        name = uuid.uuid4().hex
        (folder / name).write_bytes(block.payload)
        return block._replace(tag=BY_FILE + block.tag, payload=f"{folder.name}/{name}".encode())

    def received(self, block: Block) -> Block:
        """The block as it was sent."""
        if not block.tag.startswith(BY_FILE):
            return block
        path = Path(self.folder, block.payload.decode())
        return block._replace(tag=block.tag.removeprefix(BY_FILE), payload=path.read_bytes())

    def over(self, number: int) -> None:
        """A micro-batch has ended: its files are not read again."""
        shutil.rmtree(Path(self.folder, str(number)), ignore_errors=True)

    def begin(self) -> None:
        """No micro-batch is under way: what is there was left behind."""
        shutil.rmtree(self.folder, ignore_errors=True)
