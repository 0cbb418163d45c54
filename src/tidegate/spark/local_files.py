"""Replaces Hadoop's local file system, which starts ten and more `chmod` processes per micro-batch and stateful level,
by one that makes a system call. Java's compiler is not needed: Spark contains one, for the code that it generates."""

from __future__ import annotations

import logging
import os
from pathlib import Path

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.sql import SparkSession

from tidegate.spark import compat

_log = logging.getLogger(__name__)

SOURCE = Path(__file__).with_name("PosixLocalFileSystem.java")
CLASS = "tidegate.PosixLocalFileSystem"


def set_permissions_without_processes(session: SparkSession) -> None:
    """Give a JVM of our own the quicker file system. Where that fails, Hadoop's own does the same more slowly."""
    if os.name != "posix":
        return
    try:
        compat.replace_local_file_system(session, SOURCE.read_text(), CLASS)
    except (Py4JError, OSError) as failure:
        _log.debug("Hadoop's own local file system is used: %s", failure)
