"""`python -m tests.chaos --faults 200 --seed 1`: faults in a row, until one makes a difference."""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
from pathlib import Path

from tests.chaos.run import ChaosError, run
from tidegate.testing.spec.files import own_session


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--faults", type=int, default=200, help="how many, one after the other")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(2**32), help="chooses them")
    parser.add_argument("--only", nargs="*", default=(), help="names of functions in tests/chaos/faults.py")
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="tidegate-chaos-"))
    print(f"in {folder}", flush=True)
    with own_session() as spark:
        try:
            run(folder, spark, options.seed, options.faults, lambda text: print(text, flush=True), tuple(options.only))
        except ChaosError as problem:
            print(problem, flush=True)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
