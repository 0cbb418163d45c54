"""Which bucket labels an op uses: chosen so that its buckets fall into different shuffle partitions.

Spark places a group by the Murmur3 hash of its key (op, bucket), so consecutive labels may well share a partition and
leave a core idle. The hash below is Spark's; were it ever another, only the balance would suffer.
"""

from __future__ import annotations

from functools import lru_cache

MASK = 0xFFFFFFFF


def _rotate(value: int, bits: int) -> int:
    return ((value << bits) | (value >> (32 - bits))) & MASK


def _mix(seed: int, word: int) -> int:
    mixed = _rotate((word & MASK) * 0xCC9E2D51 & MASK, 15) * 0x1B873593 & MASK
    return (_rotate(seed ^ mixed, 13) * 5 + 0xE6546B64) & MASK


def _finish(value: int, length: int) -> int:
    value ^= length
    value = (value ^ (value >> 16)) * 0x85EBCA6B & MASK
    value = (value ^ (value >> 13)) * 0xC2B2AE35 & MASK
    return value ^ (value >> 16)


def hash_text(text: str, seed: int) -> int:
    """Spark's Murmur3 of a string: whole words little-endian, the rest byte by byte, each sign-extended."""
    data = text.encode()
    aligned = len(data) - len(data) % 4
    value = seed
    for start in range(0, aligned, 4):
        value = _mix(value, int.from_bytes(data[start : start + 4], "little"))
    for byte in data[aligned:]:
        value = _mix(value, byte - 256 if byte > 127 else byte)
    return _finish(value, len(data))


def hash_int(number: int, seed: int) -> int:
    return _finish(_mix(seed, number), 4)


def partition(op: str, bucket: int, partitions: int) -> int:
    """The shuffle partition to which Spark assigns the group (op, bucket)."""
    value = hash_int(bucket, hash_text(op, 42))
    signed = value - (1 << 32) if value >> 31 else value
    return signed % partitions


@lru_cache(maxsize=4096)
def labels(op: str, partitions: int) -> tuple[int, ...]:
    """One bucket label per shuffle partition."""
    by_partition: dict[int, int] = {}
    label = 0
    while len(by_partition) < partitions:
        by_partition.setdefault(partition(op, label, partitions), label)
        label += 1
    return tuple(by_partition[number] for number in range(partitions))
