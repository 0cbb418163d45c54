"""The page with the metrics of a run."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from tidegate.cli.listening.config import Config
from tidegate.connectors.http import LOOPBACK, Refusal
from tidegate.errors import Error
from tidegate.runtime.exposition import MetricsServer

if TYPE_CHECKING:
    from tidegate import Database


class MetricsPage:
    """It is there from the beginning, so that a port that is taken is told at once, and has the figures of a database
    while there is one."""

    def __init__(self) -> None:
        self.address: str | None = None
        self._db: Database | None = None

    @contextmanager
    def about(self, db: Database) -> Iterator[None]:
        self._db = db
        try:
            yield
        finally:
            self._db = None

    def collect(self) -> str:
        from tidegate.database import runtime_of
        from tidegate.runtime.monitoring import prometheus

        db = self._db
        if db is None:
            raise Refusal(503, "the pipeline is starting or ending")
        return prometheus(runtime_of(db))


@contextmanager
def metrics_page(config: Config) -> Iterator[MetricsPage]:
    """The page that a config asks for; without an address if it asks for none."""
    page = MetricsPage()
    if config.metrics_port is None:
        yield page
        return
    host = config.metrics_host or LOOPBACK
    server = _served(config, host, config.metrics_port, page)
    page.address = f"http://{f'[{host}]' if ':' in host else host}:{server.port}/metrics"
    try:
        yield page
    finally:
        server.close()


def _served(config: Config, host: str, port: int, page: MetricsPage) -> MetricsServer:
    try:
        return MetricsServer(host, port, page.collect)
    except Error as problem:
        if config.metrics_at is not None:
            problem.message = f"{config.metrics_at.label}: {problem.message}"
            problem.text, problem.span = config.metrics_at.text, config.metrics_at.span
        raise
