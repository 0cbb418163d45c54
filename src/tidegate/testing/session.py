"""A Spark session for tests: small, quiet, and stopped at the end."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tidegate.spark.session import connect


@contextmanager
def own_session(master: str = "local[2]") -> Iterator[Any]:
    """A session that ends with its block."""
    session: Any = connect(master, {}, None)
    try:
        yield session
    finally:
        session.stop()
