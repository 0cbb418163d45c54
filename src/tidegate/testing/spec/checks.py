"""The checks of a spec file: one function per kind."""

from __future__ import annotations

from functools import singledispatch
from typing import Any

from tidegate.core.types import Type
from tidegate.errors import Error, render
from tidegate.testing.spec import model, values
from tidegate.testing.spec.compare import Comparable, comparable, diff
from tidegate.testing.spec.report import Outcome, Stop, side_by_side


@singledispatch
def check(item: model.Item, outcome: Outcome) -> None:
    """Record a failure if the item does not hold."""
    raise TypeError(f"no check for {type(item).__name__}")


@check.register
def _(item: model.Kind, outcome: Outcome) -> None:
    kind = outcome.engine.db.kind(item.view)
    if kind != item.kind:
        outcome.fail(item.line, f"{item.view} is of kind {kind}, expected {item.kind}", view=item.view)


@check.register
def _(item: model.Emits, outcome: Outcome) -> None:
    if item.view.lower() not in outcome.emitted:
        raise Error("UNKNOWN_RELATION", f"{item.view} is no view that was maintained in this step")
    kinds = tuple(kind for _, kind in outcome.engine.columns(item.view))
    actual = [(change.op, change.values) for change in outcome.emitted[item.view.lower()]]
    _compare(item, outcome, f"< {item.view}", item.rows, kinds, actual, item.view)


@check.register
def _(item: model.Content, outcome: Outcome) -> None:
    kinds, rows = outcome.engine.ask(f"SELECT * FROM {item.relation}")
    _compare(item, outcome, f"= {item.relation}", item.rows, kinds, [("", row) for row in rows], item.relation)


@check.register
def _(item: model.Ask, outcome: Outcome) -> None:
    kinds, rows = outcome.engine.ask(item.query)
    _compare(item, outcome, f"? {item.query}", item.rows, kinds, [("", row) for row in rows])


@check.register
def _(item: model.Late, outcome: Outcome) -> None:
    _, rows = outcome.engine.ask("SELECT relation FROM system.late_rows")
    count = sum(relation.lower() == item.relation.lower() for (relation,) in rows)
    if count != item.count:
        outcome.fail(item.line, f"{count} rows of {item.relation} were late, expected {item.count}")


@check.register
def _(item: model.Watermark, outcome: Outcome) -> None:
    _, rows = outcome.engine.ask("SELECT relation, `column`, value FROM system.watermarks")
    values_now = {(relation.lower(), column.lower()): value for relation, column, value in rows}
    kinds = {name.lower(): kind for name, kind in outcome.engine.columns(item.relation)}
    if item.column.lower() not in kinds:
        raise Error("UNKNOWN_COLUMN", f"{item.relation} has no column {item.column}")
    value = values_now.get((item.relation.lower(), item.column.lower())) or "none"
    actual, expected = (_watermark(text, kinds[item.column.lower()]) for text in (value, item.value))
    if actual != expected:
        outcome.fail(item.line, f"the watermark of {item.relation}.{item.column} is {actual}, expected {expected}")


def _watermark(text: str, kind: Type) -> str:
    """A watermark in the format of its column; `none` and `infinity` stay."""
    return text if text in ("none", "infinity") else values.show(values.parse(text, kind), kind)


@check.register
def _(item: model.Rejected, outcome: Outcome) -> None:
    try:
        outcome.engine.db.sql(item.statement)
    except Error as problem:
        check_text(item, outcome, problem.code, render(problem))
        return
    outcome.fail(item.line, f"accepted, expected error {item.code}", item.statement.splitlines())
    raise Stop


def check_warnings(item: model.Warned, outcome: Outcome, warnings: list[Any]) -> None:
    """Check that an accepted statement had the expected warning."""
    warning = next((each for each in warnings if item.code in ("*", each.code)), None)
    if warning is None:
        outcome.fail(item.line, f"no warning {item.code}", [render(each) for each in warnings])
    else:
        check_text(item, outcome, warning.code, render(warning))


def check_text(item: model.Rejected | model.Warned, outcome: Outcome, code: str, text: str) -> None:
    text = text.replace(outcome.spec.prefix, "") if outcome.spec.prefix else text
    absent = [expected for expected in item.texts if expected.lower() not in text.lower()]
    if item.code not in ("*", code):
        outcome.fail(item.line, f"code {code}, expected {item.code}", text.splitlines())
    elif absent:
        outcome.fail(item.line, f"the text does not say: {'; '.join(absent)}", text.splitlines())


def _compare(
    item: model.Item,
    outcome: Outcome,
    what: str,
    rows: tuple[model.Row, ...],
    kinds: tuple[Type, ...],
    actual: list[tuple[str, tuple[Any, ...]]],
    view: str | None = None,
) -> None:
    expected = [_expected(what, row, kinds) for row in rows]
    rows_now = [comparable(row, kinds, op) for op, row in actual]
    problem = diff(expected, rows_now)
    if problem:
        lines = side_by_side(problem, [_line(row, kinds) for row in expected], [_line(row, kinds) for row in rows_now])
        outcome.fail(item.line, what, lines, view)


def _expected(what: str, row: model.Row, kinds: tuple[Type, ...]) -> Comparable:
    if len(row.cells) != len(kinds):
        raise Error("SPEC_ROW", f"line {row.line}: {len(row.cells)} values, {what} has {len(kinds)} columns")
    parsed = [values.parse(cell, kind) for cell, kind in zip(row.cells, kinds, strict=True)]
    return comparable(parsed, kinds, row.sign)


def _line(row: Comparable, kinds: tuple[Type, ...]) -> str:
    cells = " | ".join(values.show(value, kind) for value, kind in zip(row.values, kinds, strict=True))
    return f"{row.op} {cells}".strip()
