"""Ad-hoc SELECT: Spark runs it as a batch over the content of relations, so all of Spark's SQL works in it."""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from tidegate.bind.adhoc.deterministic import deterministic
from tidegate.bind.adhoc.direct import DirectSelect, direct_select
from tidegate.bind.adhoc.windows import spark_windows
from tidegate.bind.events.paths import with_paths
from tidegate.bind.source import relation_name
from tidegate.catalog import Catalog, Relation
from tidegate.core.schema import names
from tidegate.core.types import has_map
from tidegate.errors import make
from tidegate.sql import call, render, span_of
from tidegate.sql.grammar import WITHIN
from tidegate.sql.guards import guard_calls
from tidegate.sql.queries import EARLY_FIRE
from tidegate.sql.statements import CreateView, Query


@dataclass(frozen=True)
class BoundSelect:
    """Spark SQL in which every relation is a temporary view (`temp_name`), and the names of those relations. `direct`:
    the same query, if Spark is not needed for it."""

    sql: str
    relations: tuple[str, ...]
    direct: DirectSelect | None = None


def temp_name(relation: str) -> str:
    """The name of the temporary view that holds a relation's content."""
    return "tidegate_" + relation.replace(".", "__")


def bind_select(query: Query, catalog: Catalog, sources: bool = False) -> BoundSelect:
    """Resolve the relations of a query. `sources`: rows of sources can be read too."""
    read: dict[str, None] = {}
    tree = _expand(_expand_windows(with_paths(query.select), catalog), catalog, read, sources, frozenset())
    relation = catalog.readable(next(iter(read))) if len(read) == 1 else None
    direct = None if relation is None else direct_select(tree, relation, temp_name(relation.name))
    return BoundSelect(render(guard_calls(tree)), tuple(read), direct)


def _expand_windows(select: exp.Query, catalog: Catalog) -> exp.Query:
    """The query with its windows as Spark SQL."""

    def columns(name: str) -> tuple[str, ...] | None:
        relation = catalog.find(name)
        return None if relation is None else names(relation.columns)

    def times(name: str) -> tuple[str, ...]:
        relation = catalog.find(name)
        notes = () if relation is None else relation.times
        return tuple(dict.fromkeys(note.column for note in notes if note.kind in ("watermark", "lateness")))

    return spark_windows(select, columns, times)


def _expand(tree: exp.Expr, catalog: Catalog, read: dict[str, None], sources: bool, ctes: frozenset[str]) -> exp.Expr:
    """The query with relations under their temporary names, and plain views inlined. `read` collects the relations."""
    names = ctes | {cte.alias.casefold() for cte in tree.find_all(exp.CTE)}

    def replace(node: exp.Expr) -> exp.Expr:
        _drop_own_clauses(node)
        if not isinstance(node, exp.Table) or isinstance(node.this, exp.Func):
            return node
        name = relation_name(node)
        return node if name.casefold() in names else _table(node, name, catalog, read, sources)

    return tree.transform(replace)


def _drop_own_clauses(node: exp.Expr) -> None:
    """Drop EARLY_FIRE, which has no meaning in a batch, and reject WITHIN."""
    hint = node.args.get("hint")
    if isinstance(hint, exp.Hint):
        others = [each for each in hint.expressions if each.name.lower() != EARLY_FIRE]
        node.set("hint", exp.Hint(expressions=others) if others else None)
    if isinstance(node, exp.Join) and WITHIN in node.meta:
        hint_text = "write the bounds in ON: a.ts BETWEEN b.ts - INTERVAL '5' MINUTE AND b.ts + INTERVAL '5' MINUTE"
        raise make("NOT_SUPPORTED", what="WITHIN in an ad-hoc query", hint=hint_text, span=span_of(node))


def _table(node: exp.Table, name: str, catalog: Catalog, read: dict[str, None], sources: bool) -> exp.Expr:
    relation = catalog.readable(name, span_of(node))
    alias = _alias(node, relation)
    if relation.kind == "view" and not relation.materialized:
        return exp.Subquery(this=_view_query(relation, catalog, read, sources), alias=alias)
    if relation.kind == "source" and not sources:
        hint = f"keep its rows: CREATE MATERIALIZED VIEW ... AS SELECT * FROM {relation.name}"
        message = f"source {relation.name} does not keep its rows"
        raise make("NOT_SUPPORTED", message=message, hint=hint, span=span_of(node))
    read[relation.name] = None
    table = node.copy()
    table.set("version", None)
    table.set("this", exp.to_identifier(temp_name(relation.name), quoted=True))
    table.set("db", None)
    table.set("alias", alias)
    return table


def _view_query(relation: Relation, catalog: Catalog, read: dict[str, None], sources: bool) -> exp.Expr:
    statement = relation.statement
    assert isinstance(statement, CreateView)
    select = _one_answer(with_paths(statement.query.select).copy(), relation, catalog)
    inner = _expand(_expand_windows(select, catalog), catalog, read, sources, frozenset())
    columns = [exp.to_identifier(column.name, quoted=True) for column in relation.columns]
    alias = exp.TableAlias(this=exp.to_identifier("v", quoted=True), columns=columns)
    return exp.Select(expressions=[exp.Star()], from_=exp.From(this=exp.Subquery(this=inner, alias=alias)))


def _one_answer(select: exp.Query, relation: Relation, catalog: Catalog) -> exp.Query:
    """The SELECT of a plain view with the answer that it has when it is maintained."""

    def columns(name: str) -> tuple[str, ...] | None:
        read = catalog.find(name)
        return None if read is None else names(read.columns)

    ordering = [number for number, column in enumerate(relation.columns, 1) if not has_map(column.type)]
    types = [column.type for name in relation.dependencies for column in catalog.readable(name).columns]
    functions = [function.name for node in select.walk() if (function := call(node)) is not None]
    maps = any(has_map(type) for type in types) or any("map" in name for name in functions)
    return deterministic(select, columns, ordering, maps)


def _alias(node: exp.Table, relation: Relation) -> exp.TableAlias:
    """A relation keeps its own name inside of the query."""
    alias = node.args.get("alias")
    if isinstance(alias, exp.TableAlias) and alias.this is not None:
        return alias.copy()
    name = exp.to_identifier(node.name, quoted=True)
    columns = alias.args.get("columns") if isinstance(alias, exp.TableAlias) else None
    return exp.TableAlias(this=name, columns=columns)
