"""Converts paths into events to the type that their context needs: text, number or BOOLEAN.

`payload.amount > 10` compares numbers, `payload.status = 'paid'` texts, `COALESCE(payload.amount, 0)` is a number and
`WHERE payload.active` a BOOLEAN. `SUM(payload.amount)` adds up those that are numbers, as a DOUBLE.
"""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp

from tidegate.sql.spans import mark, span_of

PATH = "event_path"
"""Meta of an expression that is a path: the path as it was written."""
COUNTED = "event_number"
"""Meta of a path that is an argument of an aggregate: events in which it is not a number are reported."""

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
COMPARISONS = (exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.NullSafeEQ, exp.NullSafeNEQ)
_CONDITIONS = (exp.Where, exp.Having, exp.And, exp.Or, exp.Not)
_NUMERIC_FUNCTIONS = frozenset(
    {"abs", "ceil", "ceiling", "cbrt", "exp", "floor", "ln", "log", "log10", "log2", "mod", "pmod", "pow", "power"}
    | {"round", "bround", "sign", "sqrt"}
)
_ONE_OF = frozenset({"coalesce", "nvl", "ifnull", "nullif", "greatest", "least"})
"""Functions whose result is one of their arguments."""
_LENGTHS = frozenset({"length", "char_length"})
_NUMERIC_TYPES = ("TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL")


def own_nodes(select: exp.Select) -> Iterator[exp.Expr]:
    """The nodes of a SELECT from the outside in, without those of its subqueries."""
    for clause, part in select.args.items():
        if clause not in ("from_", "with_"):
            for each in part if isinstance(part, list) else [part]:
                if isinstance(each, exp.Expr):
                    yield from walk_own(each)


def walk_own(node: exp.Expr) -> Iterator[exp.Expr]:
    yield node
    for child in list(node.iter_expressions()):
        if not isinstance(child, exp.Query):
            yield from walk_own(child)


def is_path(node: exp.Expr) -> bool:
    return PATH in node.meta


def number(path: exp.Expr) -> exp.Expr:
    """A path as a DOUBLE: a JSON number, or a text that is one; NULL if it is neither. Spark also takes `1d`, `NaN` and
    `Infinity` for numbers: none of them ends with a digit or a dot."""
    trimmed = exp.Anonymous(this="rtrim", expressions=[path.copy()])
    last = exp.Anonymous(this="right", expressions=[trimmed, exp.Literal.number(1)])
    digits = exp.Between(this=last, low=exp.Literal.string("."), high=exp.Literal.string("9"))
    value = exp.Cast(this=path.copy(), to=exp.DataType.build("double"))
    return exp.Case(ifs=[exp.If(this=digits, true=value)])


def aggregated_paths(select: exp.Select) -> list[exp.Expr]:
    """The paths whose numbers a SELECT aggregates."""
    counted = [node for node in own_nodes(select) if COUNTED in node.meta]
    return [path for node in counted if (path := next(filter(is_path, node.walk()), None)) is not None]


def convert_paths(select: exp.Select) -> None:
    """Convert every path of a SELECT to the type that its context needs, in place. STDDEV becomes STDDEV_POP."""
    for node in [each for each in own_nodes(select) if is_path(each)]:
        match _context(node):
            case "pair":
                _compare(node)
            case "order":
                _order(node)
            case "boolean":
                node.replace(_with_span(exp.Cast(this=node.copy(), to=exp.DataType.build("boolean")), node))
            case "number":
                node.replace(_with_span(exp.Paren(this=number(node)), node))
            case "aggregate":
                counted = _with_span(exp.Paren(this=number(node)), node)
                counted.meta[COUNTED] = True
                node.replace(counted)
    for node in list(own_nodes(select)):
        if isinstance(node, exp.Stddev):
            node.replace(exp.StddevPop(this=node.this))


def _with_span(tree: exp.Expr, path: exp.Expr) -> exp.Expr:
    if (span := span_of(path)) is not None:
        mark(tree, span.start, span.end)
    return tree


def _context(node: exp.Expr) -> str:
    """How a path is used: text, boolean, number, aggregate (of numbers), pair (compared with another path), or
    order."""
    child, numeric = node, False
    while (parent := child.parent) is not None:
        if not (isinstance(parent, exp.Paren) or _is_result(parent, child)):
            if not _needs_number(parent, child):
                break
            numeric = True
        numeric = numeric or _beside_numbers(parent, child)
        child = parent
    if isinstance(parent, exp.Distinct):
        parent = parent.parent
    if isinstance(parent, _NUMERIC_AGGREGATES):
        return "aggregate"
    if numeric:
        return "number"
    if child.unnest() is node and _is_condition(parent, child):
        return "boolean"
    if isinstance(parent, exp.Ordered) and child is node:
        return "order"
    return _context_in_comparison(node, parent, child)


def _context_in_comparison(node: exp.Expr, parent: exp.Expr | None, child: exp.Expr) -> str:
    """How a path is used in a comparison."""
    match parent:
        case exp.Between(this=this, args={"low": low, "high": high}):
            sides = [side for side in (this, low, high) if side is not child]
            return "number" if any(is_number(side) for side in sides) else "text"
        case exp.In(this=this, expressions=values) if child is this:
            return "number" if values and all(is_number(value) for value in values) else "text"
        case exp.Case(this=this, args={"ifs": ifs}) if child is this:
            return "number" if all(is_number(each.this) for each in ifs) else "text"
    if not isinstance(parent, COMPARISONS):
        return "text"
    other = parent.expression if child is parent.this else parent.this
    if isinstance(other, exp.Boolean) and child is node:
        other.replace(exp.Literal.string("true" if other.this else "false"))
        return "text"
    if is_path(other.unnest()) and child.unnest() is node:
        return "pair" if isinstance(parent, exp.GT | exp.GTE | exp.LT | exp.LTE) else "text"
    return "number" if is_number(other) else "text"


def _is_result(parent: exp.Expr, child: exp.Expr) -> bool:
    """True if a node is a possible result of its parent: of CASE, IF or COALESCE."""
    if isinstance(parent, exp.Case | exp.If):
        return child is not parent.this
    return isinstance(parent, exp.Anonymous) and parent.name.casefold() in _ONE_OF


def _needs_number(parent: exp.Expr, child: exp.Expr) -> bool:
    """True if a node must be a number for its parent."""
    if isinstance(parent, _ARITHMETIC):
        return not any(isinstance(each, exp.Interval) for each in parent.iter_expressions())
    return isinstance(parent, exp.Anonymous) and parent.name.casefold() in _NUMERIC_FUNCTIONS


def _beside_numbers(parent: exp.Expr, child: exp.Expr) -> bool:
    """True if other possible results of its parent are numbers, and none is text."""
    others = [_value(each, parent).unnest() for each in _results(parent) if each is not child]
    texts = any(isinstance(each, exp.Literal) and each.is_string for each in others)
    return not texts and any(is_number(each) for each in others)


def _results(tree: exp.Expr) -> list[exp.Expr]:
    """The possible results of CASE, IF and functions such as COALESCE. For CASE, the nodes that hold the results."""
    match tree:
        case exp.Case(args={"ifs": ifs}):
            results = [*ifs, tree.args.get("default")]
        case exp.If():
            results = [tree.args.get("true"), tree.args.get("false")]
        case exp.Anonymous() if tree.name.casefold() in _ONE_OF:
            results = tree.expressions
        case _:
            results = []
    return [each for each in results if each is not None]


def _value(result: exp.Expr, holder: exp.Expr) -> exp.Expr:
    return result.args["true"] if isinstance(result, exp.If) and isinstance(holder, exp.Case) else result


def _is_condition(parent: exp.Expr | None, child: exp.Expr) -> bool:
    """True if the parent needs a BOOLEAN."""
    if isinstance(parent, exp.Is):
        return isinstance(parent.expression, exp.Boolean)
    if isinstance(parent, exp.If):
        return child is parent.this and not (isinstance(parent.parent, exp.Case) and parent.parent.this is not None)
    return isinstance(parent, _CONDITIONS)


def is_number(tree: exp.Expr) -> bool:
    """True if an expression is a number judging by its syntax."""
    tree = tree.unnest()
    match tree:
        case exp.Literal():
            return not tree.is_string
        case exp.Cast(to=to):
            return any(to.sql(dialect="spark").upper().startswith(kind) for kind in _NUMERIC_TYPES)
        case exp.Count() | exp.CountIf():
            return True
        case exp.Anonymous() if tree.name.casefold() not in _ONE_OF:
            return tree.name.casefold() in _NUMERIC_FUNCTIONS | _LENGTHS
        case exp.Case() | exp.If() | exp.Anonymous():
            return any(is_number(each) for each in _results(tree))
    return isinstance(tree, (*_NUMERIC_AGGREGATES, *_ARITHMETIC)) and not tree.find(exp.Interval)


def _compare(node: exp.Expr) -> None:
    """Compare two paths as numbers if both are numbers, else as texts."""
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


def _order(node: exp.Expr) -> None:
    """Order by the number of a path, then by its text."""
    by_text = node.parent
    assert isinstance(by_text, exp.Ordered)
    by_number = by_text.copy()
    by_number.set("this", _with_span(exp.Paren(this=number(node)), node))
    holder = by_text.parent
    assert holder is not None
    index = next(n for n, each in enumerate(holder.expressions) if each is by_text)
    holder.set("expressions", [*holder.expressions[:index], by_number, *holder.expressions[index:]])
