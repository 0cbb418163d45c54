"""Text -> statements, and query parts -> the Spark SQL that evaluates them.

`parse(text)` gives the statements of statements.py. The queries inside are sqlglot trees in which

- scalar functions are `exp.Anonymous` with their name as written, aggregates are `exp.AggFunc`; `call(node)` reads
  both;
- `span_of(node)` is the span of a node in the text, `name_span(node)` that of a function's name;
- `clauses(select)` are our clauses at the end of a SELECT, `hints(select)` its hints;
- `render(node)` gives Spark SQL; `find_place(text, ...)` finds the place of a part of it in the user's text.
"""

from tidegate.sql.clauses import Clauses, WindowClause, clauses
from tidegate.sql.dialect import Tidegate, render
from tidegate.sql.durations import length
from tidegate.sql.functions import Call, call
from tidegate.sql.parsing import parse
from tidegate.sql.places import find_place
from tidegate.sql.queries import hints
from tidegate.sql.spans import name_span, span_of

__all__ = [
    "Call",
    "Clauses",
    "Tidegate",
    "WindowClause",
    "call",
    "clauses",
    "find_place",
    "hints",
    "length",
    "name_span",
    "parse",
    "render",
    "span_of",
]
