"""Paths into the JSON of events: `payload.row.region` is a value, text beside text and a number beside numbers.

`SUM(payload.amount)` becomes the sum of `try_variant_get(try_parse_json(payload), '$.amount', 'string')` as a DOUBLE,
`payload.amount > 10` compares numbers, `payload.status = 'paid'` texts. Only SELECTs that read the event bus have
paths.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from sqlglot import exp

from tidegate.catalog.bus import is_bus
from tidegate.sql.clauses import META, clauses
from tidegate.sql.functions import call
from tidegate.sql.spans import mark, span_of
from tidegate.sql.windows import RELATION_WINDOWS

DOCUMENTS = ("payload", "transaction")
PATH = "event_path"
"""Meta of an expression that is a path: the path as it was written."""
PARSE = "try_parse_json"
COUNTED = "event_number"
"""Meta of the number that an aggregate makes of a path: what is none is to be told."""

_NUMERIC_AGGREGATES = (
    exp.Sum,
    exp.Avg,
    exp.Min,
    exp.Max,
    exp.Stddev,
    exp.StddevPop,
    exp.StddevSamp,
    exp.Variance,
    exp.VariancePop,
)
_ARITHMETIC = (exp.Add, exp.Sub, exp.Mul, exp.Div, exp.IntDiv, exp.Mod, exp.Neg)
_COMPARISONS = (exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.NullSafeEQ, exp.NullSafeNEQ)
_NUMERIC_FUNCTIONS = frozenset(
    {"abs", "ceil", "ceiling", "cbrt", "exp", "floor", "ln", "log", "log10", "log2", "mod", "pmod", "pow", "power"}
    | {"round", "bround", "sign", "sqrt"}
)
_NUMERIC_TYPES = ("TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL")


@dataclass(frozen=True)
class Reads:
    """How a SELECT reads the bus: the names that it has there."""

    names: frozenset[str]


def reads_bus(select: exp.Select) -> Reads | None:
    """How a SELECT reads the event bus; None if it does not."""
    found = frozenset(name for table in from_tables(select) if (name := _bus_name(table)) is not None)
    return Reads(found) if found else None


def from_tables(select: exp.Select) -> Iterator[exp.Table]:
    """The relations that stand in FROM and its joins."""
    for source in (select.args.get("from_"), *(select.args.get("joins") or ())):
        if source is not None and isinstance(source.this, exp.Table):
            yield source.this


def is_bus_table(table: exp.Table) -> bool:
    return isinstance(table.this, exp.Identifier) and not table.db and is_bus(table.name)


def windowed_bus(table: exp.Table) -> exp.Column | None:
    """The bus as the argument of a windowing function: `TUMBLE(pgcdc_events, created_at, ...)`."""
    found = call(table.this) if isinstance(table.this, exp.Anonymous) else None
    if found is None or found.name not in RELATION_WINDOWS:
        return None
    for arg in found.args:
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


def with_paths(query: exp.Expr) -> None:
    """Replaces the paths in every SELECT over the bus, where they stand."""
    for select in list(query.find_all(exp.Select)):
        reads = reads_bus(select)
        if reads is not None:
            _name_items(select, reads)
            for node in list(_own(select)):
                _replace_path(node, reads)
            said = clauses(select)
            if said.event_time is not None and (path := path_tree(said.event_time, reads)) is not None:
                select.meta[META] = replace(said, event_time=path)
            _as_numbers(select)
            _population(select)


def _own(select: exp.Select) -> Iterator[exp.Expr]:
    """The nodes of a SELECT from the outside in, but for those of queries inside of it that read for themselves."""
    for clause, part in select.args.items():
        if clause not in ("from_", "with_"):
            for each in part if isinstance(part, list) else [part]:
                if isinstance(each, exp.Expr):
                    yield from _walk(each)


def _walk(node: exp.Expr) -> Iterator[exp.Expr]:
    yield node
    for child in list(node.iter_expressions()):
        if not isinstance(child, exp.Query):
            yield from _walk(child)


def _name_items(select: exp.Select, reads: Reads) -> None:
    """What is selected keeps the name that it would have if the path were a column."""
    items = []
    for item in select.expressions:
        steps = path_steps(item, reads)
        if steps is not None and len(steps) > 1 and isinstance(steps[-1], str):
            item = _named(item, steps[-1])
        elif steps is None and not isinstance(item, exp.Alias | exp.Column | exp.Star) and _has_path(item, reads):
            item = _named(item, item.sql(dialect="spark").lower())
        items.append(item)
    select.set("expressions", items)


def _named(item: exp.Expr, name: str) -> exp.Expr:
    return exp.alias_(item, name, quoted=True)


def _has_path(tree: exp.Expr, reads: Reads) -> bool:
    return any((steps := path_steps(node, reads)) is not None and len(steps) > 1 for node in _walk(tree))


def path_steps(node: exp.Expr, reads: Reads) -> list[str | int] | None:
    """The document and the steps into it that a node says: `b.payload.items[0].sku` -> payload, items, 0, sku."""
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
    """The column that a path goes into, with its qualifier."""
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
    """What a path is: the text of a value in a document. None for what is no path."""
    steps = path_steps(node, reads)
    if steps is None or len(steps) < 2:
        return None
    where = exp.Literal.string("$" + "".join(map(_step, steps[1:])))
    parsed = exp.Anonymous(this=PARSE, expressions=[_document(node, reads)])
    tree = exp.Anonymous(this="try_variant_get", expressions=[parsed, where, exp.Literal.string("string")])
    tree.meta[PATH] = ".".join(map(str, steps))
    if (span := span_of(node)) is not None:
        mark(tree, span.start, span.end)
    return tree


def _step(step: str | int) -> str:
    if isinstance(step, int):
        return f"[{step}]"
    return f".{step}" if step.isidentifier() else f"['{step}']"


def is_path(node: exp.Expr) -> bool:
    return PATH in node.meta


def number(path: exp.Expr) -> exp.Expr:
    """A path as a DOUBLE: a JSON number, or a text that is one; NULL if it is neither. Spark also takes `1d`, `NaN` and
    `Infinity` for numbers: none of them ends like one."""
    trimmed = exp.Anonymous(this="rtrim", expressions=[path.copy()])
    last = exp.Anonymous(this="right", expressions=[trimmed, exp.Literal.number(1)])
    digits = exp.Between(this=last, low=exp.Literal.string("."), high=exp.Literal.string("9"))
    value = exp.Cast(this=path.copy(), to=exp.DataType.build("double"))
    return exp.Case(ifs=[exp.If(this=digits, true=value)])


def aggregated_paths(select: exp.Select) -> list[exp.Expr]:
    """The paths whose numbers a SELECT aggregates."""
    counted = [node for node in _own(select) if COUNTED in node.meta]
    return [path for node in counted if (path := next(filter(is_path, node.walk()), None)) is not None]


def _as_numbers(select: exp.Select) -> None:
    for node in [each for each in _own(select) if is_path(each)]:
        use = _use(node)
        if use == "text":
            continue
        if use == "pair":
            _compare(node)
        else:
            node.replace(_number_node(node, use == "aggregate"))


def _number_node(path: exp.Expr, counted: bool) -> exp.Paren:
    tree = exp.Paren(this=number(path))
    if counted:
        tree.meta[COUNTED] = True
    if (span := span_of(path)) is not None:
        mark(tree, span.start, span.end)
    return tree


def _use(node: exp.Expr) -> str:
    """What a path stands beside: text, number, aggregate, or pair (another path)."""
    child, parent = node, node.parent
    while parent is not None and (isinstance(parent, exp.Paren) or _passes(parent, child)):
        child, parent = parent, parent.parent
    match parent:
        case exp.Distinct() if isinstance(parent.parent, _NUMERIC_AGGREGATES):
            return "aggregate"
        case _ if isinstance(parent, _NUMERIC_AGGREGATES):
            return "aggregate"
        case exp.Binary() | exp.Unary() if isinstance(parent, _ARITHMETIC):
            return "text" if any(isinstance(each, exp.Interval) for each in parent.iter_expressions()) else "number"
        case exp.Between(this=this, args={"low": low, "high": high}):
            sides = [side for side in (this, low, high) if side is not child]
            return "number" if any(_numeric(side) for side in sides) else "text"
        case exp.In(this=this, expressions=values) if child is this:
            return "number" if values and all(_numeric(value) for value in values) else "text"
        case exp.Anonymous() if parent.name.casefold() in _NUMERIC_FUNCTIONS:
            return "number"
    if isinstance(parent, _COMPARISONS):
        other = parent.expression if child is parent.this else parent.this
        if isinstance(other, exp.Boolean) and child is node:
            other.replace(exp.Literal.string("true" if other.this else "false"))
            return "text"
        if is_path(other.unnest()) and child.unnest() is node:
            return "pair" if isinstance(parent, exp.GT | exp.GTE | exp.LT | exp.LTE) else "text"
        return "number" if _numeric(other) else "text"
    return "text"


def _passes(parent: exp.Expr, child: exp.Expr) -> bool:
    """Whether what a node is becomes what its parent is: the results of CASE and IF, COALESCE."""
    if isinstance(parent, exp.Case):
        return child is not parent.this
    if isinstance(parent, exp.If):
        return child is not parent.this
    return isinstance(parent, exp.Anonymous) and parent.name.casefold() in ("coalesce", "nvl", "ifnull", "nullif")


def _numeric(tree: exp.Expr) -> bool:
    """Whether an expression is a number by its looks."""
    tree = tree.unnest()
    match tree:
        case exp.Literal():
            return not tree.is_string
        case exp.Cast(to=to):
            return any(to.sql(dialect="spark").upper().startswith(kind) for kind in _NUMERIC_TYPES)
        case exp.Count() | exp.CountIf():
            return True
        case exp.Anonymous():
            return tree.name.casefold() in _NUMERIC_FUNCTIONS or tree.name.casefold() in ("length", "char_length")
    return isinstance(tree, (*_NUMERIC_AGGREGATES, *_ARITHMETIC)) and not tree.find(exp.Interval)


def _compare(node: exp.Expr) -> None:
    """Of two paths the larger is that of the two numbers if both are numbers, else that of the two texts."""
    parent = node.parent
    while isinstance(parent, exp.Paren):
        parent = parent.parent
    assert isinstance(parent, exp.Binary)
    left, right = parent.this.unnest(), parent.expression.unnest()
    if not (is_path(left) and is_path(right)):
        return
    numbers = type(parent)(this=number(left), expression=number(right))
    both = exp.and_(number(left).is_(exp.null()).not_(), number(right).is_(exp.null()).not_())
    texts = parent.copy()
    for each in texts.find_all(exp.Anonymous):
        each.meta.pop(PATH, None)
    parent.replace(exp.Paren(this=exp.Case(ifs=[exp.If(this=both, true=numbers)], default=texts)))


def _population(select: exp.Select) -> None:
    """STDDEV over events is that of the population."""
    for node in list(_own(select)):
        if isinstance(node, exp.Stddev):
            node.replace(exp.StddevPop(this=node.this))
