"""Failures of a file system as errors: those of this process, and those that another one reports as text."""

from __future__ import annotations

import errno
import os
import re

from tidegate.errors.catalogue import make
from tidegate.errors.tree import Error

REMEDIES = {
    errno.ENOSPC: "free some space",
    errno.EDQUOT: "free some space, or raise the quota",
    errno.EFBIG: "raise the limit of the size of files",
    errno.EROFS: "make the file system writable",
    errno.EACCES: "let this user write there",
    errno.EPERM: "let this user write there",
    errno.EIO: "check the disk",
    errno.EMFILE: "raise the limit of open files (ulimit -n)",
    errno.ENFILE: "raise the limit of open files of the machine",
    errno.ENOENT: "put back what was removed",
    errno.ENOTDIR: "name a folder",
    errno.ENAMETOOLONG: "use a shorter path",
    errno.ELOOP: "remove the links that point to each other",
    errno.ESTALE: "mount the file system again",
}
"""Failures of a file system, and what ends them."""
_REPORTED = set(REMEDIES) - {errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG, errno.ELOOP}
"""Those that are recognised in texts. The others can also be about a file that a user names in SQL."""
_OF_PYTHON = re.compile(r"\[Errno (\d+)\] [^:'\n]*(?:: '([^'\n]*)')?(?: -> '([^'\n]*)')?")
_WORDS = {os.strerror(number): number for number in _REPORTED}
_OF_JAVA = re.compile(
    r"\bjava\.(?:io|nio\.file)\.\w+Exception: (?:(?P<path>/[^\n]*?)(?:: | \())?"
    rf"(?P<words>{'|'.join(map(re.escape, _WORDS))})"
)
_DENIED_BY_JAVA = re.compile(r"\bjava\.nio\.file\.AccessDeniedException: (?P<path>/[^\n]*)")


def storage_error(problem: OSError) -> Error | None:
    """STORAGE_FAILED for a failure of a file system, None for any other."""
    if problem.errno not in REMEDIES:
        return None
    path = problem.filename2 or problem.filename
    named = os.fsdecode(path) if isinstance(path, str | bytes | os.PathLike) else None
    return _error(problem.errno, named, problem.strerror or str(problem))


def reported_storage_error(text: str, place: str | None = None) -> Error | None:
    """STORAGE_FAILED for the text of a failure in a worker or in the JVM, None if no file system failed. `place` is
    where it was if the text does not tell."""
    for raised in _OF_PYTHON.finditer(text):
        if int(raised[1]) in _REPORTED:
            return _error(int(raised[1]), raised[3] or raised[2] or place)
    thrown = _OF_JAVA.search(text)
    if thrown is not None:
        return _error(_WORDS[thrown["words"]], thrown["path"] or place)
    denied = _DENIED_BY_JAVA.search(text)
    return None if denied is None else _error(errno.EACCES, denied["path"])


def _error(number: int, path: str | None, reason: str | None = None) -> Error:
    return make(
        "STORAGE_FAILED",
        path=path or "the data folder",
        reason=(reason or os.strerror(number)).lower(),
        remedy=REMEDIES[number],
    )
