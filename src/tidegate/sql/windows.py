"""One tree for the ways to write a window over a relation.

`TABLE(TUMBLE(TABLE bids, DESCRIPTOR(ts), size))` (Flink) becomes `TUMBLE(bids, ts, size)`.
"""

from __future__ import annotations

from sqlglot import exp

from tidegate.sql.functions import call

PARTITION = "partition_by"
"""Where the columns that a relation is partitioned by stand, in the meta of the argument that names it."""

RELATION_WINDOWS = frozenset({"tumble", "hop", "slide", "cumulate", "session"})
GROUP_WINDOWS = RELATION_WINDOWS | {
    "window",
    "session_window",
    "window_time",
    *(f"{kind}_{edge}" for kind in RELATION_WINDOWS for edge in ("start", "end", "rowtime", "proctime")),
}


def normalised_table(table: exp.Expr) -> exp.Expr:
    """The table itself, or the windowed relation without Flink's wrappers."""
    wrapped = table.this
    if isinstance(table, exp.Table) and isinstance(wrapped, exp.Anonymous) and wrapped.name.upper() == "TABLE":
        inner = wrapped.expressions[0] if len(wrapped.expressions) == 1 else None
        if inner is not None and window_function(inner):
            table.set("this", inner)
    if isinstance(table, exp.Table) and window_function(table.this):
        for argument in list(table.this.expressions):
            _unwrap_descriptor(argument)
    return table


def window_function(node: object) -> str | None:
    """The name of the windowing function that a FROM item calls."""
    found = call(node) if isinstance(node, exp.Anonymous) else None
    return found.name if found and found.name in RELATION_WINDOWS else None


def _unwrap_descriptor(argument: exp.Expr) -> None:
    target = argument.expression if isinstance(argument, exp.Kwarg | exp.PropertyEQ) else argument
    found = call(target) if isinstance(target, exp.Anonymous) else None
    if found and found.name == "descriptor" and len(found.args) == 1:
        target.replace(found.args[0])
