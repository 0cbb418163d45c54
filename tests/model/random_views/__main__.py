"""`python -m tests.model.random_views --seed N --views 50`: tries random views until one fails, and shrinks it."""

from __future__ import annotations

import argparse
import sys

from tests.model.random_views.run import MAKERS, try_seed
from tidegate.testing.spec.files import own_session


def main() -> int:
    options = _options()
    with own_session() as spark:
        for seed in range(options.seed, options.seed + options.rounds):
            report = try_seed(spark, seed, options.views, options.steps, options.shrink, options.what)
            if report is not None:
                print(report)
                return 1
            print(f"seed {seed}: {options.views} views hold")
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.model.random_views", description=__doc__)
    parser.add_argument("--seed", type=int, default=1, help="the first seed")
    parser.add_argument("--rounds", type=int, default=1, help="how many seeds, one pipeline each")
    parser.add_argument("--views", type=int, default=25, help="views of a pipeline")
    parser.add_argument("--steps", type=int, default=4, help="steps of a pipeline")
    parser.add_argument("--what", choices=sorted(MAKERS), default="plain", help="what kind of views")
    parser.add_argument("--shrink", type=float, default=120, help="seconds to spend on making a failing case smaller")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
