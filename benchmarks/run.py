"""Benchmarks: each figure is a ratio of two things measured side by side in this run.

    python benchmarks/run.py [NAME...]      all, or those whose name contains one of the words

Prints a table and writes benchmarks/latest.json.
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))


@dataclass(frozen=True)
class Figure:
    """One measured ratio beside its target; `target` None: reported without one."""

    name: str
    ours: float
    peer: float
    ratio: float
    target: float | None
    higher_is_better: bool
    unit: str
    note: str = ""

    @property
    def met(self) -> bool | None:
        if self.target is None:
            return None
        return self.ratio >= self.target if self.higher_is_better else self.ratio <= self.target


def main(words: list[str]) -> int:
    from cases import CASES
    from cdc_cases import CDC_CASES
    from join_cases import JOIN_CASES
    from kafka_cases import KAFKA_CASES
    from setting import Setting
    from time_cases import TIME_CASES

    cases = CASES | TIME_CASES | JOIN_CASES | KAFKA_CASES | CDC_CASES
    chosen = {name: case for name, case in cases.items() if not words or any(word in name for word in words)}
    if not chosen:
        print(f"no benchmark is called {', '.join(words)}; there are {', '.join(cases)}", file=sys.stderr)
        return 2
    figures: list[Figure] = []
    with Setting(HERE / "data") as setting:
        for name, case in chosen.items():
            print(f"... {name}", flush=True)
            found = case(setting)
            show(found)
            keep(found)
            figures += found
    show(figures)
    return 0


def show(figures: list[Figure]) -> None:
    width = max(len(figure.name) for figure in figures)
    print(f"\n{'benchmark'.ljust(width)}  {'ours':>12}  {'beside':>12}  {'ratio':>7}  {'target':>8}")
    for figure in figures:
        sign = ">=" if figure.higher_is_better else "<="
        target = "-" if figure.target is None else f"{sign} {figure.target:g}"
        verdict = {True: "met", False: "MISSED", None: ""}[figure.met]
        numbers = f"{figure.ours:>12,.3f}  {figure.peer:>12,.3f}  {figure.ratio:>7.2f}  {target:>8}"
        print(f"{figure.name.ljust(width)}  {numbers}  {verdict:6} {figure.unit}  {figure.note}".rstrip())


def keep(figures: list[Figure]) -> None:
    """Replaces the figures of this run in latest.json, keeps those of benchmarks that were not run."""
    path = HERE / "latest.json"
    old = json.loads(path.read_text()) if path.exists() else []
    fresh = {figure.name for figure in figures}
    kept = [entry for entry in old if entry["name"] not in fresh]
    path.write_text(json.dumps([*kept, *(asdict(figure) for figure in figures)], indent=1) + "\n")


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
