"""Our SQL as a sqlglot dialect: Spark's, but nothing is rewritten between reading and writing.

sqlglot is made to translate between dialects and therefore turns `DATE(ts)` into a cast or `NVL` into COALESCE. Here
every function keeps its name and arguments (see functions.py), so that what Spark evaluates is what the user wrote.
"""

from __future__ import annotations

from typing import ClassVar

from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.errors import ErrorLevel, UnsupportedError
from sqlglot.generators.spark import SparkGenerator
from sqlglot.tokenizer_core import TokenType

from tidegate.errors import make
from tidegate.sql.functions import ORIGINAL_NAME, TYPED_AGGREGATES
from tidegate.sql.grammar import TYPE_LITERAL, Parser
from tidegate.sql.spans import span_of


def _as_written(generator: SparkGenerator, node: exp.Func) -> str:
    return generator.function_fallback_sql(node)


def _not_sql(generator: SparkGenerator, node: exp.Not) -> str:
    """`a IS NOT NULL` for what sqlglot would write as `NOT a IS NULL`."""
    inner = node.this
    if isinstance(inner, exp.Is) and isinstance(inner.expression, exp.Null):
        return f"{generator.sql(inner, 'this')} IS NOT NULL"
    return generator.not_sql(node)


class Tidegate(Spark):
    """Spark's dialect with our clauses."""

    ORIGINAL_NAME_META_KEY = ORIGINAL_NAME

    class Tokenizer(Spark.Tokenizer):
        # SHOW and its like would otherwise swallow the rest of the statement as one string.
        COMMANDS: ClassVar[set[TokenType]] = set()
        # Spark 4 reads a doubled quote as one, beside the backslash.
        STRING_ESCAPES: ClassVar[list[str]] = ["\\", "'", '"']
        KEYWORDS: ClassVar = {**Spark.Tokenizer.KEYWORDS, "BYTES": TokenType.BINARY}
        # A hint may follow any token; parsing.py moves it to its SELECT.
        TOKENS_PRECEDING_HINT: ClassVar[set[TokenType]] = set(TokenType)

    Parser = Parser

    class Generator(SparkGenerator):
        TRANSFORMS: ClassVar = {
            **SparkGenerator.TRANSFORMS,
            **dict.fromkeys(TYPED_AGGREGATES.values(), _as_written),
            exp.Select: lambda self, node: self.select_sql(node),
            exp.AnonymousAggFunc: lambda self, node: self.func(self.function_name(node), *node.expressions),
            exp.Not: _not_sql,
            exp.ILike: lambda self, node: self.binary(node, "ILIKE"),
            exp.JSONExtract: lambda self, node: f"{self.sql(node, 'this')}:{self.sql(node, 'expression')}",
            exp.JSONPathRoot: lambda self, node: "",
        }
        QUOTE_JSON_PATH = False
        JSON_PATH_SINGLE_QUOTE_ESCAPE = False
        JSON_PATH_KEY_QUOTED_FORCES_BRACKETS = True
        SAFE_JSON_PATH_KEY_RE = exp.SAFE_IDENTIFIER_RE

        def arrayagg_sql(self, expression: exp.ArrayAgg) -> str:
            return self.function_fallback_sql(expression)

        def cast_sql(self, expression: exp.Cast, safe_prefix: str | None = None) -> str:
            if expression.meta.get(TYPE_LITERAL):
                return f"{self.sql(expression, 'to')} {self.sql(expression, 'this')}"
            return super().cast_sql(expression, safe_prefix)

        def json_path_part(self, expression: int | str | exp.JSONPathPart) -> str:
            """Keys that are not plain names are quoted as Spark's strings: `v:['a b']`."""
            if isinstance(expression, str):
                return f"'{self.escape_str(expression)}'"
            return super().json_path_part(expression)

        def hint_sql(self, expression: exp.Hint) -> str:
            """Hints of ours are not for Spark."""
            return ""


def render(node: exp.Expr) -> str:
    """Spark SQL for an expression or a query, on one line, as close to what was written as the tree allows."""
    try:
        return node.sql(
            dialect=Tidegate, comments=False, normalize_functions=False, unsupported_level=ErrorLevel.IMMEDIATE
        )
    except UnsupportedError as error:
        raise make("NOT_SUPPORTED", message=f"Spark cannot evaluate this: {error}", span=span_of(node)) from error
