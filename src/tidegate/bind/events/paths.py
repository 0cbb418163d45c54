"""Paths into the JSON of events: `payload.row.region` is text, or a number if it is compared with numbers.

`SUM(payload.amount)` becomes the sum of `try_variant_get(try_parse_json(payload), '$.amount', 'string')` as a DOUBLE,
`payload.amount > 10` compares numbers, `payload.status = 'paid'` texts. Only SELECTs that read the event bus have
paths.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

from sqlglot import exp

from tidegate.bind.events.values import COMPARISONS, PATH, convert_paths, is_path, number, own_nodes, walk_own
from tidegate.catalog.bus import is_bus
from tidegate.core.schema import Schema
from tidegate.errors import make
from tidegate.sql.clauses import META, clauses
from tidegate.sql.functions import call
from tidegate.sql.spans import mark, span_of
from tidegate.sql.windows import RELATION_WINDOWS

DOCUMENTS = ("payload", "transaction")
PARSE = "try_parse_json"
_NO_STAR = "name the values that the view shall have: SELECT payload.row.id, payload.row.total"


Columns = Callable[[str], Schema | None]
"""The columns of a relation; None if there is no relation of that name."""

_WHOLE = ("tinyint", "smallint", "int", "bigint")
_FRACTIONAL = ("float", "double", "decimal")


@dataclass(frozen=True)
class Reads:
    """The names of the bus in a SELECT."""

    names: frozenset[str]


def reads_bus(select: exp.Select) -> Reads | None:
    """The names of the event bus in a SELECT; None if it does not read the bus."""
    names = frozenset(name for table in from_tables(select) if (name := _bus_name(table)) is not None)
    return Reads(names) if names else None


def from_tables(select: exp.Select) -> Iterator[exp.Table]:
    """The relations in FROM and its joins."""
    for source in (select.args.get("from_"), *(select.args.get("joins") or ())):
        if source is not None and isinstance(source.this, exp.Table):
            yield source.this


def is_bus_table(table: exp.Table) -> bool:
    return isinstance(table.this, exp.Identifier) and not table.db and is_bus(table.name)


def windowed_bus(table: exp.Table) -> exp.Column | None:
    """The bus as the argument of a windowing function: `TUMBLE(pgcdc_events, created_at, ...)`."""
    function = call(table.this) if isinstance(table.this, exp.Anonymous) else None
    if function is None or function.name not in RELATION_WINDOWS:
        return None
    for arg in function.args:
        inner = call(arg) if isinstance(arg, exp.Anonymous) else None
        tree = inner.args[0] if inner is not None and inner.name == "table" and inner.args else arg
        if isinstance(tree, exp.Column) and len(tree.parts) == 1 and is_bus(tree.name):
            return tree
    return None


def _bus_name(table: exp.Table) -> str | None:
    if is_bus_table(table):
        return (table.alias or table.name).casefold()
    inside = windowed_bus(table)
    return None if inside is None else (table.alias or inside.name).casefold()


def with_paths(query: exp.Query) -> exp.Query:
    """Replace the paths in every SELECT over the bus. A query that does not read the bus is returned as it is."""
    if not any(reads_bus(select) for select in query.find_all(exp.Select)):
        return query
    result = query.copy()
    replace_paths(result)
    return result


def replace_paths(query: exp.Query) -> None:
    """Replace the paths in every SELECT over the bus, in place."""
    for select in list(query.find_all(exp.Select)):
        reads = reads_bus(select)
        if reads is not None:
            _name_items(select, reads)
            for node in list(own_nodes(select)):
                _replace_path(node, reads)
            own = clauses(select)
            if own.event_time is not None and (path := path_tree(own.event_time, reads)) is not None:
                select.meta[META] = replace(own, event_time=path)
            convert_paths(select)


def _name_items(select: exp.Select, reads: Reads) -> None:
    """Alias selected paths, so that they keep the names that they would have as columns."""
    items = []
    for item in select.expressions:
        steps = path_steps(item, reads)
        if steps is not None and len(steps) > 1 and isinstance(steps[-1], str):
            item = _alias(item, steps[-1])
        elif steps is None and not isinstance(item, exp.Alias | exp.Column | exp.Star) and _has_path(item, reads):
            item = _alias(item, item.sql(dialect="spark").lower())
        items.append(item)
    select.set("expressions", items)


def _alias(item: exp.Expr, name: str) -> exp.Expr:
    named = exp.alias_(item, name, quoted=True)
    if (span := span_of(item)) is not None:
        mark(named, span.start, span.end)
    return named


def _has_path(tree: exp.Expr, reads: Reads) -> bool:
    return any((steps := path_steps(node, reads)) is not None and len(steps) > 1 for node in walk_own(tree))


def path_steps(node: exp.Expr, reads: Reads) -> list[str | int] | None:
    """The document and the steps of a path: `b.payload.items[0].sku` -> payload, items, 0, sku. None for other
    nodes."""
    match node:
        case exp.Column():
            names: list[str | int] = [part.name for part in node.parts]
            if str(names[0]).casefold() in reads.names and len(names) > 1:
                names = names[1:]
            return names if str(names[0]).casefold() in DOCUMENTS else None
        case exp.Dot(this=inner, expression=exp.Identifier(this=name)):
            below = path_steps(inner, reads)
            return None if below is None else [*below, name]
        case exp.Bracket(this=inner, expressions=[exp.Literal() as key]):
            below = path_steps(inner, reads)
            return None if below is None else [*below, key.name if key.is_string else int(key.name)]
    return None


def _document(node: exp.Expr, reads: Reads) -> exp.Column:
    """The document column of a path, with its qualifier."""
    while not isinstance(node, exp.Column):
        node = node.this
    parts = node.parts
    qualified = len(parts) > 1 and parts[0].name.casefold() in reads.names
    column = exp.Column(this=parts[1 if qualified else 0].copy())
    if qualified:
        column.set("table", parts[0].copy())
    return column


def _replace_path(node: exp.Expr, reads: Reads) -> None:
    tree = path_tree(node, reads)
    if tree is not None and node.parent is not None:
        node.replace(tree)


def path_tree(node: exp.Expr, reads: Reads) -> exp.Expr | None:
    """The expression of a path: the text of a value in a document. None for other nodes."""
    steps = path_steps(node, reads)
    if steps is None or len(steps) < 2:
        return None
    if steps[-1] == "*":
        raise make("NOT_SUPPORTED", what=f"{'.'.join(map(str, steps))}", hint=_NO_STAR, span=span_of(node))
    json_path = exp.Literal.string("$" + "".join(map(_step, steps[1:])))
    parsed = exp.Anonymous(this=PARSE, expressions=[_document(node, reads)])
    tree = exp.Anonymous(this="try_variant_get", expressions=[parsed, json_path, exp.Literal.string("string")])
    tree.meta[PATH] = ".".join(map(str, steps))
    if (span := span_of(node)) is not None:
        mark(tree, span.start, span.end)
    return tree


def _step(step: str | int) -> str:
    if isinstance(step, int):
        return f"[{step}]"
    return f".{step}" if step.isidentifier() else f"['{step}']"


def convert_compared(select: exp.Select, columns: Columns) -> None:
    """Convert paths that are compared with numeric columns to numbers, in place."""
    types = dict(_types(select, columns))
    if not types:
        return
    for node in [each for each in own_nodes(select) if isinstance(each, COMPARISONS)]:
        for path, other in ((node.this, node.expression), (node.expression, node.this)):
            kind = _kind(other.unnest(), types)
            if is_path(path.unnest()) and kind is not None:
                path.replace(_as_type(path.unnest(), kind, exact=isinstance(node, exp.EQ)))


def _types(select: exp.Select, columns: Columns) -> Iterator[tuple[tuple[str, str], str]]:
    """The types of the columns in FROM, by relation and name, and by name alone (under no relation)."""
    for source in (select.args.get("from_"), *(select.args.get("joins") or ())):
        table = source.this if source is not None else None
        if isinstance(table, exp.Table) and isinstance(table.this, exp.Identifier):
            for column in columns(table.name) or ():
                for qualifier in (table.alias_or_name.casefold(), ""):
                    yield (qualifier, column.name.casefold()), column.type


def _kind(tree: exp.Expr, types: Mapping[tuple[str, str], str]) -> str | None:
    """The type of a numeric column; None for anything else."""
    if not isinstance(tree, exp.Column) or is_path(tree):
        return None
    type = types.get((tree.table.casefold(), tree.name.casefold()), "")
    return type if type.startswith((*_WHOLE, *_FRACTIONAL)) else None


def _as_type(path: exp.Expr, kind: str, exact: bool) -> exp.Expr:
    """A path as a number. With `exact` and an integer type it is a value of that type, NULL unless it is integral."""
    if not exact or not kind.startswith(_WHOLE):
        return exp.Paren(this=number(path))
    whole = exp.EQ(this=exp.Mod(this=number(path), expression=exp.Literal.number(1)), expression=exp.Literal.number(0))
    value = exp.Cast(this=path.copy(), to=exp.DataType.build(kind))
    return exp.Paren(this=exp.Case(ifs=[exp.If(this=whole, true=value)]))
