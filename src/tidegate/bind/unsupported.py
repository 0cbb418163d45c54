"""Rejects what cannot be maintained, and types that operators cannot store, compare or hash."""

from __future__ import annotations

from collections.abc import Iterable

from sqlglot import exp

from tidegate.core.schema import Column
from tidegate.core.types import Type, has_map, not_stored, parse_type, parts, without_void
from tidegate.errors import Error, Span, make
from tidegate.plan import Item, Node, Project, Scalar, keep
from tidegate.plan.scalar import column_tree
from tidegate.sql import call, clauses, span_of
from tidegate.sql.windows import GROUP_WINDOWS

CHANGING = frozenset(
    {
        "now",
        "current_timestamp",
        "current_date",
        "curdate",
        "current_time",
        "localtimestamp",
        "current_timezone",
        "unix_timestamp",
        "rand",
        "random",
        "randn",
        "uuid",
        "shuffle",
        "randstr",
        "uniform",
        "monotonically_increasing_id",
        "spark_partition_id",
        "input_file_name",
        "input_file_block_start",
        "input_file_block_length",
        "current_user",
        "session_user",
        "user",
        "current_catalog",
        "current_database",
        "current_schema",
        "version",
        "reflect",
        "try_reflect",
        "java_method",
    }
)
FAILING = frozenset({"raise_error", "assert_true"})
GENERATORS = frozenset(
    {
        "explode",
        "explode_outer",
        "posexplode",
        "posexplode_outer",
        "inline",
        "inline_outer",
        "stack",
        "json_tuple",
        "variant_explode",
    }
)
RANKS = frozenset({"row_number", "rank", "dense_rank"})

_SELECT_PARTS: dict[str, tuple[str, str | None]] = {
    "laterals": ("LATERAL VIEW", "insert one row per element"),
    "windows": ("a named WINDOW", "write the window in OVER (...)"),
    "sort": ("SORT BY", "leave it out: a view has no order"),
    "cluster": ("CLUSTER BY", "leave it out: a view has no order"),
    "distribute": ("DISTRIBUTE BY", "leave it out: a view has no order"),
    "connect": ("CONNECT BY", None),
    "match": ("MATCH_RECOGNIZE", None),
    "into": ("SELECT INTO", "write CREATE VIEW ... AS SELECT"),
    "kind": ("SELECT AS", None),
}


def unsupported(what: str, span: Span | None, hint: str | None = None, detail: str | None = None) -> Error:
    return make("NOT_SUPPORTED", what=what, hint=hint, detail=detail, span=span)


def check_clauses(node: exp.Query) -> None:
    """Reject EVENT TIME BY without a window, and a window clause outside of a SELECT."""
    own = clauses(node)
    if own.window is not None and not isinstance(node, exp.Select):
        raise unsupported("a window clause here", own.window.span, "write it inside of the SELECT that it is for")
    if own.event_time is not None and own.window is None:
        hint = "add TUMBLING WINDOW 5m, or leave it out"
        raise unsupported("EVENT TIME BY without a window", own.span("event_time"), hint)


def check_select(select: exp.Select) -> None:
    """Reject clauses of a SELECT that are not maintained."""
    for key, (words, hint) in _SELECT_PARTS.items():
        part = select.args.get(key)
        if part:
            node = part[0] if isinstance(part, list) else part
            raise unsupported(words, span_of(node) if isinstance(node, exp.Expr) else span_of(select), hint)
    distinct = select.args.get("distinct")
    if distinct is not None and distinct.args.get("on"):
        raise unsupported(
            "DISTINCT ON", span_of(distinct), "write ROW_NUMBER() OVER (PARTITION BY ... ORDER BY ...) = 1"
        )


def check_table(table: exp.Table) -> None:
    """Reject table functions, and PIVOT, TABLESAMPLE and AS OF on a relation in FROM."""
    if isinstance(table.this, exp.Func):
        raise unsupported("a table function", span_of(table), "read a source, table or view")
    for key, words in (("pivots", "PIVOT"), ("sample", "TABLESAMPLE"), ("version", "AS OF"), ("when", "AS OF")):
        if table.args.get(key):
            raise unsupported(words, span_of(table))
    if table.args.get("joins"):
        raise unsupported("a join", span_of(table.args["joins"][0]))


_ORDERED = {
    "first_value": "MIN_BY(value, key) is the value of the row whose key is smallest, MAX_BY that of the largest",
    "last_value": "MAX_BY(value, key) is the value of the row whose key is largest, MIN_BY that of the smallest",
}
_ORDERED |= {"first": _ORDERED["first_value"], "last": _ORDERED["last_value"]}

_ALONE = "write it in WHERE, connected to the rest by AND; for OR, write two views and a UNION"


def check_expression(tree: exp.Expr) -> None:
    """Reject subqueries, generators, OVER but for ranks, and functions that are not deterministic."""
    for node in tree.walk():
        if isinstance(node, exp.Window):
            _check_window(node)
        elif isinstance(node, exp.Exists):
            raise unsupported("EXISTS (SELECT ...) here", span_of(node), _ALONE)
        elif isinstance(node, exp.In) and node.args.get("query"):
            raise unsupported("IN (SELECT ...) here", span_of(node), _ALONE)
        elif isinstance(node, exp.Query):
            raise unsupported("a subquery here", span_of(node), "put it into FROM")
        elif _collates(node):
            hint = "compare LOWER(...) of both sides, or group by it"
            raise unsupported("a collation", span_of(node) or span_of(tree), hint, "rows are compared byte by byte")
        else:
            _check_call(node)


def _collates(node: exp.Expr) -> bool:
    function = call(node)
    named = function is not None and function.name == "collate"
    return named or isinstance(node, exp.Collate) or (isinstance(node, exp.DataType) and bool(node.args.get("collate")))


def is_now(node: exp.Expr) -> bool:
    """True for NOW() and CURRENT_TIMESTAMP."""
    function = call(node)
    return function is not None and function.name in ("now", "current_timestamp") and not function.args


def _check_call(node: exp.Expr) -> None:
    function = call(node)
    if function is None:
        return
    name, span = function.name, span_of(node)
    if isinstance(node, exp.AggFunc) and any(isinstance(arg, exp.Order | exp.Limit) for arg in function.args):
        raise unsupported("ORDER BY inside of an aggregate", span, _ORDERED.get(name, "ARRAY_AGG is ordered by value"))
    if is_now(node):
        hint = "in WHERE, compare it with the row: ts > NOW() - INTERVAL '1' HOUR, and use AND for other conditions"
        detail = "NOW() decides when a row enters and leaves the view, so it cannot be a value, or part of OR"
        raise unsupported(f"{name}() here", span, hint, detail)
    if name in CHANGING and not (name == "unix_timestamp" and function.args):
        words = f"{name}() in a view"
        raise unsupported(
            words, span, "pass the value in as a column", "a step that is replayed must give the same rows"
        )
    if name in FAILING:
        raise unsupported(f"{name}() in a view", span, "filter such rows with WHERE", "one row could stop the pipeline")
    if name in GENERATORS:
        raise unsupported(f"{name}()", span, "insert one row per element")
    if name in GROUP_WINDOWS and function.args:
        raise _stray_window(name, span)
    if name in ("grouping", "grouping_id"):
        raise unsupported(f"{name}()", span, "write one SELECT per grouping, each with a constant, and UNION ALL them")


def _stray_window(name: str, span: Span | None) -> Error:
    """The error for a window function outside of GROUP BY and FROM."""
    kind, _, edge = name.rpartition("_")
    if edge == "proctime":
        hint = "pass the time in as a column, and GROUP BY a window over it"
        return unsupported(f"{name.upper()}(...)", span, hint)
    if edge in ("start", "end", "rowtime"):
        message = f"{name.upper()}(...) has no matching {kind.upper()}(...) in GROUP BY"
        return make("INVALID_WINDOW", message=message, hint=f"add {kind.upper()}(...) to GROUP BY", span=span)
    text = name if name in ("window", "session_window") else name.upper()
    message = f"{text}(...) makes groups, so it stands in GROUP BY"
    hint = (
        "write GROUP BY " + text + "(...) and select window_start and window_end, or FROM TUMBLE(relation, time, size)"
    )
    return make("INVALID_WINDOW", message=message, hint=hint, span=span)


def _check_window(window: exp.Window) -> None:
    function = call(window.this)
    name = function.name if function else "this function"
    if name not in RANKS:
        hint = "ROW_NUMBER, RANK and DENSE_RANK are, with a filter on their result"
        raise unsupported(f"{name}() OVER (...)", span_of(window), hint)
    if window.args.get("spec"):
        raise unsupported(f"a frame for {name}()", span_of(window), "leave out ROWS or RANGE")
    if window.args.get("alias"):
        raise unsupported("a named WINDOW", span_of(window), "write the window in OVER (...)")


def make_storable(plan: Node, span: Span | None) -> Node:
    """The plan with types that can be stored: Spark's void, the type of NULL, becomes a string. `span` is what the plan
    was written as."""
    for column in plan.schema:
        check_type(column, span)
    if all(without_void(column.type) == column.type for column in plan.schema):
        return plan
    return Project(plan, tuple(_item(plan, column) for column in plan.schema))


def check_type(column: Column, span: Span | None) -> None:
    """Reject types that rows cannot store."""
    if not_stored(column.type) is not None:
        computed = column.name.startswith("__")
        what = "a value" if computed else f"column {column.name}"
        hint = f"write CAST({'...' if computed else column.name} AS STRING), or leave it out"
        raise unsupported(f"{what} of type {column.type.upper()}", span, hint)
    if "struct<" in column.type and (field := _repeated_field(parse_type(column.type))) is not None:
        what = "a value is" if column.name.startswith("__") else f"column {column.name} has"
        message = f"{what} a STRUCT with two fields {field}"
        raise make("NOT_SUPPORTED", message=message, hint="name the fields: NAMED_STRUCT('a', x, 'b', y)", span=span)


def _repeated_field(type: Type) -> str | None:
    """A field name that a struct in a type has twice."""
    for name in type.fields if type.name == "struct" else ():
        if sum(name.casefold() == other.casefold() for other in type.fields) > 1:
            return name
    return next((field for inner in type.inner if (field := _repeated_field(inner)) is not None), None)


def check_comparable(columns: Iterable[Column], what: str, span: Span | None, verb: str = "compare") -> None:
    """Reject maps where rows are compared, in nested values too: they have no order and no hash."""
    for column in columns:
        if not has_map(column.type):
            continue
        name = "..." if column.name.startswith("__") else column.name
        outermost, *inner = parts(parse_type(column.type))
        whole = outermost.name == "map" and all(each.name != "map" for each in inner)
        instead = f"array_sort(map_entries({name}))" if whole else f"to_json({name})"
        outer = outermost.name.upper()
        inside = "" if outer == "MAP" else f" inside of {'an' if outer == 'ARRAY' else 'a'} {outer}"
        raise unsupported(f"{what} a MAP{inside}", span, f"{verb} {instead} instead")


def _item(plan: Node, column: Column) -> Item:
    kind = without_void(column.type)
    if kind == column.type:
        return keep(plan, column.name)
    return Item(column.name, Scalar(cast(column_tree(column.name), kind)), kind)


def cast(tree: exp.Expr, kind: str) -> exp.Expr:
    """CAST(tree AS kind)."""
    return exp.Cast(this=tree, to=exp.DataType.build(kind, dialect="spark"))
