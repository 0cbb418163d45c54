"""sqlglot's Spark grammar with our clauses, and with a span for every node.

Only hooks are overridden: where an alias could swallow one of our clauses, where the clauses of a SELECT are read,
where a join or a table may have more clauses, and where sqlglot does not record the position of a node."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, ClassVar

from sqlglot import exp
from sqlglot.parsers.spark import SparkParser
from sqlglot.tokenizer_core import Token, TokenType

from tidegate.sql.clauses import clause_ahead, read_clause, within_ahead
from tidegate.sql.cursor import Cursor, E, word
from tidegate.sql.durations import check_unit, read_duration
from tidegate.sql.functions import BUILDERS
from tidegate.sql.parameters import read_parameter
from tidegate.sql.spans import shift, span_of
from tidegate.sql.windows import PARTITION, unwrap_window, window_function

# Calls with a syntax of their own; all others are plain names with arguments.
SPECIAL_CALLS = ("CAST", "TRY_CAST", "EXTRACT", "SUBSTRING", "SUBSTR", "TRIM", "POSITION", "OVERLAY")
WITHIN = "within"
TYPE_LITERAL = "type_literal"


class Parser(Cursor):
    """Reads queries and expressions. Statements are read by the modules beside this one."""

    ADD_JOIN_ON_TRUE: ClassVar = False
    COLON_IS_VARIANT_EXTRACT: ClassVar = True
    COLON_CHAIN_IS_SINGLE_EXTRACT: ClassVar = False
    PLACEHOLDER_PARSERS: ClassVar[dict[TokenType, Callable[..., Any]]] = {
        TokenType.PLACEHOLDER: read_parameter,
        TokenType.COLON: read_parameter,
    }
    FUNC_TOKENS: ClassVar = SparkParser.FUNC_TOKENS | {TokenType.SESSION}
    FUNCTIONS: ClassVar[dict[str, Callable[..., exp.Expr]]] = dict(BUILDERS)
    FUNCTION_PARSERS: ClassVar[dict[str, Callable[..., Any]]] = {
        name: SparkParser.FUNCTION_PARSERS[name] for name in SPECIAL_CALLS
    }
    NO_PAREN_FUNCTION_PARSERS: ClassVar[dict[str, Callable[..., Any]]] = {
        name: SparkParser.NO_PAREN_FUNCTION_PARSERS[name] for name in ("CASE", "IF")
    }
    PRIMARY_PARSERS: ClassVar[dict[TokenType, Callable[..., Any]]] = {
        **SparkParser.PRIMARY_PARSERS,
        TokenType.NULL: lambda self, token: self.expression(exp.Null(), token),
        TokenType.TRUE: lambda self, token: self.expression(exp.Boolean(this=True), token),
        TokenType.FALSE: lambda self, token: self.expression(exp.Boolean(this=False), token),
    }

    def _parse_statement(self) -> exp.Expr | None:
        """After WITH and in a CTE there can only be a query."""
        return self._parse_ddl_select()

    def _parse_query_modifiers(self, this: Any) -> Any:
        this = super()._parse_query_modifiers(this)
        while isinstance(this, exp.Query) and read_clause(self, this):
            this = super()._parse_query_modifiers(this)
        return this

    def _parse_table_alias(self, alias_tokens: Collection[TokenType] | None = None) -> exp.TableAlias | None:
        return None if clause_ahead(self) else super()._parse_table_alias(alias_tokens)

    def _parse_alias(self, this: exp.Expr | None, explicit: bool = False) -> exp.Expr | None:
        return this if clause_ahead(self) else super()._parse_alias(this, explicit)

    def _parse_table_hints(self) -> list[exp.Expr] | None:
        """`FROM t WITH (...)`: the parentheses are the options of the statement around the query."""
        return None

    def _parse_table(self, *args: Any, **kwargs: Any) -> exp.Expr | None:
        table = super()._parse_table(*args, **kwargs)
        if isinstance(table, exp.Table) and table.args.get("version") is None:
            table.set("version", self._parse_version())
        return unwrap_window(table) if table is not None else None

    def _parse_join(self, *args: Any, **kwargs: Any) -> exp.Join | None:
        """`JOIN b ON ... WITHIN d` or `JOIN b WITHIN d ON ...`: both durations are stored in the join's meta."""
        join = super()._parse_join(*args, **kwargs)
        conditioned = join is not None and join.args.get("on") is not None
        if join is not None and (within_ahead(self) or (conditioned and self.at("WITHIN"))):
            start = self.start_token()
            self._advance()
            join.meta[WITHIN] = self._before_and_after()
            self.mark_since(join, start)
            if join.args.get("on") is None and self._match(TokenType.ON):
                join.set("on", self._parse_disjunction())
        return join

    def _before_and_after(self) -> tuple[exp.Expr, exp.Expr]:
        """`d`, or ksqlDB's `(before, after)`."""
        if not self.at("("):
            size = read_duration(self, "WITHIN")
            return size, size
        self._advance()
        before = read_duration(self, "WITHIN (")
        if not self._match(TokenType.COMMA):
            self.fail(f"WITHIN (before, after) has two durations{self.instead()}", hint="write WITHIN (1h, 2h)")
        after = read_duration(self, "WITHIN (..., ")
        self._match_r_paren()
        if self.at("GRACE", "PERIOD"):
            hint = "leave it out: how long rows are waited for is said by WATERMARK FOR of their sources"
            self.fail("a join has no GRACE PERIOD", hint=hint)
        return before, after

    def _parse_lambda(self, alias: bool = False) -> exp.Expr | None:
        """An argument; Flink's `TABLE t PARTITION BY a` is `t`, with the partition columns in its meta."""
        following = self.peek(1)
        if following is not None and following.token_type == TokenType.FARROW and word(self.here) not in ("", ")"):
            return self._named_argument()
        if self.at("TABLE") and following is not None and not self.at("TABLE", "("):
            self._advance()
        argument = super()._parse_lambda(alias)
        if argument is not None and self._match(TokenType.PARTITION_BY):
            argument.meta[PARTITION] = self._partition()
        return argument

    def _named_argument(self) -> exp.Expr:
        """Flink's `SIZE => INTERVAL '1' MINUTE`, whatever the name is elsewhere."""
        start = self.start_token()
        self._advance(2)
        value = self._parse_lambda()
        named = exp.Kwarg(this=exp.Var(this=start.text), expression=value)
        self.mark_since(named, start)
        return named

    def _partition(self) -> list[exp.Expr]:
        """`(a, b)`, or columns up to the descriptor of the time column; without one it is a single column."""
        if self._match(TokenType.L_PAREN):
            listed = self._parse_csv(self._parse_column)
            self._match_r_paren()
            return list(listed)
        columns: list[exp.Expr | None] = [self._parse_column()]
        while self.at(",") and not self.at(",", "DESCRIPTOR") and self._descriptor_ahead():
            self._advance()
            columns.append(self._parse_column())
        return [column for column in columns if column is not None]

    def _descriptor_ahead(self) -> bool:
        """True if a bare list of columns and then DESCRIPTOR come next."""
        distance = 1
        while word(self.peek(distance)) and word(self.peek(distance + 1)) == ",":
            distance += 2
        return word(self.peek(distance)) == "DESCRIPTOR"

    def _parse_hint(self) -> exp.Hint | None:
        hints: list[exp.Expr | str] = []
        while (token := self.here) is not None and self._match(TokenType.HINT):
            hints += self._hint_calls(token)
        return exp.Hint(expressions=hints) if hints else None

    def _hint_calls(self, token: Token) -> list[exp.Expr]:
        body = exp.maybe_parse(token.comments[0], into=exp.Hint, dialect=self.dialect)
        if any(not isinstance(call, exp.Expr) for call in body.expressions):
            self.fail("this hint cannot be read", hint="write /*+ NAME('option' = 'value') */", span=self.since(token))
        offset = token.start + self.sql[token.start : token.end + 1].index(token.comments[0])
        for call in body.expressions:
            shift(call, offset)
        return list(body.expressions)

    def _parse_type(self, *args: Any, **kwargs: Any) -> exp.Expr | None:
        """`DATE '2020-01-01'` is a cast to sqlglot; mark it as a literal."""
        start, following = self.here, self.peek(1)
        node = super()._parse_type(*args, **kwargs)
        if start and following and following.token_type == TokenType.STRING and isinstance(node, exp.Cast):
            node.meta[TYPE_LITERAL] = True
            self.mark_since(node, start)
        return node

    def _parse_function_call(self, *args: Any, **kwargs: Any) -> exp.Expr | None:
        node = self._with_span(super()._parse_function_call, *args, **kwargs)
        if node is not None and not window_function(node):
            self._reject_partition(node)
        return node

    def _reject_partition(self, node: exp.Expr) -> None:
        for argument in node.iter_expressions():
            if PARTITION in argument.meta:
                self.fail("PARTITION BY is for SESSION(...) here", span=span_of(argument))

    def _parse_interval(self, *args: Any, **kwargs: Any) -> exp.Add | exp.Interval | None:
        start, node = self.here, super()._parse_interval(*args, **kwargs)
        if start is not None:
            self.mark_since(node, start)
        for interval in node.find_all(exp.Interval) if node is not None else ():
            check_unit(self, interval)
        return node

    def _parse_paren(self) -> exp.Expr | None:
        return self._with_span(super()._parse_paren)

    def _parse_bracket(self, this: exp.Expr | None = None) -> exp.Expr | None:
        start, node = self.here, super()._parse_bracket(this)
        return self.mark_since(node, start) if start is not None and node is not this else node

    def _parse_between(self, this: exp.Expr | None) -> exp.Between:
        low = self._parse_bitwise()
        if not self._match(TokenType.AND):
            self.raise_error("Expecting AND")
        return self.expression(exp.Between(this=this, low=low, high=self._parse_bitwise()))

    def _parse_in(self, *args: Any, **kwargs: Any) -> exp.In:
        start, node = self.start_token(), super()._parse_in(*args, **kwargs)
        self.mark_since(node, start)
        return node

    def _parse_unary(self) -> exp.Expr | None:
        start, node = self.here, super()._parse_unary()
        return self.mark_since(node, start) if start is not None and isinstance(node, exp.Unary) else node

    def _with_span(self, read: Callable[..., E | None], *args: Any, **kwargs: Any) -> E | None:
        """Call `read`, and record the span of what it returns."""
        start = self.here
        node = read(*args, **kwargs)
        return self.mark_since(node, start) if start is not None else node
