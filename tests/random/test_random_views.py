"""Two hundred random views hold after every step; more with `python -m tidegate.testing.random_views`."""

import pytest

from tidegate.testing.random_views.run import try_seed

VIEWS = 25


@pytest.mark.parametrize("seed", range(1, 9))
def test_random_views_hold(seed, spark):
    report = try_seed(spark, seed, VIEWS, shrink_seconds=60)
    assert report is None, report
