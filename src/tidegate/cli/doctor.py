"""`tidegate doctor`: check the machine and a folder."""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from pathlib import Path

from tidegate.cli.environment import Check, check_machine

MARKS = {"ok": "[green]ok[/]  ", "warn": "[yellow]warn[/]", "fail": "[red]FAIL[/]"}


def examine(folder: Path, *, as_json: bool) -> bool:
    """Print every check; True if none failed."""
    checks = [*check_machine(), check_folder(folder), *check_files(folder)]
    ok = all(check.state != "fail" for check in checks)
    if as_json:
        print(json.dumps({"ok": ok, "checks": [asdict(check) for check in checks]}, indent=2))
    else:
        _print(checks, ok)
    return ok


def check_folder(folder: Path) -> Check:
    """Check that the folder can be written, and that a data folder has this format and is not in use."""
    from tidegate.errors import Error
    from tidegate.storage.folder import Folder

    path = folder.absolute()
    existing = next(each for each in (path, *path.parents) if each.exists())
    if not existing.is_dir() or not os.access(existing, os.W_OK | os.X_OK):
        return Check("folder", "fail", f"{existing} cannot be written", "choose another, or change its permissions")
    if not Folder(path).exists():
        return Check("folder", "ok", f"{existing} can be written")
    try:
        with Folder(path) as data:
            data.open()
    except Error as problem:
        if problem.code == "FOLDER_DAMAGED":
            return Check("folder", "ok", f"{path} is a data folder")
        state = "warn" if problem.code == "PIPELINE_IN_USE" else "fail"
        return Check("folder", state, problem.message, problem.hint or "")
    return Check("folder", "ok", f"{path} is a data folder, free to run")


def check_files(folder: Path) -> list[Check]:
    """One check per file of a data folder that is damaged, missing or left over; a single one if none is."""
    from tidegate.storage.folder import Folder
    from tidegate.storage.integrity import FolderCheck

    if not Folder(folder).exists():
        return []
    checked = FolderCheck(folder.absolute()).run()
    problems = [
        Check("files", "fail" if each.damage else "warn", f"{each.file}: {each.problem}", each.advice)
        for each in checked.findings
    ]
    return problems or [Check("files", "ok", f"{checked.files} files checked, all intact")]


def _print(checks: list[Check], ok: bool) -> None:
    from rich.console import Console
    from rich.markup import escape

    console = Console(highlight=False, soft_wrap=True)
    for check in checks:
        console.print(f"{MARKS[check.state]}  {check.name:<9} {escape(check.found)}")
        if check.advice:
            console.print(f"      {'':<9} [bold]{escape(check.advice)}[/]")
    console.print("\neverything is there" if ok else "\nsomething is missing: see FAIL above")
