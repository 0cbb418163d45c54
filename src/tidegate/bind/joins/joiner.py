"""FROM with joins: relations are joined from left to right."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from tidegate.bind.context import Bound, Context, unique
from tidegate.bind.expressions import types_of
from tidegate.bind.joins.choose import JoinRequest, choose_join
from tidegate.bind.joins.hint import Hint, check_target, early_fire, warn_ignored
from tidegate.bind.joins.relations import (
    JoinedRelation,
    check_names,
    read_relation,
    using_field,
    where_scope,
    within_time,
)
from tidegate.bind.joins.sides import Side
from tidegate.bind.scope import Field, Scope, resolve, source_text
from tidegate.bind.source import BindQuery
from tidegate.bind.temporal import Where, bind_where
from tidegate.bind.unsupported import check_expression, unsupported
from tidegate.errors import make
from tidegate.ir.joins import ANTI, FULL, INNER, RIGHT, SEMI
from tidegate.plan import Filter, IntervalJoin, Item, Node, Project, Scalar, conjuncts, keep
from tidegate.plan.scalar import column_tree
from tidegate.sql import span_of
from tidegate.sql.grammar import WITHIN


@dataclass(frozen=True)
class Joined:
    """The relations of FROM as one, and the conditions of WHERE that are not part of a join."""

    source: Bound
    scope: Scope
    where: Where


def bind_joins(select: exp.Select, context: Context, bind_query: BindQuery) -> Joined:
    """Join the relations of a SELECT from left to right. A condition of WHERE on both sides of an inner join becomes
    part of that join's condition."""
    taken: set[str] = set()
    sources = [(select.args["from_"].this, None), *((join.this, join) for join in select.args["joins"])]
    relations = [read_relation(source, join, context, bind_query, taken) for source, join in sources]
    check_names(relations)
    hint = early_fire(select, context)
    if hint is not None:
        check_target(hint, [each.name for each in relations[1:]])
    where = bind_where(select, where_scope(relations))
    joiner = Joiner(relations[0], context, taken, hint)
    rest = [part for each in where.conditions for part in conjuncts(each)]
    for number, relation in enumerate(relations[1:], start=1):
        moved = [each for each in rest if joiner.takes(each, relation, relations[number:])]
        rest = [each for each in rest if each not in moved]
        joiner.join(relation, [each.tree for each in moved])
    source = Bound(joiner.plan, joiner.fields)
    return Joined(source, joiner.scope, replace(where, conditions=tuple(rest)))


class Joiner:
    """Joins one relation after the other to those before. `fields` are what `*` means."""

    def __init__(self, first: JoinedRelation, context: Context, taken: set[str], hint: Hint | None) -> None:
        self.plan, self.fields = first.bound.plan, first.bound.fields
        self._parts, self._context, self._taken = [first], context, taken
        self._hint, self._fired = hint, False

    @property
    def scope(self) -> Scope:
        return Scope(None, self.fields, parts=tuple(part.scope for part in self._parts))

    def takes(self, condition: Scalar, part: JoinedRelation, coming: Sequence[JoinedRelation]) -> bool:
        """True if a condition of WHERE can be part of the join with `part`: it reads both sides, and no later join pads
        their rows."""
        both = {*self.plan.columns, *part.bound.plan.columns}
        mixed = condition.columns & set(part.bound.plan.columns) and condition.columns & set(self.plan.columns)
        later = all(each.kind not in (RIGHT, FULL) for each in coming)
        return bool(mixed) and condition.columns <= both and part.kind == INNER and later

    def join(self, part: JoinedRelation, moved: Sequence[exp.Expr]) -> None:
        """Join a relation. `moved` are conditions of WHERE that become part of the join."""
        shared = self._shared(part)
        on = [*_equalities(shared), *self._on(part), *self._within(part), *moved]
        hint = self._hint_for(part)
        request = JoinRequest(
            kind=part.kind,
            on=tuple(on),
            tables=(self._parts[0].table if len(self._parts) == 1 else None, part.table),
            as_of_now=self._as_of_now(part),
            hint=hint,
            span=span_of(part.join) if part.join is not None else None,
        )
        left, right = (Side(plan, self._context, self._taken, request.span) for plan in (self.plan, part.bound.plan))
        self.plan = choose_join(request, left, right, self._taken, self._context)
        self._note_hint(part, hint)
        if part.kind not in (SEMI, ANTI):
            self._parts.append(part)
            self.fields = self.fields if part.scope.unseen else self._merge_fields(part, shared)

    def _hint_for(self, part: JoinedRelation) -> Hint | None:
        hint = self._hint
        if hint is None or (hint.target is not None and not part.scope.is_alias(hint.target)):
            return None
        return None if self._fired else hint

    def _note_hint(self, part: JoinedRelation, used: Hint | None) -> None:
        timed = any(isinstance(node, IntervalJoin) for node in _top_nodes(self.plan))
        if timed and used is None and self._hint is not None and self._hint.target is None:
            others = "name a 'target', or write one view per join"
            reason = f"the first join takes it, not that with {part.relation}: {others}"
            warn_ignored(self._hint, self._context, reason)
        if timed and used is not None:
            self._fired = True

    def _on(self, part: JoinedRelation) -> list[exp.Expr]:
        assert part.join is not None
        condition = part.join.args.get("on")
        if condition is None:
            return []
        check_expression(condition)
        scope = Scope(None, (*self.fields, *part.bound.fields), parts=(*self.scope.parts, part.scope))
        resolved = resolve(condition, scope, clocks=True)
        self._check_boolean(resolved, part)
        return [resolved]

    def _check_boolean(self, condition: exp.Expr, part: JoinedRelation) -> None:
        schema = (*self.plan.schema, *part.bound.plan.schema)
        for tree in conjuncts(Scalar(condition)):
            type = types_of(self._context.analyzer, schema, [tree.tree])[0].type
            if type != "boolean":
                message = f"ON needs a condition, {source_text(tree.tree)} is {type.upper()}"
                hint = f"compare it: {source_text(tree.tree)} = ..."
                raise make("TYPE_MISMATCH", message=message, hint=hint, span=span_of(tree.tree))

    def _within(self, part: JoinedRelation) -> list[exp.Expr]:
        """`WITHIN d`: the times of both sides are at most `d` apart. `WITHIN (before, after)`: the time of the right
        side is at most `before` earlier or `after` later than that of the left."""
        assert part.join is not None
        if WITHIN not in part.join.meta:
            return []
        before, after = part.join.meta[WITHIN]
        times = [within_time(self.plan, "the left side", part.join), within_time(part.bound.plan, part.name, part.join)]
        one, other = (column_tree(time) for time in times)
        low = exp.Sub(this=one.copy(), expression=before.copy())
        high = exp.Add(this=one.copy(), expression=after.copy())
        return [exp.GTE(this=other.copy(), expression=low), exp.LTE(this=other.copy(), expression=high)]

    def _shared(self, part: JoinedRelation) -> list[tuple[exp.Expr, Field, Field]]:
        """The columns of USING, or with NATURAL those that both sides have: the name, and the field of each side."""
        assert part.join is not None
        natural = (part.join.args.get("method") or "").upper() == "NATURAL"
        names = list(part.join.args.get("using") or ())
        if natural:
            known = {field.name.casefold() for field in self.fields}
            common = [field.name for field in part.bound.fields if field.name.casefold() in known]
            names = [exp.to_identifier(name) for name in common]
        scope = Scope(None, self.fields)
        return [
            (name, using_field(scope, name, self.scope), using_field(part.scope, name, part.scope)) for name in names
        ]

    def _merge_fields(self, part: JoinedRelation, shared: Sequence[tuple[exp.Expr, Field, Field]]) -> tuple[Field, ...]:
        """All fields; those of USING once, and first."""
        if not shared:
            return (*self.fields, *part.bound.fields)
        first = [self._using_column(part.kind, left, right) for _, left, right in shared]
        merged = {field.column for _, left, right in shared for field in (left, right)}
        rest = [field for field in (*self.fields, *part.bound.fields) if field.column not in merged]
        return (*first, *rest)

    def _using_column(self, kind: str, left: Field, right: Field) -> Field:
        """The column of USING: in an outer join, that of the side that is not padded."""
        if kind != FULL:
            return left if kind != RIGHT else replace(right, name=left.name)
        tree = exp.Coalesce(this=column_tree(left.column), expressions=[column_tree(right.column)])
        name = unique("__u", self._taken)
        items = tuple(keep(self.plan, each) for each in self.plan.columns)
        self.plan = Project(self.plan, (*items, Item(name, Scalar(tree), left.type)))
        return Field(left.name, name, left.type)

    def _as_of_now(self, part: JoinedRelation) -> bool:
        """True with FOR SYSTEM_TIME AS OF PROCTIME()."""
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
        column = resolve(moment, self.scope, clocks=True)
        return isinstance(column, exp.Column) and column.name in self.plan.traits.clocks


def _equalities(shared: Sequence[tuple[exp.Expr, Field, Field]]) -> list[exp.Expr]:
    return [exp.EQ(this=column_tree(left.column), expression=column_tree(right.column)) for _, left, right in shared]


def _top_nodes(plan: Node) -> Iterator[Node]:
    """The filters at the top of a plan, and the node below them."""
    yield plan
    while isinstance(plan, Filter):
        plan = plan.input
        yield plan
