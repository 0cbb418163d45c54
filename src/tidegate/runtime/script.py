"""Scripts, which may be run again on the same folder: every statement is applied once.

A process can die between the effect of a statement and its record in the ledger. What happens to the statement then
depends on its kind: a CREATE is recognised by its text in the catalog; INSERT, UPDATE, DELETE and ADVANCE by a mark in
their entry of the insert log; a DROP by a relation that the ledger has and the catalog does not. All others (CREATE OR
REPLACE, SET, LATENESS, REFRESH TABLE) can be repeated.
"""

from __future__ import annotations

import difflib

from tidegate import errors
from tidegate.catalog import Catalog
from tidegate.catalog.relation import Relation
from tidegate.core.secrets import mask_sql
from tidegate.runtime.current_catalog import CurrentCatalog
from tidegate.runtime.execute import StatementExecutor
from tidegate.runtime.literal_secrets import without_secrets
from tidegate.runtime.results import Result
from tidegate.sql import statements as s
from tidegate.storage.insert_log import InsertLog
from tidegate.storage.ledger import Ledger, ScriptStatement, digest_of
from tidegate.storage.secrets_file import Secrets

Create = s.CreateRelation | s.CreateView | s.CreateSink


class ScriptRunner:
    """Applies the statements of scripts that this folder does not have yet."""

    def __init__(
        self,
        catalog: CurrentCatalog,
        ledger: Ledger,
        inserts: InsertLog,
        statements: StatementExecutor,
        secrets: Secrets,
    ) -> None:
        self._catalog, self._ledger, self._inserts, self._statements = catalog, ledger, inserts, statements
        self._secrets = secrets

    def run(self, statement: s.Statement, origin: str) -> Result | None:
        """Apply a statement of the script `origin`; None if it was applied before. Earlier versions recorded statements
        with their secrets: those are recognised as they were written."""
        as_written = ScriptStatement.of(origin, statement.text)
        statement = without_secrets(statement, self._secrets)
        recorded = ScriptStatement.of(origin, statement.text)
        if self._ledger.applied(recorded) or self._ledger.applied(as_written):
            return None
        result = None
        if not (self._has_effect(recorded, statement) or self._has_effect(as_written, statement)):
            check_unchanged(statement, self._catalog.value)
            result = self._statements.for_script(recorded).execute(statement)
        self._ledger.record(recorded)
        return result

    def _has_effect(self, recorded: ScriptStatement, statement: s.Statement) -> bool:
        """True if the statement took effect although the ledger does not have it."""
        if self._inserts.marks().get(recorded.mark) == recorded.digest:
            return True
        if not isinstance(statement, Create) or statement.or_replace:
            return False
        existing = self._catalog.value.find(statement.name.text)
        return existing is not None and digest_of(existing.sql) == recorded.digest


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
        detail=_difference(mask_sql(existing.sql), mask_sql(statement.text)),
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
