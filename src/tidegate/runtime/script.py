"""Running a script again on a folder it was run on before."""

from __future__ import annotations

import difflib

from tidegate import errors
from tidegate.catalog import Catalog
from tidegate.catalog.relation import Relation
from tidegate.sql import statements as s

Create = s.CreateRelation | s.CreateView | s.CreateSink


def check_unchanged(statement: s.Statement, catalog: Catalog) -> None:
    """Reject a CREATE of something that exists with another definition: its content belongs to the old one."""
    if not isinstance(statement, Create) or statement.or_replace or statement.if_not_exists:
        return
    existing = catalog.find(statement.name.text)
    if existing is None:
        return
    raise errors.make(
        "PIPELINE_CHANGED",
        message=f"{existing.described} {existing.name} was created with another definition",
        detail=_difference(existing.sql, statement.text),
        hint=_fix(existing, catalog),
        span=statement.name.span,
    )


def _difference(old: str, new: str) -> str:
    """The lines that changed, old ones after `-`, new ones after `+`."""
    lines = difflib.unified_diff(_lines(old), _lines(new), lineterm="", n=0)
    return "\n".join(line for line in lines if not line.startswith(("---", "+++", "@@")))


def _lines(text: str) -> list[str]:
    return [line.strip() for line in text.strip().rstrip(";").splitlines() if line.strip()]


def _fix(existing: Relation, catalog: Catalog) -> str:
    kind = existing.described.upper()
    readers = [relation.name for relation in catalog.downstream(existing.name)]
    reset = f"CREATE OR REPLACE {kind} {existing.name} ... begins it anew and keeps everything else"
    if not readers or existing.kind == "view":
        return reset
    return f"{reset}; to drop it with what reads it ({', '.join(readers)}): DROP {kind} {existing.name} CASCADE"
