"""A few faults of a chaos run, others in every run: they follow from --hypothesis-seed. `make chaos` makes 200."""

import os

import pytest

from tests.chaos.faults import ALWAYS, WITH_OWN_DISK
from tests.chaos.run import run

# Not the clock: it can take a minute until the broker accepts records again (docs/operations.md).
FAULTS = tuple(fault.__name__ for fault in (*ALWAYS, *WITH_OWN_DISK))


@pytest.mark.parametrize("count", [3, pytest.param(40, marks=pytest.mark.slow)])
def test_faults_make_no_difference(count, spark, tmp_path, pytestconfig):
    seed = int(os.environ.get("CHAOS_SEED", pytestconfig.getoption("hypothesis_seed")))
    run(tmp_path, spark, seed, count, print, FAULTS)
