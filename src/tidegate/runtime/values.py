"""Convert rows of users to an Arrow table with exactly a relation's columns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from tidegate.core.schema import Column, Schema, names
from tidegate.core.types import arrow_schema, arrow_type, spark_name
from tidegate.errors import Error, did_you_mean, make
from tidegate.runtime.columns import cast, first_outside_of_years, native
from tidegate.runtime.convert import converter
from tidegate.runtime.python_values import InvalidValue, UnknownField, excerpt, mapping_of, plain


def coerce(rows: Any, columns: Schema, relation: str = "the relation") -> pa.Table:
    """Dicts, tuples, lists, dataclasses, Arrow, Polars or pandas; one row or many.

    Columns are found by name where the rows have names, else by position. A missing name is NULL; an unknown one, a
    wrong number of values or a value that does not fit exactly is rejected, naming row (from 1), column and value.
    """
    if _is_pandas(rows):
        rows = _from_pandas(rows, relation)
    table = _as_arrow(rows, relation)
    if table is not None:
        return _from_arrow(table, columns, relation)
    return _from_rows(_row_list(rows, relation), columns, relation)


def _is_pandas(rows: Any) -> bool:
    return type(rows).__module__.startswith("pandas") and hasattr(rows, "columns")


def _from_pandas(frame: Any, relation: str) -> Any:
    """An Arrow table in which NaN is NULL, or rows where a column holds values of several types."""
    try:
        return pa.Table.from_pandas(frame, preserve_index=False)
    except (pa.ArrowException, OverflowError, UnicodeError):
        return frame.to_dict("records")
    except Exception as problem:
        raise _no_rows(frame, relation, problem) from problem


def _as_arrow(rows: Any, relation: str) -> pa.Table | None:
    """Columnar input as an Arrow table, None if it is not columnar."""
    if isinstance(rows, pa.Table):
        return rows
    if isinstance(rows, pa.RecordBatch):
        return pa.Table.from_batches([rows])
    try:
        if hasattr(rows, "collect_schema") and hasattr(rows, "collect"):
            rows = rows.collect()
        return pa.table(rows) if hasattr(rows, "__arrow_c_stream__") else None
    except Exception as problem:
        raise _no_rows(rows, relation, problem) from problem


def _row_list(rows: Any, relation: str) -> list[Any]:
    if mapping_of(rows) is not None or (isinstance(rows, tuple) and rows and not _is_row(rows[0])):
        return [rows]
    if isinstance(rows, (str, bytes)) or not isinstance(rows, Iterable) or getattr(rows, "ndim", 1) == 0:
        raise _no_rows(rows, relation)
    return list(rows)


def _no_rows(rows: Any, relation: str, reason: Exception | None = None) -> Error:
    return make(
        "TYPE_MISMATCH",
        message=f"{excerpt(rows)} is not rows of {relation}",
        detail=None if reason is None else str(reason).split("\n", 1)[0],
        hint="pass a list of dicts or tuples, or an Arrow, Polars or pandas table",
    )


def _is_row(value: Any) -> bool:
    return isinstance(value, (list, tuple)) or mapping_of(value) is not None


def _from_rows(rows: list[Any], columns: Schema, relation: str) -> pa.Table:
    positions = {column.name: i for i, column in enumerate(columns)}
    folded = {column.name.casefold(): i for i, column in enumerate(columns)}
    ordered = [_ordered(row, number, columns, positions, folded, relation) for number, row in enumerate(rows, 1)]
    by_column: Sequence[Sequence[Any]] = list(zip(*ordered, strict=True)) if ordered else [()] * len(columns)
    arrays = [_column(values, column) for values, column in zip(by_column, columns, strict=True)]
    return pa.Table.from_arrays(arrays, schema=arrow_schema(columns))


def _ordered(
    row: Any, number: int, columns: Schema, positions: Mapping[str, int], folded: Mapping[str, int], relation: str
) -> Sequence[Any]:
    """A row's values in the order of the columns."""
    mapping = row if type(row) is dict else mapping_of(row)
    if mapping is None:
        return _by_position(row, number, columns, relation)
    values: list[Any] = [None] * len(columns)
    for name, value in mapping.items():
        at = positions.get(name)
        if at is None:
            at = _position(name, folded, number, columns, relation)
        values[at] = value
    return values


def _position(name: Any, folded: Mapping[str, int], number: int, columns: Schema, relation: str) -> int:
    at = folded.get(name.casefold()) if isinstance(name, str) else None
    if at is None:
        shown = excerpt(name)[1:-1] if isinstance(name, str) else excerpt(name)
        raise _unknown_column(shown, f"row {number}", columns, relation)
    return at


def _unknown_column(name: str, where: str, columns: Schema, relation: str) -> Error:
    return make(
        "UNKNOWN_COLUMN",
        message=f"{where} has a value for {name}, but {relation} has no such column",
        detail=f"columns of {relation}: {', '.join(names(columns))}",
        hint=did_you_mean(name, names(columns), "columns"),
    )


def _by_position(row: Any, number: int, columns: Schema, relation: str) -> Sequence[Any]:
    if not isinstance(row, (list, tuple)):
        raise make(
            "TYPE_MISMATCH",
            message=f"row {number}: {excerpt(row)} is not a row of {relation}",
            hint="a row is a dict, or a tuple or list with one value per column",
        )
    if len(row) != len(columns):
        actual, expected = _count_text(len(row), "value"), _count_text(len(columns), "column")
        raise make(
            "TYPE_MISMATCH",
            message=f"row {number} has {actual}, {relation} has {expected}",
            detail=f"columns of {relation}: {', '.join(names(columns))}",
            hint="pass dicts to leave columns out",
        )
    return row


def _count_text(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _column(values: Sequence[Any], column: Column) -> pa.Array[Any]:
    """One column of rows: at once where all values have the type's own Python type, else value by value."""
    target = arrow_type(column.type)
    array = native(values, target)
    if array is None:
        array = _array(values, column, target)
    _check(array, column)
    return array


def _array(values: Sequence[Any], column: Column, target: pa.DataType) -> pa.Array[Any]:
    """The values, one by one, as an Arrow column. The converters know what a type takes; what Arrow rejects all the
    same is found by converting each value alone."""
    convert = converter(target)
    converted = []
    for number, value in enumerate(values, 1):
        try:
            converted.append(convert(value))
        except InvalidValue as problem:
            raise _error_of(problem, number, column, target) from None
    try:
        return pa.array(converted, type=target)
    except (pa.ArrowException, OverflowError, ValueError):
        for number, value in enumerate(converted, 1):
            _alone(value, number, column, target)
        raise


def _alone(value: Any, number: int, column: Column, target: pa.DataType) -> None:
    try:
        pa.array([value], type=target)
    except (pa.ArrowException, OverflowError, ValueError):
        problem = InvalidValue(f"{excerpt(value)} does not fit into {spark_name(target)}")
        raise _error_of(problem, number, column, target) from None


def _error_of(problem: InvalidValue, number: int, column: Column, target: pa.DataType) -> Error:
    where = f"row {number}, column {column.name}{problem.path}"
    if isinstance(problem, UnknownField):
        message = f"{where}: there is no field {problem.reason} in {spark_name(target)}"
        return make("UNKNOWN_COLUMN", message=message, hint=problem.hint)
    return make("TYPE_MISMATCH", message=f"{where}: {problem.reason}", hint=problem.hint or _advice(target))


def _advice(target: pa.DataType) -> str:
    return f"pass a {spark_name(target)}, or NULL (None) where there is none"


def _check(array: pa.Array[Any] | pa.ChunkedArray[Any], column: Column) -> None:
    """Reject NULL in a required column, and times that no calendar of four digits has."""
    _require_present(array, column)
    if (outside := first_outside_of_years(array)) is not None:
        raise make(
            "TYPE_MISMATCH",
            message=f"row {outside + 1}, column {column.name}: its time is not in the years 1 to 9999",
            hint="times are UTC: one with a zone can leave these years when it is converted",
        )


def _require_present(array: pa.Array[Any] | pa.ChunkedArray[Any], column: Column) -> None:
    if column.nullable or not array.null_count:
        return
    number = next(i for i, value in enumerate(array.is_null().to_pylist(), 1) if value)
    raise make(
        "TYPE_MISMATCH",
        message=f"row {number}, column {column.name}: NULL, but the column is NOT NULL",
        hint=f"give every row a value for {column.name}",
    )


def _from_arrow(table: pa.Table, columns: Schema, relation: str) -> pa.Table:
    folded = {column.name.casefold(): i for i, column in enumerate(columns)}
    by_position: dict[int, pa.ChunkedArray[Any]] = {}
    for name, array in zip(table.column_names, table.columns, strict=True):
        at = folded.get(name.casefold())
        if at is None:
            raise _unknown_column(name, "the table", columns, relation)
        by_position[at] = array
    arrays = [_arrow_column(by_position.get(i), table.num_rows, column) for i, column in enumerate(columns)]
    return pa.Table.from_arrays(arrays, schema=arrow_schema(columns))


def _arrow_column(array: pa.ChunkedArray[Any] | None, length: int, column: Column) -> Any:
    target = arrow_type(column.type)
    if array is None:
        exact: Any = pa.nulls(length, target)
    else:
        exact = cast(_validated(array, column), target)
        if exact is None:
            exact = _array(_python_values(array, column, target), column, target)
    _check(exact, column)
    return exact


def _validated(array: pa.ChunkedArray[Any], column: Column) -> pa.ChunkedArray[Any]:
    """The column, if its bytes are what its type says: text that is Unicode, offsets that are inside of it."""
    try:
        array.validate(full=True)
    except pa.ArrowException as problem:
        reason = str(problem).split("\n", 1)[0]
        message = f"column {column.name} is not a valid {array.type} of Arrow"
        raise make("TYPE_MISMATCH", message=message, detail=reason, hint=_advice(arrow_type(column.type))) from problem
    return array


def _python_values(array: pa.ChunkedArray[Any], column: Column, target: pa.DataType) -> list[Any]:
    values = []
    for number, value in enumerate(array, 1):
        try:
            values.append(plain(value.as_py()))
        except (pa.ArrowException, OverflowError, ValueError):
            problem = InvalidValue(f"a value of Arrow's {array.type} has no equivalent in Python")
            raise _error_of(problem, number, column, target) from None
    return values
