"""Ad-hoc queries: Spark runs them as a batch over the content of relations, except for the simplest."""

from tidegate.bind.adhoc.direct import DirectSelect
from tidegate.bind.adhoc.select import BoundSelect, bind_select, temp_name

__all__ = ["BoundSelect", "DirectSelect", "bind_select", "temp_name"]
