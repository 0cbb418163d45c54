"""Spark's `xxhash64` of columns, for rows that never pass through the JVM: the same number for the same values."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import polars as pl
import xxhash

Words = npt.NDArray[np.uint64]

SEED = 42
P1, P2, P3, P4, P5 = (
    np.uint64(prime)
    for prime in (
        0x9E3779B185EBCA87,
        0xC2B2AE3D27D4EB4F,
        0x165667B19E3779F9,
        0x85EBCA77C2B2AE63,
        0x27D4EB2F165667C5,
    )
)
AS_INT = ("boolean", "tinyint", "smallint", "int", "date")
AS_LONG = ("bigint", "timestamp", "timestamp_ntz", "double")
SUPPORTED = frozenset({*AS_INT, *AS_LONG, "string"})


def hashes(frame: pl.DataFrame, columns: Sequence[tuple[str, str]]) -> pl.Series:
    """The hash of (column, Spark type) pairs, each column taking the hash of those before as its seed; NULL leaves it
    as it is."""
    if not columns:
        return pl.zeros(frame.height, dtype=pl.Int64, eager=True)
    result: Words = np.full(frame.height, SEED, dtype=np.uint64)
    for name, type in columns:
        column = frame[name]
        if column.null_count() == frame.height:
            continue
        new = _strings(column, result) if type == "string" else _numbers(column, type, result)
        result = np.where(column.is_null().to_numpy(), result, new) if column.null_count() else new
    return pl.Series(result.view(np.int64))


def _numbers(column: pl.Series, type: str, seed: Words) -> Words:
    if type == "double":
        values = column.fill_null(0.0).to_numpy() + 0.0
        bits = np.where(np.isnan(values), np.nan, values).view(np.uint64)
        return _long(bits, seed)
    stored = column.to_physical().cast(pl.Int64).fill_null(0).to_numpy()
    return _int(stored, seed) if type in AS_INT else _long(stored.view(np.uint64), seed)


def _long(values: Words, seed: Words) -> Words:
    value = seed + P5 + np.uint64(8)
    value = value ^ (_rotated(values * P2, 31) * P1)
    return _finished(_rotated(value, 27) * P1 + P4)


def _int(values: npt.NDArray[np.int64], seed: Words) -> Words:
    value = seed + P5 + np.uint64(4)
    value = value ^ ((values.view(np.uint64) & np.uint64(0xFFFFFFFF)) * P1)
    return _finished(_rotated(value, 23) * P2 + P3)


def _rotated(values: Words, bits: int) -> Words:
    return (values << np.uint64(bits)) | (values >> np.uint64(64 - bits))


def _finished(value: Words) -> Words:
    value = (value ^ (value >> np.uint64(33))) * P2
    value = (value ^ (value >> np.uint64(29))) * P3
    return value ^ (value >> np.uint64(32))


def _strings(column: pl.Series, seed: Words) -> Words:
    """Hash each distinct pair of text and seed once."""
    pairs = pl.DataFrame({"text": column.fill_null(""), "seed": seed})
    different = pairs.unique()
    digests = [
        xxhash.xxh64_intdigest(text.encode(), start)
        for text, start in zip(different["text"].to_list(), different["seed"].to_list(), strict=True)
    ]
    by_pair = different.with_columns(pl.Series("hash", digests, dtype=pl.UInt64))
    result: Words = pairs.join(by_pair, on=["text", "seed"], how="left", maintain_order="left")["hash"].to_numpy()
    return result
