"""Spark's error conditions as our own errors, in terms of what the user wrote."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Mapping

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors.exceptions.base import PySparkException
from pyspark.logger import PySparkLogger

from tidegate.errors import Error, did_you_mean, make, too_deep

CODES: dict[str, str] = {
    "UNRESOLVED_COLUMN": "UNKNOWN_COLUMN",
    "UNRESOLVED_FIELD": "UNKNOWN_COLUMN",
    "FIELD_NOT_FOUND": "UNKNOWN_COLUMN",
    "UNRESOLVED_ROUTINE": "UNKNOWN_FUNCTION",
    "AMBIGUOUS_REFERENCE": "AMBIGUOUS_COLUMN",
    "AMBIGUOUS_REFERENCE_TO_FIELDS": "AMBIGUOUS_COLUMN",
    "TABLE_OR_VIEW_NOT_FOUND": "UNKNOWN_RELATION",
    "PARSE_SYNTAX_ERROR": "SYNTAX_ERROR",
}

NAMING = ("objectName", "fieldName", "routineName", "functionName", "error", "name", "inputSql", "sqlExpr")
"""Parameters of Spark's conditions that are SQL."""

_RAISED = re.compile(r"(?:^|[\w.$]+(?:Exception|Error): )(.*?)(?=$|[\w.$]+(?:Exception|Error): )")
"""The messages of nested exceptions in one line."""

NOISE = (
    r"^Cannot resolve \".*?\" due to data type mismatch:\s*",
    r"\s*\(line \d+, pos \d+\)",
    r"\s*SQLSTATE: \w+",
    r";\s*line \d+ pos \d+;?",
    r"\s*Please, refer to '[^']*' for a fix\.?",
    r"^You may get a different result due to the upgrading to Spark >= 3\.0:\s*",
    r"org\.apache\.spark\.unsafe\.types\.",
    r'\s*If necessary set "[^"]*" to "[^"]*"( to bypass this error)?\.?',
)


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Keep PySpark from also printing analysis errors on stderr."""
    logger = PySparkLogger.getLogger("SQLQueryContextLogger")
    before, logger.disabled = logger.disabled, True
    try:
        yield
    finally:
        logger.disabled = before


def error_of(problem: PySparkException | Py4JJavaError) -> Error:
    """Our error for an error of Spark."""
    if isinstance(problem, Py4JJavaError):
        return _error_of_java(problem)
    condition = problem.getCondition() or ""
    parameters = problem.getMessageParameters() or {}
    code = CODES.get(condition.split(".")[0], "TYPE_MISMATCH")
    message = _message(condition, parameters) or _cleaned(str(problem))
    error = make(code, message=message, hint=_hint(condition, parameters))
    error.near = _near(problem, parameters)
    return error


def reason_of(problem: PySparkException | Py4JJavaError) -> str:
    """Why an expression failed for a row, in one sentence."""
    if isinstance(problem, PySparkException):
        return _message(problem.getCondition() or "", problem.getMessageParameters() or {}) or _cleaned(str(problem))
    cause = problem.java_exception
    while cause.getCause() is not None:
        cause = cause.getCause()
    said = _RAISED.findall(str(cause.getMessage() or "").partition("\n")[0])
    return _cleaned(said[-1] if said else "") or str(cause.getClass().getSimpleName())


def _error_of_java(problem: Py4JJavaError) -> Error:
    """Our error for a Java exception that PySpark has no class for: a defect of Spark's analyser, or its stack."""
    if "StackOverflowError" in str(problem.java_exception.getClass().getName()):
        return too_deep()
    said = _cleaned(str(problem.java_exception.getMessage() or ""))
    return make("NOT_SUPPORTED", message="Spark cannot analyse this", detail=said or None, hint="write it another way")


def _near(problem: PySparkException, parameters: Mapping[str, str]) -> tuple[str, ...]:
    """The SQL that an error is about: names among its parameters, then the expressions around them."""
    named = [_plain(parameters[key]).strip("'") for key in NAMING if key in parameters]
    fragments = [context.fragment() for context in problem.getQueryContext() or () if context.fragment()]
    return tuple(dict.fromkeys((*named, *fragments)))


def _message(condition: str, parameters: Mapping[str, str]) -> str | None:
    """Our own message for frequent mistakes; None for others."""
    plain = {key: _plain(value) for key, value in parameters.items()}
    match condition.split("."):
        case ["UNRESOLVED_ROUTINE", *_]:
            return f"there is no function {plain['routineName']}"
        case ["UNRESOLVED_COLUMN", *_]:
            return f"there is no column {plain['objectName']}"
        case ["FIELD_NOT_FOUND", *_]:
            return f"there is no field {plain['fieldName']} in {plain['fields']}"
        case ["INVALID_EXTRACT_BASE_FIELD_TYPE"]:
            return f"{plain['base']} has no fields, it is {plain['other']}"
        case ["WRONG_NUM_ARGS", *_]:
            expected = plain["expectedNum"].strip("[]").replace(", ", " or ")
            return f"{plain['functionName']} takes {expected} arguments, not {plain['actualNum']}"
        case ["DATATYPE_MISMATCH", "FILTER_NOT_BOOLEAN"]:
            return f"a condition must be BOOLEAN, and {plain['filter']} is {plain['type']}"
        case ["DATATYPE_MISMATCH", "BINARY_OP_DIFF_TYPES"]:
            return f"{plain['left']} and {plain['right']} do not go together in {plain['sqlExpr']}"
        case ["DATATYPE_MISMATCH", "BINARY_OP_WRONG_TYPE"]:
            return f"{plain['sqlExpr']} needs {plain['inputType']}, not {plain['actualDataType']}"
        case ["DATATYPE_MISMATCH", "UNEXPECTED_INPUT_TYPE"]:
            argument = f"the {plain['paramIndex']} argument {plain['inputSql']} is {plain['inputType']}"
            return f"{argument}, where {plain['requiredType']} is needed"
        case ["INCONSISTENT_BEHAVIOR_CROSS_VERSION", *_] if "pattern" in plain:
            return f"{plain['pattern']} is not a pattern of dates and times"
        case ["INCOMPATIBLE_COLUMN_TYPE"]:
            ordinal = plain["columnOrdinalNumber"]
            return f"the {ordinal} columns do not go together: {plain['dataType2']} and {plain['dataType1']}"
        case ["UNSUPPORTED_DATATYPE", *_]:
            return f"there is no type {plain['typeName']}"
        case ["EXPRESSION_TYPE_IS_NOT_ORDERABLE"]:
            return f"values of type {plain['exprType']} have no order, which PARTITION BY and ORDER BY need"
    return None


def _hint(condition: str, parameters: Mapping[str, str]) -> str | None:
    """What to write instead, if that is known."""
    match condition.split("."):
        case ["FIELD_NOT_FOUND", *_]:
            fields = _plain(parameters["fields"]).split(", ")
            return did_you_mean(_plain(parameters["fieldName"]), fields, what="fields")
        case ["DATATYPE_MISMATCH", "FILTER_NOT_BOOLEAN"]:
            return "write a comparison"
        case ["DATATYPE_MISMATCH", _] | ["INCOMPATIBLE_COLUMN_TYPE"]:
            return "write a CAST where the value is meant"
        case ["INVALID_EXTRACT_BASE_FIELD_TYPE"]:
            return "only STRUCT, ARRAY and MAP columns have fields"
        case [name, *_] if name.endswith("NOT_ORDERABLE"):
            return "write to_json(...) of the value instead"
        case ["UNSUPPORTED_TIME_TYPE"]:
            return "write a STRING, a TIMESTAMP, or the INTERVAL since midnight"
        case ["UNSUPPORTED_DATATYPE", *_]:
            return "types are Spark's: STRING, INT, BIGINT, DOUBLE, DECIMAL(p, s), BOOLEAN, DATE, TIMESTAMP, ..."
    return ""


def _plain(value: str) -> str:
    """A parameter without Spark's quotes around it."""
    return value.replace("`", "").strip('"').replace('"', "")


def _cleaned(text: str) -> str:
    """Spark's own sentence, without its condition, SQLSTATE, position and plan."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    first = " ".join(lines[: 2 if lines and lines[0].endswith(":") else 1])
    first = re.sub(r"^\[[A-Z0-9_.]+\]\s*", "", first)
    for noise in NOISE:
        first = re.sub(noise, "", first)
    return first.strip().rstrip(";").rstrip(".").replace("`", "")
