"""State: the commit protocol against a naive model, damaged objects, manifests, and the space that garbage takes."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from unittest.mock import patch

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from tests.storage.folders import SCHEMA, make_folder, rows
from tests.storage.test_damage import DAMAGES, damaged_file, empty, remove, truncate_by_one_byte
from tests.tiers import examples
from tidegate.errors import Error
from tidegate.storage import container, integrity, state
from tidegate.storage.folder import Folder
from tidegate.storage.integrity import FolderCheck, remove_leftovers
from tidegate.storage.objects import LocalStorage
from tidegate.storage.state import (
    Address,
    BucketSegments,
    BucketState,
    Manifest,
    ObjectWriter,
    Place,
    StateObjects,
    Use,
    check_bucket,
    object_name,
    read_index,
    read_place,
)
from tidegate.storage.step_header import StepHeader
from tidegate.storage.step_log import NO_STATE, STATE_PART, StepLog, StepRecord, read_state

Content = dict[Address, dict[str, bytes]]
"""The segments of every bucket, by name: the naive model of the state after a step."""
Action = tuple[str, str, bytes]
Work = dict[Address, list[Action]]
TINY = {
    "GARBAGE": 100,
    "OWN_OBJECT": 300,
    "OBJECT_BYTES": 500,
    "COPIED_PER_STEP": 200,
    "SMALL": 100,
    "SMALL_CACHE": 600,
}
OPS = ("a", "b")
PARTITIONS = 2
END = "\U0010ffff"


@contextmanager
def cold_reads() -> Iterator[None]:
    """Reads come from the disk, as in a new process."""
    with patch.object(state, "_small_reads", state._SmallReads()):
        yield


@contextmanager
def no_sync() -> Iterator[None]:
    """Nothing waits for the disk: processes die here, the machine does not."""
    with patch("os.fsync", lambda descriptor: None):
        yield


@pytest.fixture
def cold() -> Iterator[None]:
    with cold_reads():
        yield


@pytest.fixture
def tiny() -> Iterator[None]:
    with patch.multiple(state, **TINY), cold_reads(), no_sync():
        yield


@pytest.fixture
def storage(tmp_path: Path) -> Iterator[LocalStorage]:
    with Folder(tmp_path / "db") as folder:
        folder.open()
        yield folder.storage


def content_of(storage: LocalStorage, manifest: Manifest) -> Content:
    return {
        address: {name: read_place(storage, place) for name, place in read_index(storage, bucket.index).items()}
        for address, bucket in manifest.buckets.items()
    }


def objects_of(storage: LocalStorage) -> set[str]:
    return set(storage.list("state"))


def check_uses(storage: LocalStorage, manifest: Manifest) -> None:
    """The manifest counts every byte of every object once."""
    used: dict[str, list[Place]] = {}
    for bucket in manifest.buckets.values():
        places = [bucket.index, *read_index(storage, bucket.index).values()]
        sums: dict[str, int] = {}
        for place in places:
            used.setdefault(place.object, []).append(place)
            sums[place.object] = sums.get(place.object, 0) + place.length
        assert dict(bucket.uses) == sums
    assert dict(manifest.sizes) == {name: storage.size(object_name(name)) for name in used}
    for name, places in used.items():
        ends = [len(state.MAGIC)]
        for place in sorted(places, key=lambda place: (place.start, place.length)):
            assert place.start >= ends[-1], "two segments overlap"
            ends.append(place.start + place.length)
        assert ends[-1] <= manifest.sizes[name]
    assert manifest.sparse <= used.keys()


@dataclass
class Result:
    """What a task reports, and what the model says that it should be."""

    buckets: dict[Address, BucketState] = field(default_factory=dict)
    content: Content = field(default_factory=dict)
    sizes: dict[str, int] = field(default_factory=dict)


def attempt(storage: LocalStorage, before: Manifest, known: Content, work: Work, result: Result) -> Iterator[None]:
    """One attempt of a task; it may be abandoned, or continued later, at every point where it yields."""
    writer = ObjectWriter(storage)
    for address, actions in sorted(work.items()):
        segments, content = BucketSegments(storage, before.buckets.get(address)), dict(known.get(address, {}))
        yield
        for action in actions:
            act(action, segments, content)
        assert dict(segments.scan("", END)) == content
        if segments.changed:
            sealed = segments.seal(writer, before.sparse, len(content), sum(map(len, content.values())))
            result.buckets[address] = BucketState.from_json(json.loads(json.dumps(sealed.to_json())))
            result.content[address] = content
            yield
        else:
            assert content == known.get(address, {})
    writer.close()
    result.sizes = writer.sizes


def act(action: Action, segments: BucketSegments, content: dict[str, bytes]) -> None:
    kind, name, blob = action
    if kind == "put":
        segments.put(name, blob)
        content[name] = blob
    elif kind == "delete":
        segments.delete(name)
        content.pop(name, None)
    elif kind == "get":
        assert segments.get(name) == content.get(name)
    else:
        expected = [(each, content[each]) for each in sorted(content) if "n2" <= each < name]
        assert list(segments.scan("n2", name)) == expected


def run(storage: LocalStorage, before: Manifest, known: Content, work: Work) -> tuple[Manifest, Content]:
    """A step of one task that succeeds."""
    result = Result()
    for _ in attempt(storage, before, known, work, result):
        pass
    return before.after(result.buckets, result.sizes), {**known, **result.content}


names = st.sampled_from(["n1", "n2", "n3", "n4", 'ü"\\\n'])
blobs = st.binary(max_size=4) | st.builds(lambda n, size: bytes([n]) * size, st.integers(1, 255), st.integers(1, 350))
actions = st.tuples(st.sampled_from(["put", "put", "put", "delete", "get", "scan"]), names, blobs)
addresses = st.tuples(st.sampled_from(OPS), st.integers(0, 2))
works = st.dictionaries(addresses, st.lists(actions, max_size=6), max_size=4)
partitions = st.integers(0, PARTITIONS - 1)
points = st.integers(0, 9)


class CommitProtocol(RuleBasedStateMachine):
    """Tasks, drivers and circuits come and go; the state after the last two steps is always that of the model."""

    def __init__(self) -> None:
        super().__init__()
        self.resources = ExitStack()
        self.resources.enter_context(patch.multiple(state, **TINY))
        self.resources.enter_context(cold_reads())
        self.resources.enter_context(no_sync())
        root = Path(self.resources.enter_context(TemporaryDirectory())) / "db"
        self.folder = self.resources.enter_context(Folder(root))
        self.folder.open()
        self.storage, self.log = self.folder.storage, StepLog(self.folder.storage)
        self.committed, self.base, self.ops = 0, 0, frozenset(OPS)
        self.carried: frozenset[str] = frozenset()
        self.models: dict[int, Content] = {0: {}}
        self.late: list[tuple[int, Iterator[None]]] = []
        self.launch()

    def teardown(self) -> None:
        self.resources.close()

    def before(self) -> Manifest:
        """What the tasks of the step under way read."""
        manifest = read_state(self.storage, self.committed)
        return manifest.only(self.carried) if self.committed == self.base else manifest

    def known(self) -> Content:
        kept = self.carried if self.committed == self.base else self.ops
        return {address: each for address, each in self.models[self.committed].items() if address[0] in kept}

    def launch(self) -> None:
        """The driver begins the step under way; it knows only what the step before left."""
        self.reported: dict[int, Result] = {}
        self.logged = False
        self.objects = StateObjects(self.storage, self.before())
        self.litter = objects_of(self.storage) - self.objects.newest.sizes.keys()

    def start(self, partition: int, work: Work) -> tuple[Result, Iterator[None]]:
        mine = {address: each for address, each in work.items() if address[1] % PARTITIONS == partition}
        mine = {address: each for address, each in mine.items() if address[0] in self.ops}
        result = Result()
        return result, attempt(self.storage, self.before(), self.known(), mine, result)

    def report(self, partition: int, work: Work) -> None:
        result, running = self.start(partition, work)
        for _ in running:
            pass
        if partition in self.reported:
            self.litter |= self.reported[partition].sizes.keys()
        self.reported[partition] = result

    @contextmanager
    def littering(self) -> Iterator[None]:
        """What is written here belongs to no step."""
        present = objects_of(self.storage)
        yield
        self.litter |= objects_of(self.storage) - present

    @precondition(lambda self: not self.logged)
    @rule(partition=partitions, work=works)
    def a_task_succeeds(self, partition: int, work: Work) -> None:
        """It may be the second attempt, and takes the place of the first."""
        self.report(partition, work)

    @precondition(lambda self: not self.logged)
    @rule(partition=partitions, work=works, point=points)
    def a_task_fails(self, partition: int, work: Work, point: int) -> None:
        """Before, in or after writing; after it: the objects are there, and nobody hears of them."""
        with self.littering():
            list(islice(self.start(partition, work)[1], point))

    @precondition(lambda self: not self.logged and len(self.late) < 4)
    @rule(partition=partitions, work=works, point=points)
    def a_task_stalls(self, partition: int, work: Work, point: int) -> None:
        with self.littering():
            running = self.start(partition, work)[1]
            list(islice(running, point))
            self.late.append((self.committed, running))

    @precondition(lambda self: self.late)
    @rule(which=st.integers(0, 3), point=points)
    def a_stalled_task_continues(self, which: int, point: int) -> None:
        """It may be of a step that is long committed, and then fail, as the state that it reads is gone."""
        base, running = self.late.pop(which % len(self.late))
        with self.littering():
            try:
                if len(list(islice(running, point))) == point:
                    self.late.append((base, running))
            except Error as problem:
                assert (problem.code, self.log.last() > base + 1) == ("FOLDER_DAMAGED", True)

    @precondition(lambda self: not self.logged)
    @rule(dies=st.sampled_from([False, False, True]))
    def the_driver_logs_the_step(self, dies: bool) -> None:
        self.log_step(advance=not dies)
        if dies:
            self.the_driver_dies()

    def log_step(self, advance: bool) -> None:
        results = self.reported.values()
        buckets = {address: each for result in results for address, each in result.buckets.items()}
        sizes = {name: size for result in results for name, size in result.sizes.items()}
        content = {address: each for result in results for address, each in result.content.items()}
        step, manifest = self.committed + 1, self.objects.newest.after(buckets, sizes)
        self.models[step] = {**self.known(), **content}
        self.log.write(StepRecord(StepHeader.empty(step), {"v": rows(step, 1)}, manifest))
        assert self.log.state(step) == manifest
        if advance:
            self.objects.advance(manifest)
        self.reported, self.logged = {}, True

    @precondition(lambda self: self.logged)
    @rule()
    def spark_commits(self) -> None:
        self.committed, self.logged = self.committed + 1, False

    @rule(works=st.lists(works, min_size=1, max_size=3))
    def whole_steps(self, works: list[Work]) -> None:
        """Steps without anything unusual."""
        for work in works:
            if not self.logged:
                for partition in range(PARTITIONS):
                    self.report(partition, work)
                self.log_step(advance=True)
            self.spark_commits()

    @rule()
    def the_driver_dies(self) -> None:
        """Its successor removes leftovers; tasks that stalled live on."""
        self.log = StepLog(self.storage)
        self.log.refresh()
        self.log.check(self.committed)
        remove_leftovers(self.folder, self.log)
        assert {object_name(name) for name in objects_of(self.storage)} == self.log.state_objects()
        with cold_reads():
            assert FolderCheck(self.folder.root).run().findings == []
        self.launch()

    @rule()
    def the_query_begins_again(self) -> None:
        """In the same process: nothing is removed."""
        self.launch()

    @precondition(lambda self: self.log.last() == self.committed)
    @rule(ops=st.sets(st.sampled_from(OPS)))
    def the_circuit_changes(self, ops: set[str]) -> None:
        """Where no step is logged but not committed. Ops that both circuits have keep their state."""
        kept = self.carried if self.committed == self.base else self.ops
        self.base, self.carried, self.ops = self.committed, kept & ops, frozenset(ops)
        self.launch()

    @rule(keep=st.integers(0, 1))
    def the_log_is_compacted(self, keep: int) -> None:
        self.log.compact({"v": SCHEMA}, keep, needed=None)

    @invariant()
    def the_last_two_steps_have_their_state(self) -> None:
        steps = self.log.steps_with_state()
        assert steps == list(range(max(1, self.log.last() - 1), self.log.last() + 1))
        assert self.committed in (0, *steps)
        with cold_reads():
            for step in steps:
                assert content_of(self.storage, self.log.state(step)) == self.models[step]
                check_uses(self.storage, self.log.state(step))
                sizes = {
                    address: (len(each), sum(map(len, each.values()))) for address, each in self.models[step].items()
                }
                buckets = self.log.state(step).buckets.items()
                assert {address: (bucket.rows, bucket.bytes) for address, bucket in buckets} == sizes

    @invariant()
    def a_task_reads_what_the_step_before_left(self) -> None:
        with cold_reads():
            assert content_of(self.storage, self.before()) == self.known()

    @invariant()
    def nothing_is_left_but_what_failures_left(self) -> None:
        pending = {name for result in self.reported.values() for name in result.sizes}
        needed = {name.removeprefix("state/") for name in self.log.state_objects()}
        assert objects_of(self.storage) <= needed | pending | self.litter


TestCommitProtocol = CommitProtocol.TestCase
TestCommitProtocol.settings = settings(examples(150), stateful_step_count=30)


def bucket_of(storage: LocalStorage, segments: dict[str, bytes]) -> BucketState:
    manifest, _ = run(storage, NO_STATE, {}, {("a", 0): [("put", *each) for each in segments.items()]})
    return manifest.buckets["a", 0]


def log_state(log: StepLog, step: int, manifest: Manifest) -> None:
    log.write(StepRecord(StepHeader.empty(step), {"v": rows(step, 2)}, manifest))


# Segments


def test_segments_are_read_before_and_after_they_are_sealed(storage: LocalStorage, cold: None) -> None:
    stored = bucket_of(storage, {"x": b"1", "y": b"22", "z": b"333"})
    segments = BucketSegments(storage, stored)
    assert (segments.get("y"), segments.get("none"), segments.changed) == (b"22", None, False)
    segments.put("y", b"new")
    segments.delete("z")
    assert (segments.get("y"), segments.get("z"), segments.changed) == (b"new", None, True)
    assert list(segments.scan("x", "y")) == [("x", b"1")]
    assert list(segments.scan("", END)) == [("x", b"1"), ("y", b"new")]
    writer = ObjectWriter(storage)
    sealed = segments.seal(writer, frozenset(), rows=5, size=7)
    writer.close()
    assert (sealed.rows, sealed.bytes) == (5, 7)
    with cold_reads():
        assert dict(BucketSegments(storage, sealed).scan("", END)) == {"x": b"1", "y": b"new"}
        assert dict(BucketSegments(storage, stored).scan("", END)) == {"x": b"1", "y": b"22", "z": b"333"}


def test_an_empty_segment_does_not_hide_the_one_after_it(storage: LocalStorage) -> None:
    stored = bucket_of(storage, {"empty": b"", "full": b"content"})
    assert dict(BucketSegments(storage, stored).scan("", END)) == {"empty": b"", "full": b"content"}


def test_an_object_ends_when_it_is_large(storage: LocalStorage, tiny: None) -> None:
    writer = ObjectWriter(storage)
    places = [writer.add(bytes([size % 256]) * size) for size in (200, 200, 200, 50, 600, 10)]
    assert [name for name in objects_of(storage) if name == places[-1].object] == [], "the last one is still open"
    writer.close()
    assert [len({place.object for place in places[:count]}) for count in range(1, 7)] == [1, 1, 2, 2, 3, 4]
    assert writer.sizes == {name: storage.size(object_name(name)) for name in objects_of(storage)}
    with cold_reads():
        assert [read_place(storage, place)[0] for place in places] == [200, 200, 200, 50, 600 % 256, 10]


def test_a_bucket_that_writes_much_has_objects_of_its_own(storage: LocalStorage, tiny: None) -> None:
    sizes = {("a", 0): 20, ("a", 1): 350, ("a", 2): 20, ("b", 0): 20}
    manifest, _ = run(storage, NO_STATE, {}, {each: [("put", "n", bytes(size))] for each, size in sizes.items()})
    used = {address: {use.object for use in bucket.uses} for address, bucket in manifest.buckets.items()}
    assert used["a", 2] == used["b", 0]
    assert len(used["a", 0] | used["a", 1] | used["a", 2]) == 3


def test_a_task_that_writes_nothing_makes_no_object(storage: LocalStorage) -> None:
    writer = ObjectWriter(storage)
    writer.close()
    assert (writer.sizes, objects_of(storage)) == ({}, set())


# Garbage


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("largest", [30, TINY["COPIED_PER_STEP"]])
def test_objects_take_a_bounded_multiple_of_what_they_hold(
    storage: LocalStorage, tiny: None, largest: int, seed: int
) -> None:
    random, manifest, content, steps = Random(seed), NO_STATE, Content(), StateObjects(storage, NO_STATE)
    for number in range(100):
        work: Work = {
            (op, bucket): [
                (
                    "put" if random.random() < 0.9 else "delete",
                    f"n{random.randrange(12)}",
                    bytes(random.randint(1, largest)),
                )
                for _ in range(random.randint(1, 3))
            ]
            for op in OPS
            for bucket in range(3)
        }
        manifest, content = run(storage, manifest, content, work)
        steps.advance(manifest)
        live = sum(use.bytes for bucket in manifest.buckets.values() for use in bucket.uses)
        assert sum(manifest.sizes.values()) <= 3 * live + 2 * TINY["GARBAGE"], number
    with cold_reads():
        assert content_of(storage, manifest) == content


def test_without_much_garbage_nothing_is_copied(storage: LocalStorage, cold: None) -> None:
    manifest, content = run(storage, NO_STATE, {}, {("a", 0): [("put", "n1", b"kept"), ("put", "n2", b"old")]})
    place = read_index(storage, manifest.buckets["a", 0].index)["n1"]
    for number in range(5):
        manifest, content = run(storage, manifest, content, {("a", 0): [("put", "n2", bytes([number]))]})
        assert (read_index(storage, manifest.buckets["a", 0].index)["n1"], manifest.sparse) == (place, frozenset())


def test_a_bucket_copies_no_more_than_its_share_in_a_step(storage: LocalStorage, tiny: None) -> None:
    stored = bucket_of(storage, {f"n{number}": bytes([number]) * 90 for number in range(8)})
    old = {use.object for use in stored.uses}
    left = []
    while old & {use.object for use in stored.uses}:
        writer, segments = ObjectWriter(storage), BucketSegments(storage, stored)
        segments.put("n9", b"new")
        stored = segments.seal(writer, frozenset(old), 0, 0)
        writer.close()
        left.append(sum(place.object in old for place in read_index(storage, stored.index).values()))
    assert left == [6, 4, 2, 0]


def test_a_segment_that_is_too_large_to_copy_holds_up_no_other(storage: LocalStorage, tiny: None) -> None:
    large = bytes(TINY["COPIED_PER_STEP"] + 1)
    work: Work = {("a", 0): [("put", "n1", large), ("put", "n2", b"small"), ("put", "n3", b"small")]}
    manifest, _ = run(storage, NO_STATE, {}, work)
    stored = manifest.buckets["a", 0]
    old = frozenset(use.object for use in stored.uses)
    for _ in range(3):
        writer, segments = ObjectWriter(storage), BucketSegments(storage, stored)
        segments.put("n4", b"new")
        stored = segments.seal(writer, old, 0, 0)
        writer.close()
    places = read_index(storage, stored.index)
    assert [name for name, place in places.items() if place.object in old and name != "n1"] == []


def test_what_only_older_steps_used_is_removed(storage: LocalStorage, cold: None) -> None:
    manifests, content, steps = [NO_STATE], Content(), StateObjects(storage, NO_STATE)
    for number in range(5):
        manifest, content = run(storage, manifests[-1], content, {("a", 0): [("put", "n1", bytes([number]))]})
        manifests.append(manifest)
        steps.advance(manifest)
        assert steps.newest == manifest
        assert objects_of(storage) == manifests[-1].sizes.keys() | manifests[-2].sizes.keys()


def test_the_state_of_a_dropped_op_is_removed_after_two_steps(storage: LocalStorage, cold: None) -> None:
    manifest, content = run(storage, NO_STATE, {}, {("a", 0): [("put", "n1", b"a")]})
    manifest, content = run(storage, manifest, content, {("b", 0): [("put", "n1", b"b")]})
    dropped = {use.object for use in manifest.buckets["a", 0].uses}
    steps = StateObjects(storage, manifest.only(["b"]))
    for expected in (True, False):
        steps.advance(steps.newest.after({}, {}))
        assert (dropped <= objects_of(storage)) == expected
    assert content_of(storage, steps.newest) == {("b", 0): {"n1": b"b"}}


# Manifests and the step log


objects = st.text("0123456789abcdef", min_size=1, max_size=4)
longs = st.integers(0, 2**62)
places = st.builds(Place, objects, longs, longs, st.integers(0, 2**64 - 1))
uses = st.dictionaries(objects, longs, max_size=4).map(lambda each: tuple(Use(*item) for item in each.items()))
buckets = st.builds(BucketState, places, longs, longs, uses)


@st.composite
def manifests(draw: st.DrawFn) -> Manifest:
    drawn = draw(st.dictionaries(st.tuples(st.text(max_size=5), st.integers(0, 2**31 - 1)), buckets, max_size=5))
    used = sorted({use.object for bucket in drawn.values() for use in bucket.uses})
    sparse = draw(st.sets(st.sampled_from(used))) if used else set()
    return Manifest(drawn, {name: draw(longs) + len(state.MAGIC) for name in used}, frozenset(sparse))


@examples(200)
@given(manifests())
def test_a_manifest_is_the_same_after_a_table(manifest: Manifest) -> None:
    assert Manifest.from_table(manifest.to_table()) == manifest
    assert Manifest.from_table(container.decode(container.encode(manifest.to_table()))) == manifest


@examples(200)
@given(buckets)
def test_a_bucket_is_the_same_after_json(bucket: BucketState) -> None:
    assert BucketState.from_json(json.loads(json.dumps(bucket.to_json()))) == bucket


@examples(100)
@given(manifests(), manifests())
def test_the_next_manifest_knows_the_sizes_of_what_it_uses(before: Manifest, written: Manifest) -> None:
    before = before.only([op for op, _ in list(before.buckets)[1:]])
    after = before.after(written.buckets, written.sizes)
    assert dict(after.buckets) == {**before.buckets, **written.buckets}
    used = {use.object for bucket in after.buckets.values() for use in bucket.uses}
    assert dict(after.sizes) == {name: {**before.sizes, **written.sizes}[name] for name in used}


def test_a_step_without_state_has_an_empty_manifest(storage: LocalStorage) -> None:
    log = StepLog(storage)
    log_state(log, 1, NO_STATE)
    assert (log.state(0), log.state(1), log.state_objects()) == (NO_STATE, NO_STATE, set())
    assert [part.name for part in container.read(storage, "steps/000000000001")[1]] == ["v"]


def test_state_is_no_change_of_a_relation(storage: LocalStorage) -> None:
    log, manifest = StepLog(storage), run(storage, NO_STATE, {}, {("a", 0): [("put", "n1", b"x")]})[0]
    log_state(log, 1, manifest)
    again = StepLog(storage)
    again.refresh()
    for each in (log, again):
        assert [change.relation for change in each.header(1).changes] == ["v"]
        assert [(step, table.to_pylist()) for step, table in each.changes("v", 0, 1)] == [(1, rows(1, 2).to_pylist())]
        assert each.state(1) == manifest


def test_the_state_that_was_added_last_is_that_of_the_step(storage: LocalStorage) -> None:
    log = StepLog(storage)
    log_state(log, 1, NO_STATE)
    header, parts = container.read(storage, "steps/000000000001")
    for blob in (b"of a process that died", b"again"):
        manifest, _ = run(storage, NO_STATE, {}, {("a", 0): [("put", "n1", blob)]})
        log.add_state(1, manifest)
    assert (log.state(1), log.header(1).step) == (manifest, 1)
    after, [first, *_, last] = container.read(storage, "steps/000000000001")
    assert (after, first.name, [last]) == (header, STATE_PART, parts)
    assert log.state_objects() == {object_name(name) for name in manifest.sizes}


def test_a_step_that_runs_again_replaces_its_state(storage: LocalStorage) -> None:
    log = StepLog(storage)
    for blob in (b"first", b"second"):
        manifest, _ = run(storage, NO_STATE, {}, {("a", 0): [("put", "n1", blob)]})
        log_state(log, 1, manifest)
    with cold_reads():
        assert (log.state(1), content_of(storage, log.state(1))) == (manifest, {("a", 0): {"n1": b"second"}})


@pytest.mark.parametrize("keep", [0, 1, 2, 3])
def test_compaction_keeps_the_last_two_steps(storage: LocalStorage, keep: int, cold: None) -> None:
    log, states, content = StepLog(storage), [NO_STATE], Content()
    for step in range(1, 6):
        manifest, content = run(storage, states[-1], content, {("a", 0): [("put", f"n{step}", bytes([step]))]})
        states.append(manifest)
        log_state(log, step, manifest)
    log.compact({"v": SCHEMA}, keep, needed=None)
    again = StepLog(storage)
    again.refresh()
    for each in (log, again):
        assert [header.step for header in each.headers()] == list(range(6 - max(keep, 2), 6))
        assert each.steps_with_state() == [4, 5]
        assert (each.state(4), each.state(5)) == (states[4], states[5])
        assert each.count("v") == 10
        each.check()


# Containers


tables = st.lists(st.integers(-5, 5), max_size=5).map(lambda numbers: pa.table({"n": pa.array(numbers, pa.int64())}))
parts = st.dictionaries(st.text(min_size=1, max_size=9), tables, max_size=6)


@examples(80)
@given(parts, st.integers(0, 3 * container.FIRST_READ))
def test_a_part_is_the_same_alone_as_in_the_whole(parts: dict[str, pa.Table], length: int) -> None:
    header = "h" * length
    with TemporaryDirectory() as root:
        storage = LocalStorage(Path(root))
        storage.put(
            "x", *container.encode_all(header, [container.Part(*item) for item in parts.items()]), durable=False
        )
        for name, table in parts.items():
            [whole] = container.read(storage, "x", {name})[1]
            part = container.read_part(storage, "x", name)
            assert part is not None
            assert part.equals(whole.table) and part.equals(table)
        assert container.read_part(storage, "x", "".join(parts) + "?") is None


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
def test_a_damaged_part_is_named(tmp_path: Path, damage: Callable[[Path], None]) -> None:
    storage = LocalStorage(tmp_path)
    storage.put(
        "x", *container.encode_all({}, [container.Part("other", rows(0, 1)), container.Part("v", rows(0, 500))])
    )
    damaged_file(tmp_path, "x", "", damage)
    with pytest.raises(Error) as caught:
        container.read_part(storage, "x", "v")
    assert (caught.value.code, str(tmp_path / "x") in caught.value.message) == ("FOLDER_DAMAGED", True)


# Damage


@dataclass(frozen=True)
class Stored:
    """A folder whose last two steps have state. `old`: an object of both steps; `new`: one that the last step wrote."""

    root: Path
    storage: LocalStorage
    manifests: tuple[Manifest, Manifest]
    old: str
    new: str


@pytest.fixture
def stored(tmp_path: Path) -> Stored:
    """Made with a cache of reads that is then forgotten, as if another process had made it."""
    root = tmp_path / "db"
    with cold_reads():
        make_folder(root)
        storage = LocalStorage(root)
        log = StepLog(storage)
        log.refresh()
        work: Work = {("a", number): [("put", "n1", bytes([number]) * 400)] for number in range(3)}
        first, content = run(storage, NO_STATE, {}, work)
        log.add_state(5, first)
        second, _ = run(storage, first, content, {("a", 1): [("put", "n2", b"second" * 40)]})
        log.add_state(6, second)
    [old], [new] = first.sizes, second.sizes.keys() - first.sizes.keys()
    return Stored(root, storage, (first, second), object_name(old), object_name(new))


@pytest.mark.usefixtures("cold")
def test_a_folder_with_state_is_intact(stored: Stored) -> None:
    assert FolderCheck(stored.root).run().findings == []


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
@pytest.mark.parametrize("which", ["old", "new"])
@pytest.mark.usefixtures("cold")
def test_a_damaged_object_is_named(stored: Stored, which: str, damage: Callable[[Path], None]) -> None:
    path = damaged_file(stored.root, getattr(stored, which), "", damage)
    messages = []
    for bucket in [bucket for manifest in stored.manifests for bucket in manifest.buckets.values()]:
        try:
            check_bucket(stored.storage, bucket)
        except Error as problem:
            assert problem.code == "FOLDER_DAMAGED"
            messages.append(problem.message)
    assert messages and all(str(path) in message for message in messages)
    check = FolderCheck(stored.root).run()
    assert {finding.file for finding in check.findings} == {str(path)}
    assert not check.intact


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
def test_every_byte_of_a_segment_counts(storage: LocalStorage, damage: Callable[[Path], None]) -> None:
    writer = ObjectWriter(storage)
    place = writer.add(bytes(range(1, 200)))
    writer.close()
    path = damaged_file(Path(storage.location("")), object_name(place.object), "", damage)
    with cold_reads(), pytest.raises(Error) as caught:
        read_place(storage, place)
    assert (caught.value.code, str(path) in caught.value.message) == ("FOLDER_DAMAGED", True)
    reasons = {remove: "it is missing", empty: "it is cut off", truncate_by_one_byte: "it is cut off"}
    assert reasons.get(damage, "") in caught.value.message


@pytest.mark.usefixtures("cold")
def test_a_missing_object_is_noticed_when_the_folder_is_opened(stored: Stored) -> None:
    log = StepLog(stored.storage)
    log.refresh()
    log.check()
    for name in (stored.old, stored.new):
        kept = stored.storage.read(name)
        stored.storage.delete(name)
        with pytest.raises(Error, match="it is missing") as caught:
            log.check()
        assert stored.storage.location(name) in caught.value.message
        stored.storage.put(name, kept)


@pytest.mark.usefixtures("cold")
def test_an_object_that_only_the_step_before_uses_is_checked(stored: Stored) -> None:
    log = StepLog(stored.storage)
    log.refresh()
    log.add_state(6, Manifest().after({("b", 0): bucket_of(stored.storage, {"n": b"x"})}, sizes_of(stored.storage)))
    with cold_reads():
        path = damaged_file(stored.root, stored.old, "", empty)
        assert {finding.file for finding in FolderCheck(stored.root).run().findings if finding.damage} == {str(path)}


def sizes_of(storage: LocalStorage) -> dict[str, int]:
    return {name: storage.size(object_name(name)) or 0 for name in objects_of(storage)}


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
@pytest.mark.usefixtures("cold")
def test_a_check_of_the_folder_reads_the_disk(stored: Stored, damage: Callable[[Path], None]) -> None:
    """Not what this process has read before."""
    for manifest in stored.manifests:
        content_of(stored.storage, manifest)
    path = damaged_file(stored.root, stored.old, "", damage)
    assert str(path) in {finding.file for finding in FolderCheck(stored.root).run().findings if finding.damage}


@pytest.mark.usefixtures("cold")
def test_what_nothing_refers_to_is_a_leftover(stored: Stored) -> None:
    bucket_of(stored.storage, {"n": b"of a task whose result was lost"})
    path = stored.root / "state" / ".x.1.tmp"
    path.write_bytes(b"of a task that was killed")
    [orphan] = objects_of(stored.storage) - {stored.old.partition("/")[2], stored.new.partition("/")[2]}
    check = FolderCheck(stored.root).run()
    assert {finding.file for finding in check.findings} == {str(path), str(stored.root / "state" / orphan)}
    assert check.intact
    log = StepLog(stored.storage)
    log.refresh()
    with Folder(stored.root) as folder:
        remove_leftovers(folder, log)
    assert FolderCheck(stored.root).run().findings == []


@pytest.mark.usefixtures("cold")
def test_steps_that_are_logged_during_a_check_are_no_damage(stored: Stored, monkeypatch: pytest.MonkeyPatch) -> None:
    """The objects that the check was about to read are removed by the process that writes the folder."""
    log, check_now = StepLog(stored.storage), integrity.check_bucket
    log.refresh()
    objects, content = StateObjects(stored.storage, log.state(6)), content_of(stored.storage, log.state(6))

    def write_first(storage: LocalStorage, bucket: BucketState) -> None:
        if log.last() == 6:
            for step in (7, 8, 9):
                work: Work = {address: [("delete", "n1", b""), ("put", "n2", b"new")] for address in content}
                log_state(log, step, run(storage, objects.newest, content, work)[0])
                objects.advance(log.state(step))
        check_now(storage, bucket)

    monkeypatch.setattr(integrity, "check_bucket", write_first)
    check = FolderCheck(stored.root).run()
    assert (log.last(), check.findings) == (9, [])
    assert stored.storage.size(stored.old) is None


@pytest.mark.parametrize("other", ["ledger.json", "steps/000000000003", "steps/000000000005"])
@pytest.mark.usefixtures("cold")
def test_a_check_of_the_folder_finds_a_damaged_object_beside_another_damaged_file(stored: Stored, other: str) -> None:
    paths = [damaged_file(stored.root, name, "", empty) for name in (stored.new, other)]
    assert {str(path) for path in paths} <= {finding.file for finding in FolderCheck(stored.root).run().findings}


@pytest.mark.usefixtures("cold")
def test_objects_that_only_older_steps_used_are_not_missed_where_a_step_is_damaged(stored: Stored) -> None:
    log = StepLog(stored.storage)
    log.refresh()
    objects, content = StateObjects(stored.storage, log.state(6)), content_of(stored.storage, log.state(6))
    for step in (7, 8, 9):
        work: Work = {address: [("delete", "n1", b""), ("put", "n2", b"new")] for address in content}
        log_state(log, step, run(stored.storage, objects.newest, content, work)[0])
        objects.advance(log.state(step))
    with Folder(stored.root) as folder:
        remove_leftovers(folder, log)
    path = damaged_file(stored.root, "steps/000000000008", "", empty)
    assert {finding.file for finding in FolderCheck(stored.root).run().findings} == {str(path)}


@pytest.mark.usefixtures("cold")
def test_objects_of_failed_tasks_are_swept_while_the_pipeline_runs(stored: Stored) -> None:
    before = objects_of(stored.storage)
    bucket_of(stored.storage, {"n": b"of a task that ran twice"})
    log = StepLog(stored.storage)
    log.refresh()
    assert len(objects_of(stored.storage)) == len(before) + 1
    log.sweep_state()
    assert objects_of(stored.storage) == before
    assert FolderCheck(stored.root).run().findings == []
