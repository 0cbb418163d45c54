"""What a capture has to remember beside its position: what it made at the server, and what it told it."""

from __future__ import annotations

import json
import secrets
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from tidegate.core.durable import write_atomically


@dataclass(frozen=True)
class Facts:
    """`confirmed`: a place, no further than which the server was ever told that everything is taken. `slot` and
    `publication`: whether they were made here. `life` tells this capture from one of the same name that was
    forgotten."""

    life: str
    confirmed: int = 0
    slot: bool = False
    publication: bool = False


class Record:
    """Facts in a file of their own, durable before what they speak of is done."""

    def __init__(self, folder: Path, name: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._path = folder / f"{name}.json"
        found = self._path.exists()
        self.facts = Facts(**json.loads(self._path.read_text())) if found else Facts(secrets.token_hex(8))
        if not found:
            self._write(self.facts)

    def keep(self, confirmed: int | None = None, slot: bool | None = None, publication: bool | None = None) -> None:
        given = {"confirmed": confirmed, "slot": slot, "publication": publication}
        facts = replace(self.facts, **{name: value for name, value in given.items() if value is not None})  # type: ignore[arg-type]
        if facts != self.facts:
            self._write(facts)
            self.facts = facts

    def forget(self) -> None:
        self._path.unlink(missing_ok=True)

    def _write(self, facts: Facts) -> None:
        text = json.dumps(asdict(facts))
        write_atomically(self._path, lambda file: file.write(text.encode()))
