"""Failures of a file system are STORAGE_FAILED with the path and what ends them, whoever reports them."""

from __future__ import annotations

import errno

import pytest

from tidegate.errors import reported_storage_error, storage_error

WORKER = """org.apache.spark.api.python.PythonException: Traceback (most recent call last):
  File "/app/tidegate/core/files.py", line 31, in replacing
    yield file
OSError: [Errno 28] No space left on device: '/data/state/7'
"""
DRIVER = """py4j.Py4JException: An exception was raised by the Python Proxy. Return Message: Traceback:
PermissionError: [Errno 13] Permission denied: '/data/steps/.7.tmp' -> '/data/steps/7'
"""
CHECKPOINT = """org.apache.hadoop.fs.FSError: java.io.IOException: No space left on device
\tat org.apache.hadoop.fs.RawLocalFileSystem$LocalFSFileOutputStream.write(RawLocalFileSystem.java:268)
"""
READ_ONLY = """java.io.FileNotFoundException: /data/checkpoint/offsets/.7.tmp (Read-only file system)
\tat java.base/java.io.FileOutputStream.open0(Native Method)
"""
NIO = "java.nio.file.FileSystemException: /data/checkpoint/commits: Read-only file system\n"
DENIED = "java.nio.file.AccessDeniedException: /data/checkpoint/commits/7\n\tat java.base/sun.nio.fs.UnixException\n"


@pytest.mark.parametrize(
    "text, message, remedy",
    [
        (WORKER, "/data/state/7 cannot be read or written: no space left on device", "free some space"),
        (DRIVER, "/data/steps/7 cannot be read or written: permission denied", "let this user write there"),
        (CHECKPOINT, "the data folder cannot be read or written: no space left on device", "free some space"),
        (
            READ_ONLY,
            "/data/checkpoint/offsets/.7.tmp cannot be read or written: read-only file system",
            "make the file system writable",
        ),
        (
            NIO,
            "/data/checkpoint/commits cannot be read or written: read-only file system",
            "make the file system writable",
        ),
        (
            DENIED,
            "/data/checkpoint/commits/7 cannot be read or written: permission denied",
            "let this user write there",
        ),
    ],
)
def test_the_text_of_a_failure_names_the_path_and_the_remedy(text: str, message: str, remedy: str) -> None:
    error = reported_storage_error(text)
    assert error is not None
    assert (error.code, error.message) == ("STORAGE_FAILED", message)
    assert error.hint == f"{remedy}, then start again: it goes on after the last finished step, and nothing is lost"


@pytest.mark.parametrize(
    "text",
    [
        "java.lang.ArithmeticException: / by zero",
        "psycopg.errors.InsufficientPrivilege: permission denied for table orders",
        "[Errno 111] Connection refused",
        "a row: 'No space left on device'",
    ],
)
def test_other_failures_are_not_of_a_file_system(text: str) -> None:
    assert reported_storage_error(text) is None


def test_a_failure_without_a_path_is_in_the_place_that_is_given() -> None:
    error = reported_storage_error(CHECKPOINT, "/data")
    assert error is not None and error.message == "/data cannot be read or written: no space left on device"


def test_failures_of_the_network_are_not_of_a_file_system() -> None:
    assert storage_error(OSError(errno.ECONNREFUSED, "Connection refused")) is None
