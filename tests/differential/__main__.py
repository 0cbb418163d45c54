"""`python -m tests.differential --seed 1 --packs 40`: runs packs of random pipelines, and shrinks what differs."""

from __future__ import annotations

import argparse
import sys
import time

from tests.differential.run import make_pack, report, run
from tidegate.testing.spec.files import own_session


def main() -> int:
    options = _options()
    differing = 0
    with own_session() as spark:
        for seed in range(options.seed, options.seed + options.packs):
            began = time.monotonic()
            pack = make_pack(seed, options.pipelines, options.steps)
            found = run(spark, pack)
            differing += len(found)
            seconds = time.monotonic() - began
            print(f"seed {seed}: {len(found)} of {options.pipelines} differ, {seconds:.0f} s", flush=True)
            for one in found:
                text = report(spark, pack, one) if options.shrink else f"{pack.pipelines[one.pipeline].sql}\n{one.text}"
                print(f"--- pipeline {one.pipeline}\n{text}", flush=True)
    return 1 if differing else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.differential", description=__doc__)
    parser.add_argument("--seed", type=int, default=1, help="the first seed")
    parser.add_argument("--packs", type=int, default=40, help="how many packs, one seed each")
    parser.add_argument("--pipelines", type=int, default=50, help="pipelines of a pack")
    parser.add_argument("--steps", type=int, default=6, help="steps of a pipeline")
    parser.add_argument("--no-shrink", dest="shrink", action="store_false", help="report what differs as it is")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
