"""Ad-hoc queries: Spark runs them as a batch over the content of relations."""

from tidegate.bind.adhoc.select import BoundSelect, bind_select, temp_name

__all__ = ["BoundSelect", "bind_select", "temp_name"]
