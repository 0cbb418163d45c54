"""Names that a user may have meant."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import SequenceMatcher, get_close_matches


def nearest(name: str, known: Iterable[str], limit: int = 3) -> tuple[str, ...]:
    """The known names closest to `name`, best first, whatever their case: `pirce` -> ("price",). A name that is much
    farther away than the best is left out."""
    by_folded: dict[str, str] = {}
    for candidate in known:
        by_folded.setdefault(candidate.casefold(), candidate)
    matches = get_close_matches(name.casefold(), by_folded, n=limit, cutoff=0.6)
    closeness = [SequenceMatcher(None, name.casefold(), folded).ratio() for folded in matches]
    return tuple(by_folded[f] for f, c in zip(matches, closeness, strict=True) if c >= closeness[0] - 0.05)


def enumerated(words: Iterable[str], last: str = "or") -> str:
    """`a`, `a or b`, `a, b or c`."""
    items = list(words)
    if len(items) < 2:
        return "".join(items)
    return f"{', '.join(items[:-1])} {last} {items[-1]}"


def did_you_mean(name: str, known: Iterable[str], what: str = "names") -> str | None:
    """A hint: the nearest known names, else all of them when they are few, else nothing."""
    candidates = sorted(set(known))
    close = nearest(name, candidates)
    if close:
        return f"did you mean {enumerated(close)}?"
    if 0 < len(candidates) <= 20:
        return f"known {what}: {', '.join(candidates)}"
    return None
