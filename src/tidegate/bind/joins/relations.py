"""FROM with joins: every relation under its name, put together from left to right."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from tidegate.bind import typing
from tidegate.bind.context import Bound, Context, unique
from tidegate.bind.joins.choose import JoinRequest, joined
from tidegate.bind.joins.hint import Hint, early_fire, ignored
from tidegate.bind.joins.sides import Side
from tidegate.bind.scope import Field, Scope, resolve, unknown_column, written
from tidegate.bind.source import BindQuery, bind_item
from tidegate.bind.temporal import Where, where_of
from tidegate.bind.unsupported import check_expression, unsupported
from tidegate.catalog import Relation
from tidegate.errors import make
from tidegate.ir.joins import ANTI, FULL, INNER, LEFT, RIGHT, SEMI
from tidegate.plan import Filter, IntervalJoin, Item, Node, Project, Scalar, Scan, conjuncts, keep
from tidegate.plan.scalar import column_tree
from tidegate.sql import span_of
from tidegate.sql.grammar import WITHIN

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
class Joined:
    """What FROM has put together, and what of WHERE is left to do."""

    source: Bound
    scope: Scope
    where: Where


@dataclass(frozen=True)
class Part:
    """One relation of FROM, its columns under names of their own. `table` is set if it is a table as it is."""

    bound: Bound
    scope: Scope
    table: Relation | None
    join: exp.Join | None

    @property
    def kind(self) -> str:
        assert self.join is not None
        side, kind, method = ((self.join.args.get(key) or "").upper() for key in ("side", "kind", "method"))
        found = _KINDS.get((side, kind))
        if found is None or method not in ("", "NATURAL"):
            words = " ".join(word for word in (method, side, kind, "JOIN") if word)
            hint = "write JOIN, LEFT, RIGHT, FULL, LEFT SEMI or LEFT ANTI JOIN"
            raise unsupported(f"{'an' if words[0] in 'AEIOU' else 'a'} {words}", span_of(self.join), hint)
        return found

    @property
    def name(self) -> str:
        return self.scope.alias or "the subquery"

    @property
    def relation(self) -> str:
        """What is joined: `bills AS b`."""
        read = self.join.this if self.join is not None else None
        own = read.name if isinstance(read, exp.Table) else ""
        return f"{own} AS {self.name}" if own and not self.scope.is_alias(own) else self.name


def bind_joins(select: exp.Select, context: Context, bind_query: BindQuery) -> Joined:
    """The relations of a SELECT with joins, from left to right. What WHERE says of two relations that an inner join
    puts together is part of that join's condition."""
    taken: set[str] = set()
    read = [(select.args["from_"].this, None), *((join.this, join) for join in select.args["joins"])]
    parts = [_part(source, join, context, bind_query, taken) for source, join in read]
    _check_names(parts)
    hint = early_fire(select, context)
    if hint is not None and hint.target is not None:
        _check_target(hint, parts)
    where = where_of(select, _whole(parts))
    joiner = Joiner(parts[0], context, taken, hint)
    rest = [part for each in where.conditions for part in conjuncts(each)]
    for number, part in enumerate(parts[1:], start=1):
        moved = [each for each in rest if joiner.takes(each, part, parts[number:])]
        rest = [each for each in rest if each not in moved]
        joiner.join(part, [each.tree for each in moved])
    source = Bound(joiner.plan, joiner.fields)
    return Joined(source, joiner.scope, replace(where, conditions=tuple(rest)))


class Joiner:
    """Puts one relation after the other to what is there. `fields` are what `*` means."""

    def __init__(self, first: Part, context: Context, taken: set[str], hint: Hint | None) -> None:
        self.plan, self.fields = first.bound.plan, first.bound.fields
        self._parts, self._context, self._taken = [first], context, taken
        self._hint, self._fired = hint, False

    @property
    def scope(self) -> Scope:
        return Scope(None, self.fields, parts=tuple(part.scope for part in self._parts))

    def takes(self, condition: Scalar, part: Part, coming: Sequence[Part]) -> bool:
        """True if a condition of WHERE can be one of the join with `part`: both sides are in it, and what is joined
        later makes no row of those anew."""
        both = {*self.plan.columns, *part.bound.plan.columns}
        mixed = condition.columns & set(part.bound.plan.columns) and condition.columns & set(self.plan.columns)
        later = all(each.kind not in (RIGHT, FULL) for each in coming)
        return bool(mixed) and condition.columns <= both and part.kind == INNER and later

    def join(self, part: Part, moved: Sequence[exp.Expr]) -> None:
        shared = self._shared(part)
        on = [*self._equal(part, shared), *self._on(part), *self._within(part), *moved]
        mine = self._mine(part)
        wanted = JoinRequest(
            kind=part.kind,
            on=tuple(on),
            tables=(self._parts[0].table if len(self._parts) == 1 else None, part.table),
            as_of_now=self._as_of_now(part),
            hint=mine,
            span=span_of(part.join) if part.join is not None else None,
        )
        left, right = Side(self.plan, self._context, self._taken), Side(part.bound.plan, self._context, self._taken)
        self.plan = joined(wanted, left, right, self._taken, self._context)
        self._note(part, mine)
        if part.kind not in (SEMI, ANTI):
            self._parts.append(part)
            self.fields = self.fields if part.scope.unseen else self._merged(part, shared)

    def _mine(self, part: Part) -> Hint | None:
        hint = self._hint
        if hint is None or (hint.target is not None and not part.scope.is_alias(hint.target)):
            return None
        return None if self._fired else hint

    def _note(self, part: Part, mine: Hint | None) -> None:
        timed = any(isinstance(node, IntervalJoin) for node in _top(self.plan))
        if timed and mine is None and self._hint is not None and self._hint.target is None:
            others = "name a 'target', or write one view per join"
            reason = f"the first join takes it, not that with {part.relation}: {others}"
            ignored(self._hint, self._context, reason)
        if timed and mine is not None:
            self._fired = True

    def _on(self, part: Part) -> list[exp.Expr]:
        assert part.join is not None
        condition = part.join.args.get("on")
        if condition is None:
            return []
        check_expression(condition)
        scope = Scope(None, (*self.fields, *part.bound.fields), parts=(*self.scope.parts, part.scope))
        found = resolve(condition, scope, clocks=True)
        self._check_boolean(found, part)
        return [found]

    def _check_boolean(self, condition: exp.Expr, part: Part) -> None:
        schema = (*self.plan.schema, *part.bound.plan.schema)
        for tree in conjuncts(Scalar(condition)):
            found = typing.types_of(self._context.analyzer, schema, [tree.tree])[0].type
            if found != "boolean":
                message = f"ON needs a condition, {written(tree.tree)} is {found.upper()}"
                hint = f"compare it: {written(tree.tree)} = ..."
                raise make("TYPE_MISMATCH", message=message, hint=hint, span=span_of(tree.tree))

    def _within(self, part: Part) -> list[exp.Expr]:
        """`WITHIN d`: the times of both are no further apart; `WITHIN (before, after)`: that of the right side is at
        most so far before or after that of the left."""
        assert part.join is not None
        if WITHIN not in part.join.meta:
            return []
        before, after = part.join.meta[WITHIN]
        times = [_time(self.plan, "the left side", part.join), _time(part.bound.plan, part.name, part.join)]
        one, other = (column_tree(time) for time in times)
        low = exp.Sub(this=one.copy(), expression=before.copy())
        high = exp.Add(this=one.copy(), expression=after.copy())
        return [exp.GTE(this=other.copy(), expression=low), exp.LTE(this=other.copy(), expression=high)]

    def _shared(self, part: Part) -> list[tuple[exp.Expr, Field, Field]]:
        """The columns of USING, or those that NATURAL finds on both sides."""
        assert part.join is not None
        natural = (part.join.args.get("method") or "").upper() == "NATURAL"
        names = list(part.join.args.get("using") or ())
        if natural:
            known = {field.name.casefold() for field in self.fields}
            found = [field.name for field in part.bound.fields if field.name.casefold() in known]
            names = [exp.to_identifier(name) for name in found]
        scope = Scope(None, self.fields)
        return [(name, _only(scope, name, self.scope), _only(part.scope, name, part.scope)) for name in names]

    def _equal(self, part: Part, shared: Sequence[tuple[exp.Expr, Field, Field]]) -> list[exp.Expr]:
        return [
            exp.EQ(this=column_tree(left.column), expression=column_tree(right.column)) for _, left, right in shared
        ]

    def _merged(self, part: Part, shared: Sequence[tuple[exp.Expr, Field, Field]]) -> tuple[Field, ...]:
        """All fields; those of USING once, and first."""
        if not shared:
            return (*self.fields, *part.bound.fields)
        first = [self._one(part.kind, left, right) for _, left, right in shared]
        gone = {field.column for _, left, right in shared for field in (left, right)}
        rest = [field for field in (*self.fields, *part.bound.fields) if field.column not in gone]
        return (*first, *rest)

    def _one(self, kind: str, left: Field, right: Field) -> Field:
        """The column of USING: of an outer join, that of the side that is there."""
        if kind != FULL:
            return left if kind != RIGHT else replace(right, name=left.name)
        tree = exp.Coalesce(this=column_tree(left.column), expressions=[column_tree(right.column)])
        name = unique("__u", self._taken)
        items = tuple(keep(self.plan, each) for each in self.plan.columns)
        self.plan = Project(self.plan, (*items, Item(name, Scalar(tree), left.type)))
        return Field(left.name, name, left.type)

    def _as_of_now(self, part: Part) -> bool:
        """FOR SYSTEM_TIME AS OF PROCTIME()."""
        assert part.join is not None
        version = part.join.this.args.get("version") if isinstance(part.join.this, exp.Table) else None
        if version is None:
            return False
        moment = version.expression
        if isinstance(moment, exp.Anonymous) and moment.name.upper() == "PROCTIME":
            return True
        if isinstance(moment, exp.Column) and self._is_clock(moment):
            return True
        hint = "write FOR SYSTEM_TIME AS OF PROCTIME()"
        detail = "a table is known as it is now, not as it was at a time of the past"
        raise unsupported("FOR SYSTEM_TIME AS OF a time column", span_of(version) or span_of(part.join), hint, detail)

    def _is_clock(self, moment: exp.Column) -> bool:
        found = resolve(moment, self.scope, clocks=True)
        return isinstance(found, exp.Column) and found.name in self.plan.traits.clocks


def _part(source: exp.Expr, join: exp.Join | None, context: Context, bind_query: BindQuery, taken: set[str]) -> Part:
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
    return Part(Bound(plan, fields), replace(scope, fields=fields), table, join)


def _whole(parts: Sequence[Part]) -> Scope:
    """What WHERE sees: all relations but those that only say whether a row stays."""
    seen = [part for part in parts if part.join is None or part.kind not in (SEMI, ANTI)]
    fields = tuple(field for part in seen for field in part.bound.fields if not part.scope.unseen)
    return Scope(None, fields, parts=tuple(part.scope for part in seen))


def _check_names(parts: Sequence[Part]) -> None:
    seen: set[str] = set()
    for part in parts:
        alias = part.scope.alias
        if alias is not None and alias.casefold() in seen:
            message = f"FROM has two relations called {alias}"
            span = span_of(part.join.this) if part.join is not None else None
            raise make("ALREADY_EXISTS", message=message, hint=f"give one another name: {alias} AS other", span=span)
        seen |= {alias.casefold()} if alias is not None else set()


def _check_target(hint: Hint, parts: Sequence[Part]) -> None:
    names = [part.name for part in parts[1:]]
    if hint.target is not None and hint.target.casefold() not in (name.casefold() for name in names):
        problem = f"'target' = '{hint.target}' is not joined here"
        raise make("INVALID_HINT", problem=problem, hint=f"name one of {', '.join(names)}", span=hint.span)


def _only(scope: Scope, name: exp.Expr, known: Scope) -> Field:
    found = scope.find(name.name)
    if not found:
        raise unknown_column(name, name.name, known)
    if len(found) > 1:
        hint = f"write ON with the one that is meant: ON a.{name.name} = b.{name.name}"
        message = f"USING ({name.name}): the left side has {len(found)} columns {name.name}"
        raise make("AMBIGUOUS_COLUMN", message=message, hint=hint, span=span_of(name))
    return found[0]


def _time(plan: Node, name: str, join: exp.Join) -> str:
    found = [column for column, _ in plan.traits.watermarks]
    if len(found) != 1:
        message = f"WITHIN needs one time column with a watermark, {name} has {len(found)}"
        hint = "write the bounds in ON: a.ts BETWEEN b.ts - INTERVAL '5' MINUTE AND b.ts + INTERVAL '5' MINUTE"
        raise make("NOT_SUPPORTED", message=message, hint=hint, span=span_of(join))
    return found[0]


def _top(plan: Node) -> Iterator[Node]:
    """The join that a plan ends with, under the filters above it."""
    yield plan
    while isinstance(plan, Filter):
        plan = plan.input
        yield plan
