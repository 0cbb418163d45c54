"""Sessions: rows that follow each other closely. They are kept one by one (`points`), since a row that comes or goes
may join two sessions or part one; `Sessions` is GROUP BY over them."""

from __future__ import annotations

from tidegate.kernels.sessions.kernel import Sessions

__all__ = ["Sessions"]
