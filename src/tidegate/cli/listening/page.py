"""The metrics endpoint of a run."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from starlette.exceptions import HTTPException

from tidegate.cli.listening.config import Config
from tidegate.core.http_server import LOOPBACK
from tidegate.errors import Error
from tidegate.server.metrics import MetricsServer

if TYPE_CHECKING:
    from tidegate import Database


class MetricsPage:
    """The page at /metrics. It is served from the start, so that a port in use is an error before Spark starts; it
    responds with 503 while no database is open."""

    def __init__(self) -> None:
        self.address: str | None = None
        self._db: Database | None = None

    @contextmanager
    def serving(self, db: Database) -> Iterator[None]:
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
            raise HTTPException(503, "the pipeline is starting or ending")
        return prometheus(runtime_of(db))


@contextmanager
def metrics_page(config: Config) -> Iterator[MetricsPage]:
    """Serve the metrics at the configured address; without one, serve nothing."""
    page = MetricsPage()
    if config.metrics_port is None:
        yield page
        return
    host = config.metrics_host or LOOPBACK
    server = _serve(config, host, config.metrics_port, page)
    page.address = f"http://{f'[{host}]' if ':' in host else host}:{server.port}/metrics"
    try:
        yield page
    finally:
        server.close()


def _serve(config: Config, host: str, port: int, page: MetricsPage) -> MetricsServer:
    try:
        return MetricsServer(host, port, page.collect)
    except Error as problem:
        if config.metrics_at is not None:
            problem.message = f"{config.metrics_at.label}: {problem.message}"
            problem.text, problem.span = config.metrics_at.text, config.metrics_at.span
        raise
