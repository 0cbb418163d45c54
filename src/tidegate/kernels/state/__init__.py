"""The state of one bucket of one op: tables of rows over named blobs.

A table is a sorted *base* plus a few small, newer *runs*, all immutable and cut into chunks. A step appends one run;
runs of similar size are merged; as the runs grow, the base is rewritten piece by piece, so that the cost of a step
depends on what it changes. `Store` is the state, `MemorySegments` holds it in memory, for tests.
"""

from tidegate.kernels.state.chunks import CACHE, ChunkCache
from tidegate.kernels.state.store import MemorySegments, Store

__all__ = ["CACHE", "ChunkCache", "MemorySegments", "Store"]
