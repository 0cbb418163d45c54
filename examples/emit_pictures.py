"""The six ways to EMIT, side by side: the same rows through six views, drawn as a timeline.

    python examples/emit_pictures.py

The clock is virtual, so the picture is the same on every machine. docs/emit.md shows it; a test compares the two.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import tidegate

NOON = datetime(2020, 1, 1, 12)
SOURCE = "CREATE SOURCE bids (price BIGINT, ts TIMESTAMP, WATERMARK FOR ts AS ts - INTERVAL '2' SECOND);"
LATENESS = "ALLOWED LATENESS INTERVAL '5' SECOND"
VIEWS = {
    "CHANGES": f"{LATENESS} EMIT CHANGES",
    "ON UPDATE": f"{LATENESS} EMIT ON UPDATE",
    "EVERY 5 s": f"{LATENESS} EMIT EVERY INTERVAL '5' SECOND",
    "ON WATERMARK": f"{LATENESS} EMIT ON WATERMARK",
    "ON WINDOW CLOSE": f"{LATENESS} EMIT ON WINDOW CLOSE",
    "FINAL": "EMIT FINAL",
}
ARRIVALS: dict[int, list[tuple[int, int]]] = {
    2: [(1, 2)],
    4: [(2, 3)],
    6: [],
    11: [(4, 8)],
    13: [(8, 9), (0, 12)],
    14: [(16, 7)],
    16: [],
    18: [(0, 17)],
}
"""Second of the clock -> rows that arrive then: (price, second of the event)."""

WIDTH = 11


@dataclass(frozen=True)
class Moment:
    """One second of the clock: the rows, the watermark, and what each view emitted for the first window."""

    second: int
    rows: list[str]
    watermark: str
    left: dict[str, list[str]]


def moments(db: tidegate.Database) -> list[Moment]:
    """Run the rows through the views. At each moment the (virtual) clock advances first, then the rows arrive."""
    db.sql(SOURCE + "".join(_view(name, clause) for name, clause in VIEWS.items()))
    db.advance_clock(timedelta(hours=12))
    timeline, now = list[Moment](), 0
    for second, rows in ARRIVALS.items():
        db.advance_clock(timedelta(seconds=second - now))
        first = db.step().steps.start
        db.insert("bids", [(price, NOON + timedelta(seconds=event)) for price, event in rows])
        steps, now = range(first, db.step().steps.stop), second
        left = {name: list(_left(db, name, steps)) for name in VIEWS}
        timeline.append(Moment(second, [f"{price} at :{event:02}" for price, event in rows], _watermark(db), left))
    for view, price in db.query("SELECT view, get_json_object(row, '$.price') FROM system.late_rows"):
        _moment_of(timeline, price).left[_title(view)].append("late")
    return timeline


def _view(name: str, clause: str) -> str:
    return f"""
        CREATE MATERIALIZED VIEW {_view_name(name)} AS
          SELECT window_start, SUM(price) AS total
          FROM TUMBLE(bids, ts, INTERVAL '10' SECOND)
          GROUP BY window_start
          {clause};"""


def _view_name(title: str) -> str:
    return title.lower().replace(" ", "_")


def _title(view: str) -> str:
    return next(title for title in VIEWS if _view_name(title) == view)


def _moment_of(timeline: Sequence[Moment], price: str) -> Moment:
    """Return the moment at which the row of that price arrived."""
    return next(moment for moment in timeline if any(row.startswith(f"{price} at") for row in moment.rows))


def _left(db: tidegate.Database, name: str, steps: range) -> Iterator[str]:
    for change in db.changes(_view_name(name), steps.start, steps.stop - 1):
        if change.row["window_start"].second == 0:
            yield f"{change.op} {change.row['total']}"


def _watermark(db: tidegate.Database) -> str:
    value = db.metrics()["watermarks"].get("bids.ts")
    return "none" if value is None else f":{value[17:19]}"


def picture(seen: Sequence[Moment]) -> str:
    """Draw a column per moment and a row per strategy; an update with both halves takes two lines."""
    drawn = [
        *_draw_rows("clock", [[f":{moment.second:02}"] for moment in seen], " "),
        *_draw_rows("rows in", [moment.rows for moment in seen], " "),
        *_draw_rows("watermark", [[moment.watermark] for moment in seen], " "),
        "",
    ]
    for name in VIEWS:
        drawn += _draw_rows(name, [moment.left[name] for moment in seen], "·")
    return "\n".join(drawn)


def _draw_rows(name: str, cells: Sequence[Sequence[str]], fill: str) -> Iterator[str]:
    for line in range(max(1, *(len(cell) for cell in cells))):
        texts = [cell[line] if line < len(cell) else "" for cell in cells]
        filled = (_cell(text, fill if line == 0 else " ") for text in texts)
        yield f"{'' if line else name:<17}{''.join(filled)}".rstrip()


def _cell(text: str, fill: str) -> str:
    return (f"{text} " if text else "").ljust(WIDTH - 1, fill) + " "


def main() -> None:
    with tidegate.connect(clock="virtual") as db:
        print(picture(moments(db)))


if __name__ == "__main__":
    main()
