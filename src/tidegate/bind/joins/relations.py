"""The relations of FROM with joins, each under its own name and with column names that no other relation has."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from tidegate.bind.context import Bound, Context, unique
from tidegate.bind.scope import Field, Scope, unknown_column
from tidegate.bind.source import BindQuery, bind_item
from tidegate.bind.unsupported import unsupported
from tidegate.catalog import Relation
from tidegate.errors import make
from tidegate.ir.joins import ANTI, FULL, INNER, LEFT, RIGHT, SEMI
from tidegate.plan import Node, Project, Scan, keep
from tidegate.sql import span_of

_KINDS = {
    ("", ""): INNER,
    ("", "INNER"): INNER,
    ("", "CROSS"): INNER,
    ("LEFT", ""): LEFT,
    ("LEFT", "OUTER"): LEFT,
    ("RIGHT", ""): RIGHT,
    ("RIGHT", "OUTER"): RIGHT,
    ("FULL", ""): FULL,
    ("FULL", "OUTER"): FULL,
    ("LEFT", "SEMI"): SEMI,
    ("", "SEMI"): SEMI,
    ("LEFT", "ANTI"): ANTI,
    ("", "ANTI"): ANTI,
}


@dataclass(frozen=True)
class JoinedRelation:
    """One relation of FROM. `table` is set if it is a table and nothing else, `join` for all but the first."""

    bound: Bound
    scope: Scope
    table: Relation | None
    join: exp.Join | None

    @property
    def kind(self) -> str:
        assert self.join is not None
        side, kind, method = ((self.join.args.get(key) or "").upper() for key in ("side", "kind", "method"))
        known = _KINDS.get((side, kind))
        if known is None or method not in ("", "NATURAL"):
            words = " ".join(word for word in (method, side, kind, "JOIN") if word)
            hint = "write JOIN, LEFT, RIGHT, FULL, LEFT SEMI or LEFT ANTI JOIN"
            raise unsupported(f"{'an' if words[0] in 'AEIOU' else 'a'} {words}", span_of(self.join), hint)
        return known

    @property
    def name(self) -> str:
        return self.scope.alias or "the subquery"

    @property
    def relation(self) -> str:
        """The relation as written in FROM: `bills AS b`."""
        source = self.join.this if self.join is not None else None
        own = source.name if isinstance(source, exp.Table) else ""
        return f"{own} AS {self.name}" if own and not self.scope.is_alias(own) else self.name


def read_relation(
    source: exp.Expr, join: exp.Join | None, context: Context, bind_query: BindQuery, taken: set[str]
) -> JoinedRelation:
    """Bind a relation of FROM. `taken` are the column names of the others."""
    plain = source
    if isinstance(source, exp.Table) and source.args.get("version") is not None:
        plain = source.copy()
        plain.set("version", None)
    bound, scope = bind_item(plain, context, bind_query)
    table = bound.plan.relation if isinstance(bound.plan, Scan) and bound.plan.relation.kind == "table" else None
    names = {name: unique(name, taken) for name in bound.plan.columns}
    items = tuple(keep(bound.plan, old, new) for old, new in names.items())
    plan: Node = Project(bound.plan, items) if any(old != new for old, new in names.items()) else bound.plan
    fields = tuple(replace(field, column=names[field.column]) for field in bound.fields)
    return JoinedRelation(Bound(plan, fields), replace(scope, fields=fields), table, join)


def where_scope(relations: Sequence[JoinedRelation]) -> Scope:
    """The scope of WHERE: all relations but those of semi and anti joins."""
    visible = [each for each in relations if each.join is None or each.kind not in (SEMI, ANTI)]
    fields = tuple(field for each in visible for field in each.bound.fields if not each.scope.unseen)
    return Scope(None, fields, parts=tuple(each.scope for each in visible))


def check_names(relations: Sequence[JoinedRelation]) -> None:
    """Reject two relations of the same name."""
    seen: set[str] = set()
    for each in relations:
        alias = each.scope.alias
        if alias is not None and alias.casefold() in seen:
            message = f"FROM has two relations called {alias}"
            span = span_of(each.join.this) if each.join is not None else None
            raise make("ALREADY_EXISTS", message=message, hint=f"give one another name: {alias} AS other", span=span)
        seen |= {alias.casefold()} if alias is not None else set()


def using_field(scope: Scope, name: exp.Expr, known: Scope) -> Field:
    """The one field of that name, for USING. `known` are the fields to name in an error."""
    fields = scope.find(name.name)
    if not fields:
        raise unknown_column(name, name.name, known)
    if len(fields) > 1:
        hint = f"write ON with the one that is meant: ON a.{name.name} = b.{name.name}"
        message = f"USING ({name.name}): the left side has {len(fields)} columns {name.name}"
        raise make("AMBIGUOUS_COLUMN", message=message, hint=hint, span=span_of(name))
    return fields[0]


def within_time(plan: Node, name: str, join: exp.Join) -> str:
    """The one column with a watermark, which WITHIN compares."""
    times = [column for column, _ in plan.traits.watermarks]
    if len(times) != 1:
        message = f"WITHIN needs one time column with a watermark, {name} has {len(times)}"
        hint = "write the bounds in ON: a.ts BETWEEN b.ts - INTERVAL '5' MINUTE AND b.ts + INTERVAL '5' MINUTE"
        raise make("NOT_SUPPORTED", message=message, hint=hint, span=span_of(join))
    return times[0]
