"""When `tidegate run` starts a pipeline again that has failed, and when it gives up."""

from __future__ import annotations

from enum import StrEnum

from tidegate.errors import Error

CURABLE = ("PIPELINE_FAILED", "STORAGE_FAILED")
"""What can pass by itself: a process that was killed, a full disk, a server that fails in the middle of a step."""
FIRST_DELAY, LONGEST_DELAY = 1.0, 60.0
ATTEMPTS = 10


class RestartPolicy(StrEnum):
    """Whether a pipeline that failed is started again."""

    on_failure = "on-failure"
    never = "never"


class Restarts:
    """Counts the failures since the last finished step: delays double with each, up to a minute, and the tenth is
    final."""

    def __init__(self, policy: RestartPolicy, step: int) -> None:
        self._policy, self._step, self._failures = policy, step, 0

    def delay_after(self, problem: Error, step: int) -> float | None:
        """The seconds until the next start; None if the failure is final. `step`: the last finished one."""
        if self._policy is RestartPolicy.never or problem.code not in CURABLE:
            return None
        if step > self._step:
            self._step, self._failures = step, 0
        self._failures += 1
        if self._failures >= ATTEMPTS:
            return None
        return min(LONGEST_DELAY, FIRST_DELAY * 2.0 ** (self._failures - 1))
