"""Log records of the library: lines on stderr in the CLI, ordinary records elsewhere."""

from __future__ import annotations

import logging
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tidegate.cli.logging import install


@pytest.fixture(autouse=True)
def unchanged() -> Iterator[None]:
    """Leave the loggers as they were."""
    logger = logging.getLogger("tidegate")
    before = (logger.level, list(logger.handlers))
    logger.handlers = []
    yield
    logger.setLevel(before[0])
    logger.handlers = before[1]


def test_the_cli_prints_each_record_once_as_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    install()
    install()
    logging.getLogger("tidegate.runtime.sinks").info("sink out goes on after step %d", 7)
    logging.getLogger("tidegate.connectors.webhook.sink").warning("sink out: 100% full")
    logging.getLogger("tidegate.connectors.webhook.sink").debug("nobody sees this")
    logging.getLogger("tidegate.kafka").error("broker down")
    assert capsys.readouterr().err == "sink out goes on after step 7\nsink out: 100% full\n"


LIBRARY = """
import logging, tidegate
assert logging.getLogger("tidegate").handlers == [] and logging.root.handlers == []
logging.getLogger("tidegate.runtime.sinks").info("not shown")
logging.getLogger("tidegate.runtime.sinks").warning("shown by the standard library")
"""


def test_the_library_leaves_logging_to_its_user() -> None:
    done = subprocess.run([sys.executable, "-c", LIBRARY], capture_output=True, text=True, timeout=120, check=True)
    assert done.stderr == "shown by the standard library\n"
