"""Three tiers of tests, chosen with `--tier`: `unit` needs no JVM and no server, `default` is everything but the slow
tests, `all` is everything, with more random examples.

A test needs Spark or a server if it uses one of their fixtures, if it is marked so, or if its file is in PLACES. In the
unit tier neither can start: a unit test that tries fails, and has to be marked."""

from __future__ import annotations

import os
import random
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

TIERS = ("unit", "default", "all")
SPARK_FIXTURES = frozenset({"spark"})
SERVER_FIXTURES = frozenset({"broker", "kafka_jars", "registry_url", "postgres", "redis"})
PLACES = {
    "tests/chaos": ("spark", "server"),
    "tests/cluster": ("spark", "server"),
    "tests/kill": ("spark",),
    "tests/soak": ("spark",),
    "tests/cli/test_end_to_end.py": ("spark",),
    "tests/cli/test_secrets_end_to_end.py": ("spark",),
    "tests/cli/test_listen_end_to_end.py": ("spark", "server"),
    "tests/kafka/test_broker_restart.py": ("server",),
    "tests/postgres/test_capture_server.py": ("server",),
    "tests/postgres/test_tutorial.py": ("spark", "server"),
}
"""Folders and files whose tests start processes of their own."""
MARKERS = {
    "slow": "runs in make test-all only",
    "spark": "needs a JVM; set for every test that uses the spark fixture",
    "server": "needs Kafka, PostgreSQL, Redis or a Spark cluster; set for every test that uses one of their fixtures",
}
EXAMPLES = {"unit": 0.15, "default": 0.5, "all": 2.0}
TIER_VARIABLE = "TIDEGATE_TEST_TIER"


def examples(count: int) -> settings:
    """Hypothesis settings with a share of `count` examples that depends on the tier."""
    share = EXAMPLES[os.environ.get(TIER_VARIABLE, "default")]
    varied = max(min(count, 5), round(count * share))
    return settings(max_examples=varied, deadline=None, suppress_health_check=list(HealthCheck))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--tier", choices=TIERS, default="default", help="which tests run: unit, default or all")


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    for name, meaning in MARKERS.items():
        config.addinivalue_line("markers", f"{name}: {meaning}")
    tier = os.environ[TIER_VARIABLE] = config.getoption("--tier")
    if tier == "unit":
        os.environ["JAVA_HOME"] = "/unit-tests-start-no-jvm"
    _vary_examples(tier)
    if config.option.hypothesis_seed is None:
        config.option.hypothesis_seed = str(_seed_of_commit() or random.SystemRandom().randrange(2**32))


def _seed_of_commit() -> int | None:
    """In CI, a seed that follows from the commit: every commit has new examples, and every run of it the same ones.
    None elsewhere."""
    if not os.environ.get("CI"):
        return None
    command = ["git", "-C", str(Path(__file__).parent), "rev-parse", "--short=8", "HEAD"]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    return int(found.stdout[:8], 16) if found.returncode == 0 else None


def _vary_examples(tier: str) -> None:
    """Loads a profile with fresh examples in every run; Hypothesis alone repeats the same ones where CI is set."""
    count = round(100 * EXAMPLES[tier])
    settings.register_profile(tier, max_examples=count, derandomize=False, print_blob=True, deadline=None)
    settings.load_profile(tier)


@pytest.hookimpl(trylast=True)
def pytest_sessionstart(session: pytest.Session) -> None:
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if reporter is not None:
        seed = session.config.option.hypothesis_seed
        reporter.write_line(f"tier {session.config.getoption('--tier')}, --hypothesis-seed={seed}")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    # What starts processes of its own takes longest: it comes first, so that no worker ends with it alone.
    items.sort(key=lambda item: not item.nodeid.startswith(tuple(PLACES)))
    for item in items:
        for name in _needs(item):
            item.add_marker(name)
    unwanted = {"unit": ("spark", "server", "slow"), "default": ("slow",), "all": ()}[config.getoption("--tier")]
    dropped = [item for item in items if any(item.get_closest_marker(name) for name in unwanted)]
    if dropped:
        config.hook.pytest_deselected(items=dropped)
        items[:] = [item for item in items if item not in set(dropped)]


def _needs(item: pytest.Item) -> Iterator[str]:
    used = set(getattr(item, "fixturenames", ()))
    if used & SPARK_FIXTURES:
        yield "spark"
    if used & SERVER_FIXTURES:
        yield "server"
    for place, needed in PLACES.items():
        if item.nodeid.startswith(place):
            yield from needed


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    report = yield
    if os.environ[TIER_VARIABLE] == "unit" and "JAVA_MISSING" in str(report.longrepr):
        report.sections.append(("tier", "unit tests start no JVM: mark this one with pytest.mark.spark"))
    return report
