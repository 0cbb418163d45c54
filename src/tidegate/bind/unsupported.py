"""What is valid SQL but not maintained: refused where it is written, with what would do."""

from __future__ import annotations

from sqlglot import exp

from tidegate.errors import Error, Span, make
from tidegate.sql import call, clauses, span_of
from tidegate.sql.windows import GROUP_WINDOWS, window_function

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


def refused(what: str, span: Span | None, hint: str | None = None, detail: str | None = None) -> Error:
    return make("NOT_SUPPORTED", what=what, hint=hint, detail=detail, span=span)


def check_clauses(node: exp.Query) -> None:
    """Refuses windows written as clauses. EMIT and its like are in the `Query` around."""
    found = clauses(node)
    if found.window is not None:
        raise refused("a window clause", found.window.span, "GROUP BY a key, such as date_trunc('minute', ts)")
    if found.event_time is not None:
        raise refused("EVENT TIME BY", found.span("event_time"), "leave it out")


def check_select(select: exp.Select) -> None:
    """Refuses the parts of a SELECT that are not maintained."""
    for key, (words, hint) in _SELECT_PARTS.items():
        part = select.args.get(key)
        if part:
            node = part[0] if isinstance(part, list) else part
            raise refused(words, span_of(node) if isinstance(node, exp.Expr) else span_of(select), hint)
    joins = select.args.get("joins")
    if joins:
        raise refused("a join", span_of(joins[0]), "insert the joined rows, or write one view per relation")
    distinct = select.args.get("distinct")
    if distinct is not None and distinct.args.get("on"):
        raise refused("DISTINCT ON", span_of(distinct), "write ROW_NUMBER() OVER (PARTITION BY ... ORDER BY ...) = 1")


def check_table(table: exp.Table) -> None:
    """Refuses what can hang on a relation in FROM."""
    function = window_function(table.this)
    if function is not None:
        raise refused(f"{function.upper()}(...)", span_of(table), "GROUP BY a key, such as date_trunc('minute', ts)")
    if isinstance(table.this, exp.Func):
        raise refused("a table function", span_of(table), "read a source, table or view")
    for key, words in (("pivots", "PIVOT"), ("sample", "TABLESAMPLE"), ("version", "AS OF"), ("when", "AS OF")):
        if table.args.get(key):
            raise refused(words, span_of(table))
    if table.args.get("joins"):
        raise refused("a join", span_of(table.args["joins"][0]))


def check_expression(tree: exp.Expr) -> None:
    """Refuses subqueries, generators, windows over rows, and functions that do not repeat themselves."""
    for node in tree.walk():
        if isinstance(node, exp.Window):
            _check_window(node)
        elif isinstance(node, exp.Exists):
            raise refused("EXISTS (SELECT ...)", span_of(node), "compare columns of the relation in FROM")
        elif isinstance(node, exp.In) and node.args.get("query"):
            raise refused("IN (SELECT ...)", span_of(node), "list the values: IN (1, 2, 3)")
        elif isinstance(node, exp.Query):
            raise refused("a subquery in an expression", span_of(node), "put it into FROM")
        else:
            _check_call(node)


def _check_call(node: exp.Expr) -> None:
    found = call(node)
    if found is None:
        return
    name, span = found.name, span_of(node)
    if name in CHANGING and not (name == "unix_timestamp" and found.args):
        words = f"{name}() in a view"
        raise refused(words, span, "let a column carry the value", "a step that runs again must give the same rows")
    if name in FAILING:
        raise refused(f"{name}() in a view", span, "filter such rows with WHERE", "one row would end the pipeline")
    if name in GENERATORS:
        raise refused(f"{name}()", span, "insert one row per element")
    if name in GROUP_WINDOWS and name not in ("slide", "session"):
        raise refused(f"{name}()", span, "GROUP BY a key, such as date_trunc('minute', ts)")
    if name in ("grouping", "grouping_id"):
        raise refused(f"{name}()", span, "write one view per grouping")


def _check_window(window: exp.Window) -> None:
    found = call(window.this)
    name = found.name if found else "this function"
    if name not in RANKS:
        hint = "ROW_NUMBER, RANK and DENSE_RANK are, with a filter on their result"
        raise refused(f"{name}() OVER (...)", span_of(window), hint)
    if window.args.get("spec"):
        raise refused(f"a frame for {name}()", span_of(window), "leave out ROWS or RANGE")
    if window.args.get("alias"):
        raise refused("a named WINDOW", span_of(window), "write the window in OVER (...)")
