"""The rows of a relation with their windows, as Spark SQL."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from tidegate.core.durations import CalendarInterval
from tidegate.ir.windows import WindowSpec
from tidegate.sql.dialect import render
from tidegate.sql.parsing import parse
from tidegate.sql.statements import Select

ROWS = "`__rows`"
RELATION = "__relation"


def rows_with_windows(relation: exp.Expr, spec: WindowSpec, time: exp.Expr, own: Sequence[str]) -> exp.Select:
    """Each row once for each of its windows. `own` are columns that are named like a window's edges, and are left out.

    `__position` is the time of the row in the unit of the windows, microseconds or months since 1970, less the offset.
    `__n` numbers its windows.
    """
    micros = f"(UNIX_MICROS(CAST(({render(time)}) AS TIMESTAMP)) - {spec.offset})"
    position = _month(micros) if spec.size.months else micros
    rows = _rows(time, own, f", {position} AS `__position`", "")
    numbers, *edges = _windows(spec)
    start, end = (f"`__at` + ({_moment(edge, spec)} - CAST(`__at` AS TIMESTAMP))" for edge in edges)
    return _parse_over(
        f"SELECT * EXCEPT (`__at`, `__position`, `__n`), {start} AS `window_start`, {end} AS `window_end` "
        f"FROM (SELECT *, EXPLODE({numbers}) AS `__n` FROM ({rows}))",
        relation,
    )


def rows_with_sessions(
    relation: exp.Expr,
    spec: WindowSpec,
    time: exp.Expr,
    own: Sequence[str],
    per: Sequence[exp.Expr],
    conditions: Sequence[exp.Expr],
) -> exp.Select:
    """Each row with its session: a session begins where the previous row is at least a gap away."""
    gap = f"INTERVAL '{spec.size.micros}' MICROSECOND"
    keys = [f"`__per{number}`" for number in range(len(per))]
    added = "".join(f", {render(tree)} AS {key}" for tree, key in zip(per, keys, strict=True))
    where = "".join(f" AND ({render(tree)})" for tree in conditions)
    by = f"PARTITION BY {', '.join(keys)} " if keys else ""
    rows = _rows(time, own, added, where)
    begun = (
        f"SELECT *, CASE WHEN `__at` < LAG(`__at`) OVER ({by}ORDER BY `__at`) + {gap} THEN 0 ELSE 1 END AS `__new` "
        f"FROM ({rows})"
    )
    numbered = f"SELECT *, SUM(`__new`) OVER ({by}ORDER BY `__at`) AS `__session` FROM ({begun})"
    session = f"OVER (PARTITION BY {', '.join([*keys, '`__session`'])})"
    hidden = ", ".join(["`__at`", "`__new`", "`__session`", *keys])
    return _parse_over(
        f"SELECT * EXCEPT ({hidden}), MIN(`__at`) {session} AS `window_start`, "
        f"MAX(`__at`) {session} + {gap} AS `window_end` FROM ({numbered})",
        relation,
    )


def _rows(time: exp.Expr, own: Sequence[str], added: str, where: str) -> str:
    """The rows that have a time, `__at`: a timestamp, even where it is a date."""
    at = f"({render(time)})"
    return (
        f"SELECT {ROWS}.*{_except(own)}, {at} + INTERVAL '0' SECOND AS `__at`{added} "
        f"FROM `{RELATION}` WHERE {at} IS NOT NULL{where}"
    )


def _windows(spec: WindowSpec) -> tuple[str, str, str]:
    """The numbers of a row's windows, and the start and end of window `__n`."""
    size = _units(spec.size)
    slide = _units(spec.slide) if spec.slide is not None else size
    if spec.kind == "cumulate":
        base = f"`__position` - PMOD(`__position`, {size})"
        numbers = f"SEQUENCE(PMOD(`__position`, {size}) DIV {slide} + 1, CAST({size // slide} AS BIGINT))"
        return numbers, base, f"{base} + `__n` * {slide}"
    start = f"`__position` - PMOD(`__position`, {slide}) - `__n` * {slide}"
    numbers = f"SEQUENCE(CAST(0 AS BIGINT), ({size - 1} - PMOD(`__position`, {slide})) DIV {slide})"
    return numbers, start, f"{start} + {size}"


def _units(size: CalendarInterval) -> int:
    return size.months or size.micros


def _month(micros: str) -> str:
    """Months since 1970."""
    at = f"TIMESTAMP_MICROS({micros})"
    return f"CAST((YEAR({at}) - 1970) * 12 + MONTH({at}) - 1 AS BIGINT)"


def _moment(position: str, spec: WindowSpec) -> str:
    """The timestamp of a position."""
    if not spec.size.months:
        return f"TIMESTAMP_MICROS({position} + {spec.offset})"
    begin = f"CAST(ADD_MONTHS(DATE '1970-01-01', CAST({position} AS INT)) AS TIMESTAMP)"
    return f"TIMESTAMP_MICROS(UNIX_MICROS({begin}) + {spec.offset})"


def _except(own: Sequence[str]) -> str:
    return f" EXCEPT ({', '.join(f'`{name}`' for name in own)})" if own else ""


def _parse_over(sql: str, relation: exp.Expr) -> exp.Select:
    """The text as a tree over the relation. Only the relation has spans in the user's text."""
    (statement,) = parse(sql).statements
    assert isinstance(statement, Select) and isinstance(statement.query.select, exp.Select)
    tree = statement.query.select
    for node in tree.walk():
        node.meta.clear()
    placeholder = next(table for table in tree.find_all(exp.Table) if table.name == RELATION)
    placeholder.replace(_named(relation))
    return tree


def _named(relation: exp.Expr) -> exp.Expr:
    result = relation.copy()
    alias = relation.args.get("alias")
    columns = alias.args.get("columns") if isinstance(alias, exp.TableAlias) else None
    result.set("alias", exp.TableAlias(this=exp.to_identifier("__rows", quoted=True), columns=columns))
    return result
