"""Ends a process when another one has ended: `watchdog.py OWNER PROCESS`, both by pid. Linux only.

The watchdog is a process of its own because PR_SET_PDEATHSIG would not do: a shared server has to outlive the pytest
worker that started it, and the signal is cleared when `setpriv` changes the user."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys

PATIENCE_MS = 10_000


def main(owner: int, process: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        watched = os.pidfd_open(process)
        if not _ended(watched, _pidfd(owner)):
            signal.pidfd_send_signal(watched, signal.SIGTERM)
            if not _poll([watched], PATIENCE_MS):
                signal.pidfd_send_signal(watched, signal.SIGKILL)


def _pidfd(pid: int) -> int | None:
    """None if the process has ended already."""
    with contextlib.suppress(ProcessLookupError):
        return os.pidfd_open(pid)
    return None


def _ended(watched: int, owner: int | None) -> bool:
    """Blocks until one of both ends; True if it was the watched process."""
    return owner is not None and watched in _poll([watched, owner])


def _poll(descriptors: list[int], timeout_ms: int | None = None) -> list[int]:
    """A descriptor of a process is readable as soon as the process has ended."""
    poll = select.poll()
    for descriptor in descriptors:
        poll.register(descriptor, select.POLLIN)
    return [descriptor for descriptor, _ in poll.poll(timeout_ms)]


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
