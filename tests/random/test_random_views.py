"""Random views hold after every step: plain ones, ones with windows, lateness and EMIT, and joins. There are new ones
in every run: they follow from --hypothesis-seed. In `make test-all` there are more, of more steps, and those of fixed
seeds. Still more with `python -m tests.model.random_views`."""

import pytest

from tests.model.random_views.run import try_seed

VIEWS = 25
STEPS = {"plain": 3, "time": 3, "joins": 2}


@pytest.mark.parametrize("what", STEPS)
@pytest.mark.parametrize("number", range(2))
def test_new_random_views_hold(number, what, spark, pytestconfig):
    check(spark, fresh_seed(pytestconfig, number), what, STEPS[what])


@pytest.mark.slow
@pytest.mark.parametrize("what", STEPS)
@pytest.mark.parametrize("number", range(3, 9))
def test_new_random_views_hold_for_longer(number, what, spark, pytestconfig):
    check(spark, fresh_seed(pytestconfig, number), what, steps=6)


@pytest.mark.slow
@pytest.mark.parametrize("what", STEPS)
@pytest.mark.parametrize("seed", range(1, 13))
def test_random_views_of_fixed_seeds_hold(seed, what, spark):
    check(spark, seed, what, STEPS[what])


def fresh_seed(config, number):
    return int(config.getoption("hypothesis_seed")) * 10 + number


def check(spark, seed, what, steps):
    report = try_seed(spark, seed, VIEWS, steps=steps, shrink_seconds=60, what=what)
    assert report is None, report
