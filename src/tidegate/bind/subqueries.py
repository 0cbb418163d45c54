"""Rewrites subqueries in expressions to joins.

WHERE x IN (SELECT y FROM t)                      LEFT SEMI JOIN (SELECT y AS c0 FROM t) AS s ON x = s.c0
WHERE NOT EXISTS (SELECT 1 FROM t WHERE t.k = o.k) LEFT ANTI JOIN (SELECT t.k AS c0 FROM t) AS s ON s.c0 = o.k
(SELECT MAX(x) FROM t)                            CROSS JOIN (SELECT MAX(x) AS c0 FROM t) AS s, and s.c0
(SELECT MAX(x) FROM t WHERE t.k = o.k)            LEFT JOIN (SELECT MAX(x) AS c0, t.k AS c1 FROM t GROUP BY t.k) ...
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sqlglot import exp

from tidegate.bind.aggregates import contains_aggregate
from tidegate.bind.context import Context
from tidegate.bind.expressions import split_and
from tidegate.bind.scope import Scope
from tidegate.bind.source import BindQuery, bind_item
from tidegate.bind.unsupported import unsupported
from tidegate.sql import span_of

PREFIX = "__q"


def rewrite_subqueries(select: exp.Select, context: Context, bind_query: BindQuery) -> exp.Select:
    """The SELECT with its subqueries as joins. Subqueries that cannot be joins are rejected later, by
    `check_expression`."""
    if not any(isinstance(node, exp.Query) for tree in _trees(select) for node in tree.walk()):
        return select
    copy = select.copy()
    rewriter = _Rewriter(copy, context, bind_query)
    rewriter.rewrite_conditions()
    rewriter.rewrite_values()
    return copy


def _trees(select: exp.Select) -> Iterator[exp.Expr]:
    yield from select.expressions
    if select.args.get("where") is not None:
        yield select.args["where"]


class _Rewriter:
    """Rewrites a SELECT in place."""

    def __init__(self, select: exp.Select, context: Context, bind_query: BindQuery) -> None:
        self._select, self._context, self._bind_query = select, context, bind_query
        self._joins = list(select.args.get("joins") or ())
        self._count = 0

    def rewrite_conditions(self) -> None:
        """Replace IN and EXISTS in WHERE, alone or connected by AND."""
        where = self._select.args.get("where")
        if where is None:
            return
        rest: list[exp.Expr] = []
        for part in split_and(where.this):
            rest += self._condition(part)
        self._select.set("where", exp.Where(this=_conjunction(rest)) if rest else None)
        self._select.set("joins", self._joins)

    def rewrite_values(self) -> None:
        """Replace subqueries that are a value."""
        grouped = self._select.args.get("group") is not None or any(
            contains_aggregate(item) for item in self._select.expressions
        )
        for tree in list(_trees(self._select)):
            for node in list(tree.find_all(exp.Subquery)):
                inside = node.find_ancestor(exp.Select) is not self._select or isinstance(node.parent, exp.In)
                if isinstance(node.this, exp.Select) and not inside:
                    if grouped and node.find_ancestor(exp.Where) is None:
                        hint = "group in a subquery in FROM, and compare outside of it"
                        raise unsupported("a subquery beside aggregates", span_of(node), hint)
                    node.replace(self._value(node))
        self._select.set("joins", self._joins)

    def _condition(self, part: exp.Expr) -> list[exp.Expr]:
        """Replace one condition; returns the conditions that remain in WHERE."""
        node, negated = part.unnest(), False
        while isinstance(node, exp.Not):
            node, negated = node.this.unnest(), not negated
        if isinstance(node, exp.Exists) and isinstance(node.this, exp.Select):
            return self._exists(node.this, negated, [])
        query = node.args.get("query") if isinstance(node, exp.In) else None
        if isinstance(query, exp.Subquery) and isinstance(query.this, exp.Select):
            return self._in(node, query.this, negated)
        return [part]

    def _in(self, node: exp.Expr, query: exp.Select, negated: bool) -> list[exp.Expr]:
        if len(query.expressions) != 1:
            raise unsupported("IN of a subquery with several columns", span_of(node), "select one column")
        values = node.this.copy()
        plain = not self._outer_columns(query)
        if negated and not plain:
            raise unsupported("NOT IN of a subquery that reads the row outside", span_of(node), "write NOT EXISTS")
        if not plain:
            return self._exists(query, negated, [(values, query.expressions[0])])
        name = self._alias()
        inner = query.copy()
        inner.set("expressions", [exp.alias_(_unalias(inner.expressions[0]), "c0")])
        self._join(inner, name, "ANTI" if negated else "SEMI", exp.EQ(this=values, expression=_column(name, "c0")))
        return [self._no_nulls(inner, node.this)] if negated else []

    def _no_nulls(self, inner: exp.Select, value: exp.Expr) -> exp.Expr:
        """The condition of NOT IN on NULL: no NULL on either side, or an empty right side."""
        name = self._alias()
        counts = exp.Select(
            expressions=[
                exp.alias_(exp.Count(this=exp.Star()), "n"),
                exp.alias_(exp.Count(this=exp.column("c0")), "m"),
            ]
        )
        counts.set("from_", exp.From(this=exp.Subquery(this=inner.copy(), alias=_table_alias(f"{name}_"))))
        self._join(counts, name, "CROSS", None)
        empty = exp.EQ(this=_column(name, "n"), expression=exp.Literal.number(0))
        known = exp.Not(this=exp.Is(this=exp.Paren(this=value.copy()), expression=exp.Null()))
        whole = exp.And(this=known, expression=exp.EQ(this=_column(name, "n"), expression=_column(name, "m")))
        return exp.Paren(this=exp.Or(this=empty, expression=exp.Paren(this=whole)))

    def _exists(self, query: exp.Select, negated: bool, equal: Sequence[tuple[exp.Expr, exp.Expr]]) -> list[exp.Expr]:
        """EXISTS, or IN of a subquery that reads the outer row; `equal` are the values of IN."""
        if not equal and not any(contains_aggregate(item) for item in query.expressions):
            # What EXISTS selects does not matter, so it may name columns of the outer row.
            query = _selecting_one(query) if self._outer_columns(query) else query
        if not equal and not self._outer_columns(query):
            return [self._count_rows(query, negated)]
        for clause in ("group", "having", "limit", "offset", "qualify"):
            if query.args.get(clause) is not None:
                hint = "put the inner query into a view, and test that it EXISTS there"
                raise unsupported(f"{clause.upper()} in a subquery that reads the row outside", span_of(query), hint)
        scope, name = self._inner_scope(query), self._alias()
        outer, inner = self._split_where(query, scope)
        outer += [exp.EQ(this=left, expression=_unalias(right).copy()) for left, right in equal]
        exported: dict[str, exp.Expr] = {}
        if not outer:
            hint = "write what reads it as conditions in the WHERE of the subquery"
            raise unsupported("a subquery that reads the row outside, but not in its WHERE", span_of(query), hint)
        on = [_export(tree, scope, name, exported) for tree in outer]
        items = list(exported.values()) or [exp.alias_(exp.Literal.number(1), "c0")]
        subquery = query.copy()
        subquery.set("expressions", items)
        subquery.set("where", exp.Where(this=_conjunction(inner)) if inner else None)
        self._join(subquery, name, "ANTI" if negated else "SEMI", _conjunction(on))
        return []

    def _count_rows(self, query: exp.Select, negated: bool) -> exp.Expr:
        """EXISTS of a query that does not depend on the outer row: compare its number of rows with 0."""
        name = self._alias()
        counts = exp.Select(expressions=[exp.alias_(exp.Count(this=exp.Star()), "n")])
        counts.set("from_", exp.From(this=exp.Subquery(this=query.copy(), alias=_table_alias(f"{name}_"))))
        self._join(counts, name, "CROSS", None)
        compared = exp.EQ if negated else exp.GT
        return compared(this=_column(name, "n"), expression=exp.Literal.number(0))

    def _value(self, node: exp.Subquery) -> exp.Expr:
        query = node.this
        if len(query.expressions) != 1:
            raise unsupported("a subquery of several columns as a value", span_of(node), "select one column")
        item = _unalias(query.expressions[0])
        if query.args.get("group") is not None or not contains_aggregate(item):
            hint = "make it one row with an aggregate: (SELECT MAX(x) FROM t)"
            raise unsupported("a subquery that may have several rows as a value", span_of(node), hint)
        scope, name = self._inner_scope(query), self._alias()
        outer, inner = self._split_where(query, scope)
        subquery = query.copy()
        subquery.set("where", exp.Where(this=_conjunction(inner)) if inner else None)
        if not outer:
            subquery.set("expressions", [exp.alias_(item.copy(), "c")])
            self._join(subquery, name, "CROSS", None)
            return _column(name, "c")
        return self._correlated(node, subquery, item, scope, name, outer)

    def _correlated(
        self, node: exp.Expr, subquery: exp.Select, item: exp.Expr, scope: Scope, name: str, outer: list[exp.Expr]
    ) -> exp.Expr:
        if not all(isinstance(tree, exp.EQ) for tree in outer):
            hint = "compare with = only, or write a join"
            raise unsupported("a subquery as a value that reads the row outside like this", span_of(node), hint)
        exported: dict[str, exp.Expr] = {}
        on = [_export(tree, scope, name, exported) for tree in outer]
        subquery.set("expressions", [exp.alias_(item.copy(), "c"), *exported.values()])
        subquery.set("group", exp.Group(expressions=[each.this.copy() for each in exported.values()]))
        self._join(subquery, name, "LEFT", _conjunction(on))
        counts = isinstance(item, exp.Count)
        if not counts and item.find(exp.Count) is not None:
            hint = "write COUNT alone, and compute outside of the subquery"
            raise unsupported("COUNT inside of an expression of such a subquery", span_of(node), hint)
        value = _column(name, "c")
        return exp.Coalesce(this=value, expressions=[exp.Literal.number(0)]) if counts else value

    def _split_where(self, query: exp.Select, scope: Scope) -> tuple[list[exp.Expr], list[exp.Expr]]:
        """The conditions of a subquery that read the outer row, and those that do not."""
        where = query.args.get("where")
        parts = list(split_and(where.this)) if where is not None else []
        outer = [part for part in parts if any(not _is_inner(each, scope) for each in part.find_all(exp.Column))]
        rest = [part for part in parts if part not in outer]
        return [part.copy() for part in outer], [part.copy() for part in rest]

    def _outer_columns(self, query: exp.Select) -> bool:
        scope = self._inner_scope(query)
        return any(not _is_inner(each, scope) for each in query.find_all(exp.Column))

    def _inner_scope(self, query: exp.Select) -> Scope:
        """The scope of the subquery itself."""
        clause = query.args.get("from_")
        if clause is None:
            raise unsupported("a subquery without FROM", span_of(query))
        inside = self._context.with_ctes(query)
        sources = [clause.this, *(join.this for join in query.args.get("joins") or ())]
        parts = tuple(bind_item(source, inside, self._bind_query)[1] for source in sources)
        return Scope(None, tuple(field for part in parts for field in part.fields), parts=parts)

    def _alias(self) -> str:
        self._count += 1
        return f"{PREFIX}{self._count}"

    def _join(self, query: exp.Select, name: str, kind: str, on: exp.Expr | None) -> None:
        join = exp.Join(this=exp.Subquery(this=query, alias=_table_alias(name)))
        if kind in ("SEMI", "ANTI"):
            join.set("side", "LEFT")
            join.set("kind", kind)
        elif kind == "LEFT":
            join.set("side", kind)
        else:
            join.set("kind", kind)
        if on is not None:
            join.set("on", on)
        self._joins.append(join)


def _selecting_one(query: exp.Select) -> exp.Select:
    copy = query.copy()
    copy.set("expressions", [exp.alias_(exp.Literal.number(1), "c0")])
    return copy


def _conjunction(parts: Sequence[exp.Expr]) -> exp.Expr:
    tree = parts[0].copy()
    for part in parts[1:]:
        tree = exp.And(this=tree, expression=exp.Paren(this=part.copy()))
    return tree


def _is_inner(column: exp.Column, scope: Scope) -> bool:
    """True if a name is a column of what the subquery reads."""
    parts = column.parts
    if isinstance(column.this, exp.Star):
        return True
    owner = scope.find_relation(parts[0].name) if len(parts) > 1 else None
    if owner is not None:
        return bool(owner.find(parts[1].name))
    return bool(scope.find(parts[0].name))


def _export(tree: exp.Expr, scope: Scope, name: str, exported: dict[str, exp.Expr]) -> exp.Expr:
    """The condition from outside: columns of the subquery become columns of its alias, and are added to `exported`."""

    def swap(node: exp.Expr) -> exp.Expr:
        if not isinstance(node, exp.Column) or not _is_inner(node, scope):
            return node
        key = node.sql()
        if key not in exported:
            exported[key] = exp.alias_(node.copy(), f"c{len(exported)}")
        return _column(name, exported[key].alias)

    return tree.copy().transform(swap)


def _unalias(item: exp.Expr) -> exp.Expr:
    return item.this if isinstance(item, exp.Alias) else item


def _column(table: str, name: str) -> exp.Column:
    return exp.Column(this=_identifier(name), table=_identifier(table))


def _identifier(name: str) -> exp.Identifier:
    return exp.to_identifier(name, quoted=True)


def _table_alias(name: str) -> exp.TableAlias:
    return exp.TableAlias(this=_identifier(name))
