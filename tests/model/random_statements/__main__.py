"""`python -m tests.model.random_statements --seed N --count 20000`: prints every statement with a bad answer."""

from __future__ import annotations

import argparse
import sys
from collections import Counter

from tests.model.random_statements.run import run
from tidegate.testing.spec.files import own_session


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.model.random_statements", description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=1000)
    options = parser.parse_args()
    outcomes: Counter[str] = Counter()
    with own_session() as spark:
        for text, defect in run(spark, options.seed, options.count, outcomes):
            print(f"{text}\n=> {defect}\n-----", flush=True)
    print(dict(outcomes))
    return 1 if outcomes["defect"] else 0


if __name__ == "__main__":
    sys.exit(main())
