"""`tidegate explain`: what becomes of a file's views, without running them."""

from __future__ import annotations

import json
from pathlib import Path

from tidegate.cli.opening import opened, read_script


def explain_file(file: Path, view: str | None, stage: str, *, as_json: bool) -> None:
    """Declares the file in a temporary folder and prints the plan of one view, or of all."""
    text = read_script(file)
    with opened(None) as db:
        db.run_script(text, file.name)
        names = [view] if view else list(db.views())
        plans = {name: db.explain(name, stage=stage) for name in names}
    if as_json:
        print(json.dumps({name: plan.tree for name, plan in plans.items()}, indent=2))
    else:
        print("\n\n".join(str(plan) if view else f"-- {name}\n{plan}" for name, plan in plans.items()))
