"""Several groupings in one GROUP BY: ROLLUP, CUBE, GROUPING SETS, in every spelling."""

from __future__ import annotations

from sqlglot import exp

from tidegate.errors import Error, make
from tidegate.sql.functions import call
from tidegate.sql.spans import span_of

_WORDS = {"rollup": "ROLLUP", "cube": "CUBE", "grouping_sets": "GROUPING SETS"}
_KINDS = {exp.Rollup: "ROLLUP", exp.Cube: "CUBE", exp.GroupingSets: "GROUPING SETS"}


def several_groupings(group: exp.Group, over_windows: bool = False) -> Error | None:
    """The error for a GROUP BY with more than one grouping; None if it has one."""
    for key, words in _WORDS.items():
        if group.args.get(key):
            return _error(words, group.args[key][0], group, over_windows)
    for node in group.expressions:
        function = call(node)
        found = _KINDS.get(type(node)) or (None if function is None else _WORDS.get(function.name))
        if found is not None:
            return _error(found, node, group, over_windows)
    if group.args.get("totals"):
        return _error("WITH TOTALS", group, group, over_windows)
    if group.args.get("all") and group.expressions:
        message = "GROUP BY ALL groups by every column without an aggregate, so it has no other keys"
        hint = "leave out ALL, or the keys after it"
        return make("SYNTAX_ERROR", message=message, hint=hint, span=span_of(group))
    return None


def _error(what: str, node: exp.Expr, group: exp.Group, over_windows: bool) -> Error:
    message = f"{what} with windows is not supported" if over_windows else f"{what} is not maintained"
    hint = "write one SELECT per grouping and UNION ALL them, with NULL for the keys that a grouping leaves out"
    return make("NOT_SUPPORTED", message=message, hint=hint, span=span_of(node) or span_of(group))
