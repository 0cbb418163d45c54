"""Changelog kinds: append ⊂ upsert ⊂ changelog.

append     rows are only inserted
upsert     the newest row of a key replaces the older one; a deletion names its key
changelog  weighted rows: every retraction carries the row it takes back
"""

from __future__ import annotations

from typing import Literal

Kind = Literal["append", "upsert", "changelog"]

KINDS: tuple[Kind, ...] = ("append", "upsert", "changelog")
KEYED = ("on_update", "every")
"""EMIT strategies that emit only the newest row of a key, so that a view needs one."""


def of_changes(append_only: bool) -> Kind:
    """The kind of all changes of a relation."""
    return "append" if append_only else "changelog"


def of_emit(strategy: str | None, append_only: bool) -> Kind:
    """The kind of the changes that a view emits under its EMIT (None: every change)."""
    return "upsert" if strategy in KEYED else of_changes(append_only)


def fits(kind: Kind, accepted: Kind) -> bool:
    """True if a reader of `accepted` changes understands those of `kind`."""
    return KINDS.index(kind) <= KINDS.index(accepted)
