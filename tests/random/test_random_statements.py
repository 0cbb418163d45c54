"""Random statements are accepted, or rejected with an error that a user can act on: a code, words of our own, and a
place in the text. There are new ones in every run: they follow from --hypothesis-seed. More with
`python -m tests.model.random_statements`."""

from collections import Counter

import pytest

from tests.model.random_statements.run import run


def test_new_random_statements_have_good_answers(spark, pytestconfig):
    check(spark, int(pytestconfig.getoption("hypothesis_seed")), 200)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(8))
def test_random_statements_have_good_answers(seed, spark):
    check(spark, seed, 2_500)


def check(spark, seed, count):
    outcomes = Counter()
    defects = [f"{text}\n=> {defect}" for text, defect in run(spark, seed, count, outcomes)]
    assert not defects, "\n-----\n".join(defects)
    assert outcomes.total() == count, outcomes
    assert outcomes["accepted"] >= count // 20, outcomes
