"""`tidegate explain`: the plans of the views of a file, without running them."""

from __future__ import annotations

import json
from pathlib import Path

from tidegate.cli.opening import open_database, read_script


def explain_file(file: Path, view: str | None, stage: str, *, as_json: bool) -> None:
    """Apply the file to a temporary folder and print the plan of one view, or of all."""
    text = read_script(file)
    with open_database(None) as db:
        db.run_script(text, file.name)
        names = [view] if view else list(db.views())
        plans = {name: db.explain(name, stage=stage) for name in names}
    if as_json:
        print(json.dumps({name: plan.tree for name, plan in plans.items()}, indent=2))
    else:
        print("\n\n".join(str(plan) if view else f"-- {name}\n{plan}" for name, plan in plans.items()))
