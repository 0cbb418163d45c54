"""Two hundred random views hold after every step, three hundred with windows, lateness and EMIT, three hundred with
joins. In `make test-all` there are more, and new ones in every run: they follow from --hypothesis-seed. Still more with
`python -m tests.model.random_views`."""

import pytest

from tests.model.random_views.run import try_seed

VIEWS = 25


@pytest.mark.parametrize("seed", range(1, 9))
def test_random_views_hold(seed, spark):
    report = try_seed(spark, seed, VIEWS, steps=3, shrink_seconds=60)
    assert report is None, report


@pytest.mark.parametrize("seed", range(1, 13))
def test_random_views_with_time_hold(seed, spark):
    report = try_seed(spark, seed, VIEWS, steps=3, shrink_seconds=60, what="time")
    assert report is None, report


@pytest.mark.parametrize("seed", range(1, 13))
def test_random_joins_hold(seed, spark):
    report = try_seed(spark, seed, VIEWS, steps=2, shrink_seconds=60, what="joins")
    assert report is None, report


@pytest.mark.slow
@pytest.mark.parametrize("what", ["plain", "time", "joins"])
@pytest.mark.parametrize("number", range(6))
def test_new_random_views_hold_for_longer(number, what, spark, pytestconfig):
    seed = int(pytestconfig.getoption("hypothesis_seed")) * 10 + number
    report = try_seed(spark, seed, VIEWS, steps=6, shrink_seconds=60, what=what)
    assert report is None, report
