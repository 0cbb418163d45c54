"""One server of each kind for all workers. Each test uses its own names on it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.conftest import of_all_workers
from tests.servers.postgres import Postgres, sweep
from tests.servers.redis import Redis
from tests.servers.shared import shared


@pytest.fixture(scope="session")
def redis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Redis]:
    """A server that many tests share: none of them may stop it."""
    folder = of_all_workers(tmp_path_factory, "redis")
    with shared(folder, lambda: Redis(folder), lambda server: server.address) as address:
        yield Redis.at(address)


@pytest.fixture(scope="session")
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Postgres]:
    """A server that many tests share: none of them may stop it."""
    folder = of_all_workers(tmp_path_factory, "postgres-of-sinks")
    try:
        with shared(folder, lambda: Postgres(folder), lambda server: server.address) as address:
            yield Postgres.at(address)
    finally:
        sweep(folder)
