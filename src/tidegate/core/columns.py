"""Names of the columns that travel beside a relation's own, and of the producers of rows: one definition for kernels,
formats, connectors and Spark.

They begin with two underscores, which no column of a user's relation may.
"""

from __future__ import annotations

import re

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

_INPUT = "in:"
_CONTENT = re.compile(r"@\d+\.\d+$")


def content_input(relation: str, generation: int, entry: int) -> str:
    """The name of the input that delivers the content of a relation once, to consumers that are new in `generation`.
    `entry` is the number of its entry in the insert log."""
    return f"{relation}@{generation}.{entry}"


class Producer(str):
    """Where rows of a circuit come from: an input relation, or an op by its id. The text is what is stored and hashed,
    and the name of the producer's struct column in the wide frame."""

    __slots__ = ()

    @staticmethod
    def of_input(relation: str) -> Producer:
        return Producer(_INPUT + relation)

    @property
    def is_input(self) -> bool:
        return self.startswith(_INPUT)

    @property
    def is_content(self) -> bool:
        """True for a content input: its rows are the content of a relation, which is never late."""
        return _CONTENT.search(self) is not None

    @property
    def relation(self) -> str | None:
        """The input relation; None for an op."""
        return self[len(_INPUT) :] if self.is_input else None

    @property
    def op(self) -> str | None:
        """The id of the op; None for an input relation."""
        return None if self.is_input else str(self)
