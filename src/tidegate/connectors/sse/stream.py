"""What one client receives: everything after its last event, in order, then what is new."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from tidegate.connectors.sse.hub import Behind, EventId, Hub, Item
from tidegate.core.globs import Globs

RETRY_MILLISECONDS = 1000
AT_ONCE = 500

Replay = Callable[[int], Iterator[tuple[int, Sequence[Item]]]]
"""Read the events of the steps after a step again, as far as the step log has them: (step, events)."""


@dataclass
class ClientStream:
    """Yields the text for one client. `selected` matches the names of the events that it requests; None: all."""

    hub: Hub
    replay: Replay
    heartbeat: float
    selected: Globs | None
    position: EventId

    async def pieces(self) -> AsyncIterator[str]:
        """Begin with the client's position, so that a client cut off before its first event resumes right there."""
        yield f"retry: {RETRY_MILLISECONDS}\n"
        if self.position.step > self.hub.last.step:
            yield self._gap(self.hub.last)
        yield f"id: {self.position}\n\n"
        sent = self.position
        while not self.hub.closed:
            try:
                items = await self.hub.next(self.position, AT_ONCE, self.heartbeat)
            except Behind:
                async for text in _from_thread(self._missed(self.hub.floor)):
                    yield text
                continue
            if text := self._text(items):
                sent = self.position
                yield text
            elif not items and not self.hub.closed:
                yield ": \n\n" if sent == self.position else f"id: {self.position}\n\n"
                sent = self.position

    def _missed(self, target: EventId) -> Iterator[str]:
        """Yield what is older than what the hub has, up to an id, from the step log. If the log no longer has the step
        of the client's last event, others may be missing as well."""
        is_first = True
        for step, items in self.replay(self.position.step - 1):
            if step > target.step:
                break
            if is_first and 0 < self.position.step < step:
                yield self._gap(EventId.end_of(step - 1))
            is_first = False
            yield from self._of_step(items)
        if is_first:
            yield self._gap(target)
        self.position = max(self.position, target)

    def _of_step(self, items: Sequence[Item]) -> Iterator[str]:
        remaining = (item for item in items if item.id > self.position)
        while part := list(islice(remaining, AT_ONCE)):
            if text := self._text(part):
                yield text

    def _text(self, items: Sequence[Item]) -> str:
        if items:
            self.position = items[-1].id
        return "".join(map(event_text, (item for item in items if self._selects(item))))

    def _selects(self, item: Item) -> bool:
        return self.selected is None or self.selected.matches(item.name)

    def _gap(self, target: EventId) -> str:
        """Tell the client that events may be missing, and where the stream continues."""
        text = json.dumps({"after": str(self.position), "goes_on_after": str(target)})
        self.position = target
        return event_text(Item(target, "gap", text))


async def _from_thread(texts: Iterator[str]) -> AsyncIterator[str]:
    """Iterate in a worker thread: the step log is read from disk."""
    while (text := await asyncio.to_thread(next, texts, None)) is not None:
        yield text


def event_text(item: Item) -> str:
    """Return `id: 12-0`, `event: pgcdc:orders`, `data: {...}`, each on a line."""
    return f"id: {item.id}\nevent: {_line(item.name)}\ndata: {_line(item.text)}\n\n"


def _line(text: str) -> str:
    return text.replace("\r", " ").replace("\n", " ")
