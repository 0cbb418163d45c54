"""Durable files: written whole under a temporary name, flushed, and renamed into place; sealed with a checksum."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from xxhash import xxh3_64_hexdigest

from tidegate.core.records import Malformed

TEMPORARY = ".tmp"
"""How the name of a file that is being written ends; it begins with a dot."""
PUBLIC, PRIVATE = 0o666, 0o600


@contextmanager
def replacing(path: Path, mode: int = PRIVATE, *, absent: bool = False, durable: bool = True) -> Iterator[BinaryIO]:
    """Open a file that replaces `path` durably when the block ends; an error leaves nothing behind, and names the file.
    `absent`: FileExistsError if there is such a file already. Not `durable`: it need not survive a crash."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}{TEMPORARY}")
    try:
        with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode), "wb") as file:
            yield file
            file.flush()
            if durable:
                os.fsync(file.fileno())
        if absent and _link(temporary, path):
            temporary.unlink()
        else:
            os.replace(temporary, path)
    except BaseException as problem:
        with suppress(OSError):
            temporary.unlink()
        if isinstance(problem, OSError) and problem.filename in (None, str(temporary)):
            problem.filename = str(path)
        raise
    if durable:
        sync_folder(path.parent)


def _link(temporary: Path, path: Path) -> bool:
    """Link a file to its final name; FileExistsError if that exists. False if the file system has no hard links."""
    try:
        os.link(temporary, path)
    except OSError as problem:
        if problem.errno not in (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS):
            raise
        if path.exists():
            raise FileExistsError(path) from None
        return False
    return True


def write_atomically(path: Path, data: bytes, mode: int = PRIVATE) -> None:
    """Replaces a file as a whole, durably."""
    with replacing(path, mode) as file:
        file.write(data)


def sync_folder(folder: Path) -> None:
    """Makes names in a folder durable."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def is_temporary(name: str) -> bool:
    """True for the name of a file whose writer did not finish."""
    return name.startswith(".") and name.endswith(TEMPORARY)


def seal(kind: str, body: bytes) -> bytes:
    """Prefix content with a line that holds its kind and checksum."""
    return f"tidegate {kind} {xxh3_64_hexdigest(body)}\n".encode() + body


def unseal(kind: str, data: bytes) -> bytes:
    """The sealed content; Malformed if the file is of another kind, or its checksum does not match."""
    line, _, body = data.partition(b"\n")
    if not data:
        raise Malformed("it is empty")
    if not line.startswith(f"tidegate {kind} ".encode()):
        raise Malformed("its first line is damaged")
    if line != f"tidegate {kind} {xxh3_64_hexdigest(body)}".encode():
        raise Malformed("its checksum is wrong")
    return body
