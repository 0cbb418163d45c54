"""Fifty random pipelines of windows, sessions, watermarks and interval joins agree with the simulator after every step:
new ones in every run, which follow from --hypothesis-seed. More of them with `python -m tests.differential`."""

import pytest

from tests.differential.run import make_pack, report, run


def test_new_random_pipelines_agree_with_the_simulator(spark, pytestconfig):
    check(spark, int(pytestconfig.getoption("hypothesis_seed")), pipelines=50, steps=5)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 7))
def test_random_pipelines_of_fixed_seeds_agree_with_the_simulator(seed, spark):
    check(spark, seed, pipelines=50, steps=6)


def check(spark, seed, pipelines, steps):
    pack = make_pack(seed, pipelines, steps)
    found = run(spark, pack)
    assert not found, f"seed {seed}, pipeline {found[0].pipeline}\n{report(spark, pack, found[0])}"
