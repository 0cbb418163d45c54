"""Names of the columns that travel beside a relation's own: one definition for kernels, formats, connectors and Spark.

They begin with two underscores, which no column of a user's relation may.
"""

from __future__ import annotations

WEIGHT = "__w"
"""How many times a row is inserted (negative: deleted)."""
OP = "__op"
"""The op of a logged change: `+I`, `-U`, `+U` or `-D`. In a block bound for a level: the id of the op it goes to."""
HASH = "__h"
"""The 64-bit hash of a port's key, by which rows are assigned to buckets."""
SEQ = "__seq"
"""The order of arrival inside a step."""
ORDER = "__order"
"""The order of arrival, as an op that delays rows stores it."""
ERROR = "__error"
"""Why a record could not be decoded; NULL for one that could."""
RAW = "__raw"
"""The text of a record that could not be decoded."""
SHARD = "__seen_shard"
"""The source partition of a row."""
