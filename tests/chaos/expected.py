"""What views must contain when all that was written has been read: plain Python over the rows of the load."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import pairwise

from tests.chaos.definitions import APART_MS, EXTRAS, GAP_MS, HOP_MS, LATE_FOR, SLIDE_MS, WINDOW_MS
from tests.chaos.load import Trade, Written

Rows = Counter[tuple[object, ...]]
Order = tuple[int, str, str, int]


def windows(written: Written) -> Rows:
    amounts = defaultdict[tuple[int, str], list[int]](list)
    for trade in in_time(written):
        amounts[trade.ts - trade.ts % WINDOW_MS, trade.symbol].append(trade.amount)
    return Counter(
        (start, symbol, len(each), sum(each))
        for (start, symbol), each in amounts.items()
        if start + WINDOW_MS <= written.watermark
    )


def hops(written: Written) -> Rows:
    trades = defaultdict[int, list[Trade]](list)
    for trade in in_time(written):
        last = trade.ts - trade.ts % SLIDE_MS
        for start in range(last, last - HOP_MS, -SLIDE_MS):
            trades[start].append(trade)
    return Counter(
        (start, max(trade.amount for trade in each), len({trade.symbol for trade in each}))
        for start, each in trades.items()
    )


def visits(written: Written) -> Rows:
    return Counter(session for session in _sessions(written) if int(str(session[2])) <= written.watermark)


def _sessions(written: Written) -> Iterator[tuple[object, ...]]:
    times = defaultdict[str, list[int]](list)
    for trade in in_time(written):
        times[trade.symbol].append(trade.ts)
    for symbol, each in times.items():
        each.sort()
        begins = [0, *(n for n in range(1, len(each)) if each[n] - each[n - 1] >= GAP_MS), len(each)]
        for first, behind in pairwise(begins):
            yield symbol, each[first], each[behind - 1] + GAP_MS, behind - first


def pairs(written: Written) -> Rows:
    quotes = defaultdict[str, list[tuple[int, int]]](list)
    for quote in written.quotes:
        quotes[quote.symbol].append((quote.ts, quote.id))
    found: Rows = Counter()
    for trade in in_time(written):
        partners = [id for ts, id in quotes[trade.symbol] if abs(ts - trade.ts) <= APART_MS]
        found.update((trade.id, id) for id in partners or [None])
    return found


def regions(orders: list[Order]) -> Rows:
    return Counter((region, len(each), sum(each)) for region, each in _amounts(orders).items())


def sectors(orders: list[Order], written: Written) -> Rows:
    amounts = defaultdict[str, list[int]](list)
    for _, symbol, _, amount in orders:
        amounts[written.sectors[symbol]].append(amount)
    return Counter((sector, len(each), max(each)) for sector, each in amounts.items())


def extra(number: int, orders: list[Order], written: Written) -> Rows:
    """The rows of one of EXTRAS."""
    if "windows" in EXTRAS[number].sql:
        counts: Counter[str] = Counter()
        for (_, symbol, n, _), copies in windows(written).items():
            counts[str(symbol)] += int(str(n)) * copies
        return Counter((symbol, n) for symbol, n in counts.items())
    if "MAX" in EXTRAS[number].sql:
        return Counter((region, len(each), max(each)) for region, each in _amounts(orders).items())
    return regions(orders)


def late_rows(written: Written) -> Counter[tuple[str, int]]:
    """View and id of every row that system.late_rows must have."""
    return Counter((view, trade.id) for trade in written.trades if trade.late for view in LATE_FOR)


def wrong_lookups(found: Rows, written: Written) -> list[str]:
    """What is wrong with the rows of `enriched`: each trade once, with a version at least as new as the trade."""
    wrong = [f"{copies} x {row}" for row, copies in found.items() if copies > 1]
    by_id = {row[0]: row for row in found}
    wrong += [f"no row of trade {trade.id}" for trade in written.trades if trade.id not in by_id]
    for trade in written.trades:
        if (row := by_id.pop(trade.id, None)) is None:
            continue
        newest = written.versions.get(trade.symbol, 0)
        version = 0 if row[2] is None else int(str(row[2]))
        if row[1] != trade.symbol or not trade.least <= version <= newest:
            wrong.append(f"{row}, not version {trade.least} to {newest} of {trade.symbol}")
    return wrong + [f"a row that was never written: {row}" for row in by_id.values()]


def in_time(written: Written) -> Iterator[Trade]:
    return (trade for trade in written.trades if not trade.late)


def _amounts(orders: list[Order]) -> dict[str, list[int]]:
    amounts = defaultdict[str, list[int]](list)
    for _, _, region, amount in orders:
        amounts[region].append(amount)
    return amounts
