"""The state of one bucket of one op: tables of rows over named blobs.

A table is a sorted *base* plus a few small, newer *runs*, all immutable and cut into chunks. A step appends one run;
runs of a like size are merged; and as the runs grow, the base is rewritten a piece at a time, so that a step costs what
it changes. `Store` is the state, `MemorySegments` a place to keep it in tests.
"""

from tidegate.kernels.state.chunks import CACHE, ChunkCache
from tidegate.kernels.state.store import MemorySegments, Store

__all__ = ["CACHE", "ChunkCache", "MemorySegments", "Store"]
