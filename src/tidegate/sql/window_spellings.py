"""Normalises the spellings of windows in a SELECT: its edges become the columns `window_start` and `window_end`.

`SELECT TUMBLE_START(ts, d), COUNT(*) FROM bids GROUP BY TUMBLE(ts, d)`, Spark's `window.start` ... `GROUP BY window(ts,
d)` and ksqlDB's `WINDOWSTART` ... `WINDOW TUMBLING (SIZE d)` all become `SELECT window_start, COUNT(*) FROM bids GROUP
BY window_start, window_end`, and the window is returned beside it. Windows that are functions in FROM stay there.
`window_spec` checks the sizes of such a window.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Never

from sqlglot import exp

from tidegate.core.durations import CalendarInterval
from tidegate.errors import Span, make
from tidegate.ir.windows import WINDOW_KINDS, WindowSpec
from tidegate.sql.clauses import clauses
from tidegate.sql.dialect import render
from tidegate.sql.durations import length
from tidegate.sql.groupings import several_groupings
from tidegate.sql.spans import span_of
from tidegate.sql.window_edges import END, START, Names, edge
from tidegate.sql.windows import WindowCall, clause_window, group_window, table_window, window_function

_CLAUSES = ("expressions", "where", "group", "having", "qualify", "order")


@dataclass(frozen=True)
class NormalisedSelect:
    """A SELECT with its window's edges as columns. `window` is over all of FROM; None if there is none, or FROM itself
    has windows."""

    select: exp.Select
    window: WindowCall | None


def normalise_windows(select: exp.Select) -> NormalisedSelect:
    """The SELECT in the normal spelling. A SELECT without windows is returned as it is."""
    tables = [table_window(table)[1] for table in window_tables(select)]
    window = _one([*tables, *_group_windows(select), *_clause_windows(select)])
    if window is None:
        return NormalisedSelect(select, None)
    group_by = select.args.get("group")
    if group_by is not None and (error := several_groupings(group_by, over_windows=True)) is not None:
        raise error
    own = None if tables else window
    result = select.copy()
    group = _group_by(result, window, in_from=bool(tables))
    names = Names(window, pseudo=_clause_windows(select) != [])
    for clause in _CLAUSES:
        _replace_clause(result, clause, names)
    if group is not None:
        result.set("group", exp.Group(expressions=_add_edges(group, window, names)))
    return NormalisedSelect(result, own)


def window_tables(select: exp.Select) -> Iterator[exp.Table]:
    """The windowing functions in FROM and its joins."""
    sources = [select.args.get("from_"), *(select.args.get("joins") or ())]
    for source in sources:
        if source is not None and isinstance(source.this, exp.Table) and window_function(source.this.this):
            yield source.this


def _one(windows: list[WindowCall]) -> WindowCall | None:
    """The window of a SELECT. Only relations of FROM may have several."""
    different = list(dict.fromkeys(windows))
    if len(different) > 1 and not all(each.in_from for each in different):
        message = f"a SELECT has one window, and this has {different[0].name} and {different[1].name}"
        hint = "put one of them into a subquery in FROM"
        raise make("INVALID_WINDOW", message=message, hint=hint, span=different[1].span)
    return different[0] if different else None


def _clause_windows(select: exp.Select) -> list[WindowCall]:
    window = clause_window(clauses(select))
    return [] if window is None else [window]


def _group_windows(select: exp.Select) -> list[WindowCall]:
    windows = [group_window(tree) for tree in _group_trees(select) or ()]
    return [window for window in windows if window is not None]


def _group_trees(select: exp.Select) -> list[exp.Expr] | None:
    """The keys of GROUP BY; positions and aliases of windows in the SELECT list are resolved. None without GROUP BY."""
    group = select.args.get("group")
    if group is None:
        return None
    items = [item for item in select.expressions if isinstance(item, exp.Expr)]
    if group.args.get("all"):
        return [item.unalias() for item in items if not item.find(exp.AggFunc)]
    return [_resolve_alias(node, items) for node in group.expressions]


def _resolve_alias(node: exp.Expr, items: list[exp.Expr]) -> exp.Expr:
    item: exp.Expr | None = None
    if isinstance(node, exp.Literal) and node.is_int and 0 < int(node.name) <= len(items):
        item = items[int(node.name) - 1].unalias()
    elif isinstance(node, exp.Column) and len(node.parts) == 1:
        named = (each for each in items if isinstance(each, exp.Alias))
        item = next((each.this for each in named if each.alias.casefold() == node.name.casefold()), None)
    return item if item is not None and _is_edge(item) else node


def _is_edge(tree: exp.Expr) -> bool:
    return group_window(tree) is not None if isinstance(tree, exp.Anonymous) else edge(tree) is not None


def _group_by(select: exp.Select, window: WindowCall, in_from: bool) -> list[exp.Expr] | None:
    """The keys of GROUP BY with the edges of the window; None if nothing is grouped."""
    trees = _group_trees(select)
    keys = [tree.copy() for tree in trees or ()]
    if in_from or _group_windows(select):
        return None if trees is None else keys
    aggregated = any(_aggregates(select, clause) for clause in ("expressions", "having"))
    if trees is None and not aggregated:
        return None
    return [*keys, _edge_column(START, window.span), _edge_column(END, window.span)]


def _aggregates(select: exp.Select, clause: str) -> bool:
    clause_trees = select.args.get(clause) or []
    parts = clause_trees if isinstance(clause_trees, list) else [clause_trees]
    return any(part.find(exp.AggFunc) is not None for part in parts)


def _add_edges(group: list[exp.Expr], window: WindowCall, names: Names) -> list[exp.Expr]:
    """The keys with both edges of the window if one of them identifies a window: of CUMULATE only the end does."""
    keys: list[exp.Expr] = []
    for tree in group:
        if group_window(tree) is not None:
            keys += [_edge_column(START, span_of(tree)), _edge_column(END, span_of(tree))]
        else:
            keys.append(names.replace_in(tree))
    edges = {edge(key): key for key in keys if isinstance(key, exp.Column) and edge(key) in (START, END)}
    if len(edges) == 1 and (END in edges or not WINDOW_KINDS[window.kind].shared_start):
        ((present, key),) = edges.items()
        other = _edge_column(END if present == START else START, span_of(key))
        other.set("table", key.args["table"].copy() if key.args.get("table") else None)
        keys.append(other)
    return keys


def _edge_column(name: str, span: Span | None) -> exp.Column:
    column = exp.column(name, quoted=True)
    if span is not None:
        column.meta.update(start=span.start, end=span.end - 1)
    return column


def _replace_clause(select: exp.Select, clause: str, names: Names) -> None:
    part = select.args.get(clause)
    if clause == "expressions":
        select.set(clause, [new for item in part or () for new in _item(item, names)])
    elif part is not None and clause != "group":
        part.replace(names.replace_in(part))


def _item(item: exp.Expr, names: Names) -> list[exp.Expr]:
    """An item of the SELECT list with its edges replaced, under the name that it had."""
    if isinstance(item, exp.Column) and isinstance(item.this, exp.Star) and item.table.casefold() == names.struct:
        return [
            exp.alias_(_edge_column(name, span_of(item)), alias) for name, alias in ((START, "start"), (END, "end"))
        ]
    new = names.replace_in(item)
    alias = names.alias(item)
    return [exp.alias_(new, alias, quoted=True) if alias is not None and not isinstance(new, exp.Alias) else new]


_WORDS = {"hop": ("slide", "size"), "cumulate": ("step", "size"), "tumble": ("", "size"), "session": ("", "gap")}


def window_spec(call: WindowCall, time: str) -> WindowSpec:
    """The window over a column. Rejects sizes that are not positive or do not fit together."""
    small, large = _WORDS[call.kind]
    size = _positive(call, call.size, large)
    slide = None if call.slide is None else _positive(call, call.slide, small)
    if call.kind == "session" and size.months:
        _fail(call, call.size, "a gap in months", "a gap needs a fixed length: write INTERVAL '30' DAY")
    if slide is not None:
        _check_fit(call, size, slide)
    if call.kind == "hop" and slide == size:
        return WindowSpec("tumble", time, size, offset=_offset(call, size))
    return WindowSpec(call.kind, time, size, slide, _offset(call, slide if call.kind == "hop" and slide else size))


def _positive(call: WindowCall, tree: exp.Expr, word: str) -> CalendarInterval:
    duration = length(tree)
    if duration is None:
        message = f"the {word} of {call.name} must be a duration, and {render(tree)} is none"
        hint = "write INTERVAL '10' SECOND"
        raise make("INVALID_WINDOW", message=message, hint=hint, span=span_of(tree) or call.span)
    if duration.months and duration.micros:
        _fail(call, tree, f"a {word} of months and days", "write either months, or a fixed length")
    if duration.months + duration.micros == 0:
        _fail(call, tree, f"a {word} of zero", "write a positive length, such as INTERVAL '10' SECOND")
    if duration.months < 0 or duration.micros < 0:
        _fail(call, tree, f"a negative {word}", "write a positive length, such as INTERVAL '10' SECOND")
    return duration


def _check_fit(call: WindowCall, size: CalendarInterval, slide: CalendarInterval) -> None:
    small, _ = _WORDS[call.kind]
    assert call.slide is not None
    sizes = f"{render(call.slide)} and {render(call.size)}"
    if bool(size.months) != bool(slide.months):
        problem = f"one length in months and one that is fixed: {sizes}"
        _fail(call, call.slide, problem, "write both in months, or both in days and hours")
    large_units, small_units = size.months or size.micros, slide.months or slide.micros
    if small_units > large_units:
        problem = f"a {small} that is longer than its size: {sizes}"
        _fail(call, call.slide, problem, f"the order is {call.usage}")
    if call.kind == "cumulate" and large_units % small_units:
        problem = f"a size that is not a multiple of its step: {sizes}"
        _fail(call, call.size, problem, "the last step must end with the window")


def _offset(call: WindowCall, grid: CalendarInterval) -> int:
    """The offset in microseconds, modulo the distance of windows."""
    if call.offset is None:
        return 0
    duration = length(call.offset)
    if duration is None or duration.months:
        what = "is in months" if duration is not None else "is no duration"
        message = f"the offset of {call.name} must be a fixed length, and {render(call.offset)} {what}"
        hint = "write INTERVAL '1' HOUR"
        raise make("INVALID_WINDOW", message=message, hint=hint, span=span_of(call.offset) or call.span)
    return duration.micros if grid.months else duration.micros % grid.micros


def _fail(call: WindowCall, tree: exp.Expr, problem: str, hint: str) -> Never:
    span = span_of(tree) or call.span
    raise make("INVALID_WINDOW", window=call.name, problem=problem, hint=hint, span=span)
