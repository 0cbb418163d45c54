"""Log records of the library as plain lines on stderr."""

from __future__ import annotations

import logging
import sys
from typing import TextIO

from tidegate.core.secrets import hide_known


class _StderrHandler(logging.StreamHandler[TextIO]):
    """Writes to the current sys.stderr, which a live screen or a test may replace."""

    def __init__(self) -> None:
        logging.Handler.__init__(self)
        # librdkafka logs under this name what our own messages already say.
        self.addFilter(lambda record: record.name != "tidegate.kafka")

    def format(self, record: logging.LogRecord) -> str:
        return hide_known(super().format(record))

    @property
    def stream(self) -> TextIO:  # type: ignore[override]
        return sys.stderr


def install() -> None:
    """Print the library's records from level INFO on stderr, each message on a line. The second call does nothing."""
    logger = logging.getLogger("tidegate")
    if any(isinstance(handler, _StderrHandler) for handler in logger.handlers):
        return
    logger.addHandler(_StderrHandler())
    logger.setLevel(logging.INFO)
