"""One PostgreSQL server for all workers; every test has its own database."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.conftest import of_all_workers
from tests.servers.postgres import Postgres, sweep
from tests.servers.shared import shared


@pytest.fixture(scope="session")
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Postgres]:
    """A server that many tests share: none of them may stop it."""
    folder = of_all_workers(tmp_path_factory, "postgres")
    try:
        with shared(folder, lambda: Postgres(folder), lambda server: server.address) as address:
            yield Postgres.at(address)
    finally:
        sweep(folder)


@pytest.fixture
def database(postgres: Postgres) -> Iterator[str]:
    """The name of an empty database. Replication slots that a test leaves behind are dropped: a server has few."""
    name = postgres.create_database("shop")
    yield name
    with postgres.connect(name) as connection:
        mine = "FROM pg_replication_slots WHERE database = current_database()"
        connection.execute(f"SELECT pg_terminate_backend(active_pid, 5000) {mine} AND active")
        connection.execute(f"SELECT pg_drop_replication_slot(slot_name) {mine}")
