"""The state of operators: immutable objects of segments, and for every step a manifest of what belongs to it.

`state/<name>` is an object: segments of one or several buckets, one after the other. A task writes new objects under
names that nobody else uses, and never changes one, so a task may fail, run twice or finish late without harm. What it
wrote becomes state when the driver logs the step: the step's record contains the manifest, which says for every bucket
of every op where its *index* is, and the index says where each segment is. A step reads the manifest of the step before
it.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import pyarrow as pa
from xxhash import xxh3_64_intdigest

from tidegate.core.sized_cache import SizedCache
from tidegate.storage.documents import MISSING, damaged
from tidegate.storage.objects import Storage

STATE = "state"
"""The folder of objects."""
MAGIC = b"TGS3"
OBJECT_BYTES = 32 << 20
"""An object ends when it is this large, so that a task holds no more than this of what it writes."""
OWN_OBJECT = 1 << 20
"""A bucket that writes this much gets objects of its own: what it drops later is not kept by small neighbours."""
SMALL, SMALL_CACHE = 64 << 10, 64 << 20
READ_OVERHEAD = 500
"""What a small read in memory takes beside its bytes: its place is the key."""
COPIED_PER_STEP = 8 << 20
GARBAGE = 64 << 20


class Place(NamedTuple):
    """Where some bytes are in an object, with their checksum."""

    object: str
    start: int
    length: int
    checksum: int


class Use(NamedTuple):
    """How many bytes of an object a bucket uses."""

    object: str
    bytes: int


@dataclass(frozen=True)
class BucketState:
    """The state of a bucket after a step: the place of its index, the size of its tables, and the objects it uses."""

    index: Place
    rows: int
    bytes: int
    uses: tuple[Use, ...]

    def to_json(self) -> list[Any]:
        return [list(self.index), self.rows, self.bytes, [list(use) for use in self.uses]]

    @staticmethod
    def from_json(document: list[Any]) -> BucketState:
        index, rows, size, uses = document
        return BucketState(Place(*index), rows, size, tuple(Use(*use) for use in uses))


Address = tuple[str, int]
"""An op and a bucket."""


@dataclass(frozen=True)
class Manifest:
    """The state after a step. `sizes`: the bytes of every object in use; `sparse`: objects that are mostly garbage, out
    of which segments are copied when their bucket is written next."""

    buckets: Mapping[Address, BucketState] = field(default_factory=dict)
    sizes: Mapping[str, int] = field(default_factory=dict)
    sparse: frozenset[str] = frozenset()

    def only(self, ops: Iterable[str]) -> Manifest:
        """The state of some ops."""
        wanted = frozenset(ops)
        return replace(self, buckets={each: state for each, state in self.buckets.items() if each[0] in wanted})

    def after(self, written: Mapping[Address, BucketState], sizes: Mapping[str, int]) -> Manifest:
        """The manifest of the next step, in which some buckets have changed."""
        buckets = {**self.buckets, **written}
        known = {**self.sizes, **sizes}
        used = _used(buckets.values())
        return Manifest(buckets, {name: known[name] for name in used}, _sparse(used, known))

    def to_table(self) -> pa.Table:
        """One row per bucket."""
        rows = [
            {
                "op": op,
                "bucket": bucket,
                "index": state.index._asdict(),
                "rows": state.rows,
                "bytes": state.bytes,
                "uses": [
                    {**use._asdict(), "size": self.sizes[use.object], "sparse": use.object in self.sparse}
                    for use in state.uses
                ],
            }
            for (op, bucket), state in sorted(self.buckets.items())
        ]
        return pa.Table.from_pylist(rows, schema=_SCHEMA)

    @staticmethod
    def from_table(table: pa.Table) -> Manifest:
        buckets: dict[Address, BucketState] = {}
        sizes: dict[str, int] = {}
        sparse: set[str] = set()
        for row in table.to_pylist():
            uses = tuple(Use(use["object"], use["bytes"]) for use in row["uses"])
            buckets[row["op"], row["bucket"]] = BucketState(Place(**row["index"]), row["rows"], row["bytes"], uses)
            sizes.update((use["object"], use["size"]) for use in row["uses"])
            sparse.update(use["object"] for use in row["uses"] if use["sparse"])
        return Manifest(buckets, sizes, frozenset(sparse))


_PLACE = [("object", pa.string()), ("start", pa.int64()), ("length", pa.int64()), ("checksum", pa.uint64())]
_USE = [("object", pa.string()), ("bytes", pa.int64()), ("size", pa.int64()), ("sparse", pa.bool_())]
_SCHEMA = pa.schema(
    [
        ("op", pa.string()),
        ("bucket", pa.int32()),
        ("index", pa.struct(_PLACE)),
        ("rows", pa.int64()),
        ("bytes", pa.int64()),
        ("uses", pa.list_(pa.struct(_USE))),
    ]
)


def _used(states: Iterable[BucketState]) -> dict[str, int]:
    """The bytes in use of every object that is in use."""
    used: dict[str, int] = {}
    for state in states:
        for use in state.uses:
            used[use.object] = used.get(use.object, 0) + use.bytes
    return used


def _sparse(used: Mapping[str, int], sizes: Mapping[str, int]) -> frozenset[str]:
    """The emptiest objects, if all objects together have more garbage than content."""
    garbage = sum(sizes[name] for name in used) - sum(used.values())
    excess = garbage - max(sum(used.values()), GARBAGE)
    sparse = set()
    for name in sorted(used, key=lambda name: used[name] / sizes[name]):
        if excess <= 0:
            break
        sparse.add(name)
        excess -= sizes[name] - used[name]
    return frozenset(sparse)


class _SmallReads(SizedCache[Place, bytes]):
    """A cache of small segments. Objects never change and their names are unique, so it is valid for any folder that
    this process works for."""

    def __init__(self) -> None:
        super().__init__(SMALL_CACHE, lambda blob: len(blob) + READ_OVERHEAD)

    def put(self, key: Place, value: bytes) -> None:
        if len(value) <= SMALL:
            super().put(key, value)


_small_reads = _SmallReads()


def read_place(storage: Storage, place: Place, cached: bool = True) -> bytes:
    """The bytes at a place; FOLDER_DAMAGED if they are missing or not what was written."""
    blob = _small_reads.get(place) if cached else None
    if blob is not None:
        return blob
    name = object_name(place.object)
    try:
        blob = storage.read_range(name, place.start, place.length)
    except FileNotFoundError:
        raise damaged(storage.location(name), MISSING) from None
    if len(blob) != place.length:
        raise damaged(storage.location(name), "it is cut off")
    if xxh3_64_intdigest(blob) != place.checksum:
        raise damaged(storage.location(name), f"its checksum is wrong, at byte {place.start}")
    _small_reads.put(place, blob)
    return blob


def object_name(name: str) -> str:
    return f"{STATE}/{name}"


class ObjectWriter:
    """Writes the segments of one task as new objects."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._name, self._size = "", 0
        self._parts: list[bytes] = []
        self.sizes: dict[str, int] = {}

    def add(self, blob: bytes) -> Place:
        """Append a segment. It can be read once `close` has returned."""
        if self._size + len(blob) > OBJECT_BYTES:
            self.close()
        if not self._parts:
            self._name, self._size, self._parts = uuid.uuid4().hex, len(MAGIC), [MAGIC]
        place = Place(self._name, self._size, len(blob), xxh3_64_intdigest(blob))
        self._parts.append(blob)
        self._size += len(blob)
        _small_reads.put(place, blob)
        return place

    def close(self) -> None:
        """End the present object, durably; the next segment begins another."""
        if self._parts:
            self._storage.put(object_name(self._name), *self._parts)
            self.sizes[self._name] = self._size
            self._parts, self._size = [], 0


class BucketSegments:
    """The segments of one bucket during one step: reads what the step before left, and keeps what is put until `seal`.

    `state` is None for a bucket that has none yet."""

    def __init__(self, storage: Storage, state: BucketState | None) -> None:
        self._storage = storage
        self._places = {} if state is None else read_index(storage, state.index)
        self._new: dict[str, bytes] = {}
        self.changed = False

    def get(self, name: str) -> bytes | None:
        blob = self._new.get(name)
        if blob is None and name in self._places:
            blob = read_place(self._storage, self._places[name])
        return blob

    def put(self, name: str, blob: bytes) -> None:
        self._places.pop(name, None)
        self._new[name] = blob
        self.changed = True

    def delete(self, name: str) -> None:
        self._places.pop(name, None)
        self._new.pop(name, None)
        self.changed = True

    def scan(self, low: str, high: str) -> Iterator[tuple[str, bytes]]:
        for name in sorted(name for name in {*self._places, *self._new} if low <= name < high):
            blob = self.get(name)
            assert blob is not None
            yield name, blob

    def seal(self, writer: ObjectWriter, sparse: frozenset[str], rows: int, size: int) -> BucketState:
        """Hand everything that was put to a writer, and copy segments out of sparse objects. `rows` and `size`: of the
        tables that the segments hold."""
        self._copy_out_of(sparse)
        alone = sum(map(len, self._new.values())) >= OWN_OBJECT
        if alone:
            writer.close()
        for name, blob in self._new.items():
            self._places[name] = writer.add(blob)
        index = _encode_index(self._places)
        place = writer.add(index)
        if alone:
            writer.close()
        used = {place.object: place.length}
        for each in self._places.values():
            used[each.object] = used.get(each.object, 0) + each.length
        return BucketState(place, rows, size, tuple(Use(*item) for item in sorted(used.items())))

    def _copy_out_of(self, sparse: frozenset[str]) -> None:
        budget = COPIED_PER_STEP
        for name, place in [item for item in self._places.items() if item[1].object in sparse]:
            if place.length > budget:
                continue
            budget -= place.length
            self._new[name] = read_place(self._storage, place)
            del self._places[name]


def read_index(storage: Storage, index: Place, cached: bool = True) -> dict[str, Place]:
    """The place of every segment of a bucket, by name."""
    document = json.loads(read_place(storage, index, cached))
    return {name: Place(object, *place) for object, segments in document.items() for name, place in segments.items()}


def _encode_index(places: Mapping[str, Place]) -> bytes:
    document: dict[str, dict[str, list[int]]] = {}
    for name, place in places.items():
        document.setdefault(place.object, {})[name] = [place.start, place.length, place.checksum]
    return json.dumps(document, separators=(",", ":")).encode()


def check_bucket(storage: Storage, state: BucketState) -> None:
    """Read every segment of a bucket from the storage; FOLDER_DAMAGED if one is missing or damaged."""
    for place in read_index(storage, state.index, cached=False).values():
        read_place(storage, place, cached=False)


class StateObjects:
    """The driver's view of the objects: removes those that no step needs any more.

    Spark may run the newest step again, so the manifests of the last two steps are in force."""

    def __init__(self, storage: Storage, newest: Manifest, previous: Manifest | None = None) -> None:
        self._storage, self._newest, self._previous = storage, newest, previous or newest

    @property
    def newest(self) -> Manifest:
        return self._newest

    def advance(self, manifest: Manifest) -> None:
        """Make a manifest, whose step is in the log, the newest; what only older steps used is removed."""
        old, self._previous, self._newest = self._previous, self._newest, manifest
        for name in old.sizes.keys() - self._previous.sizes.keys() - manifest.sizes.keys():
            self._storage.delete(object_name(name))
