"""Failures of a query as errors for the user."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from tidegate import errors
from tidegate.connectors.contract import Remote, StreamSource

_CLASSES = re.compile(r"^(?:Caused by)?[: ]*(?:(?:[\w$]+\.)*[\w$]+(?:Error|Exception): )*")


def is_away(text: str, sources: Iterable[StreamSource]) -> bool:
    """True if the query failed because the server of a source is temporarily unreachable."""
    return any(each.is_connection_failure(text) for each in sources if isinstance(each, Remote))


def all_reachable(sources: Iterable[StreamSource]) -> bool:
    """True if the server of every source can be reached."""
    return all(each.reachable() for each in sources if isinstance(each, Remote))


def failure_error(text: str, sources: Iterable[StreamSource], log: Path) -> errors.Error:
    """The error for a query that failed with this text: the source's own if one knows it, that of the file system if
    it was to blame."""
    for source in sources:
        error = source.failure(text)
        if error is not None:
            return error
    storage = errors.reported_storage_error(text, str(log.parent))
    if storage is not None:
        return storage
    return errors.make("PIPELINE_FAILED", reason=_reason(text), log=str(log))


def _reason(text: str) -> str:
    """What the last error in a text of Spark says, without the names of classes; the first line of a text without
    one."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    raised = [line for line in lines if "Error:" in line or "Exception:" in line]
    return _CLASSES.sub("", raised[-1] if raised else lines[0])[:500] or lines[0][:500]
