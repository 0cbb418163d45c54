"""The one place that runs bind -> rewrite -> lower: for a view (views), a catalog (build) and EXPLAIN (stages)."""

from tidegate.compile.build import build
from tidegate.compile.stages import explain_query, explain_relation
from tidegate.compile.views import (
    CompiledView,
    compile_sink,
    compile_view,
    definition,
    forced_view,
    recompile,
    relation_rows,
    view_entry,
    view_rows,
)

__all__ = [
    "CompiledView",
    "build",
    "compile_sink",
    "compile_view",
    "definition",
    "explain_query",
    "explain_relation",
    "forced_view",
    "recompile",
    "relation_rows",
    "view_entry",
    "view_rows",
]
