"""One page of messages while it is read: what was selected, what is shown, and where it ends early.

What cannot be decided or decoded within the bounds is neither shown nor skipped: the page ends before it.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from backend.domain.base.errors import MessagesBusy
from backend.kafka.base.message_headers import Message
from backend.kafka.search.message_reading import EndedBy, Page, PageEnded, Selected
from backend.kafka.search.sieved_records import size_of
from backend.messages.decoded_fields import Pair
from backend.messages.documents import shown
from backend.messages.facts import MessageFacts
from backend.messages.message_decoding import MessageDecoding, characters_of
from backend.messages.page_cut import PageCut

SHOWN_BYTES = 16 * 1024 * 1024
"""Bytes of keys, values and headers on one page; the first message is shown even if it has more."""
SHOWN_CHARACTERS = 8_000_000
"""Characters of a page's items as JSON; the first item is shown even if it has more."""
DECODING_SECONDS = 5.0
"""Seconds for decoding what is shown."""


@dataclass(frozen=True, kw_only=True)
class MessagePage:
    """The answer to a request; `items` are documents."""

    stream: str
    cluster: str
    items: Sequence[Mapping[str, Any]]
    next_start: str | None
    """Start of the next page; None if everything was looked at."""
    scanned_records: int
    scanned_bytes: int
    ended_by: EndedBy

    @property
    def complete(self) -> bool:
        """Tell whether nothing follows."""
        return self.next_start is None

    def json(self) -> str:
        """Return the answer of the API; in ASCII, since not every text of a record can be written in UTF-8."""
        document = {
            "stream": self.stream,
            "cluster": self.cluster,
            "items": self.items,
            "next": None if self.next_start is None else {"from": self.next_start},
            "scanned_records": self.scanned_records,
            "scanned_bytes": self.scanned_bytes,
            "complete": self.complete,
            "ended_by": self.ended_by,
        }
        return json.dumps(document, separators=(",", ":"))


class PageRead:
    """A page in work; used by one thread. `seconds`: time for reading and filtering."""

    def __init__(self, decoding: MessageDecoding, *, backward: bool, seconds: float) -> None:
        self._decoding = decoding
        self._deadline = time.monotonic() + seconds
        self._cut = PageCut(backward=backward)
        self._ended_by: EndedBy | None = None
        self._bytes = 0
        self._characters = 0

    def select(self, batch: list[Message]) -> list[Selected]:
        """Return the messages that match, of those that passed all filters on bytes when they were fetched.

        Raises PageEnded once the page is full, or its time is over.
        """
        fields = self._evaluated(batch)
        is_decided = self._decoding.has_expression
        found: list[Selected] = []
        for number, (message, pair) in enumerate(zip(batch, fields, strict=False)):
            if pair is None and is_decided:
                continue
            is_first = not self._bytes
            self._bytes += size_of(message)
            self._characters += 0 if pair is None else characters_of(pair)
            if not is_first and (self._bytes > SHOWN_BYTES or self._characters > SHOWN_CHARACTERS):
                self._cut.leave(batch[number:])
                raise PageEnded(found, EndedBy.BYTES)
            found.append(Selected(message, pair))
        if len(fields) < len(batch):
            self._cut.leave(batch[len(fields) :])
            raise PageEnded(found, EndedBy.BYTES if self._characters >= SHOWN_CHARACTERS else EndedBy.TIME)
        return found

    def answer(self, facts: MessageFacts, page: Page) -> MessagePage:
        """Return the answer from the page that was read. Raises MessagesBusy if the next one would be the same."""
        selected = self._cut.kept(page.found)
        items = self._shown(facts, selected)
        if len(items) < len(selected):
            self._cut.leave(each.message for each in selected[len(items) :])
        positions = self._cut.positions(page)
        if not items and positions == page.started:
            raise MessagesBusy("The messages could not be decoded in time. Try again in a few seconds.")
        return MessagePage(
            stream=str(facts.stream),
            cluster=facts.cluster,
            items=items,
            next_start=None if positions is None else _start(positions, backward=page.backward),
            scanned_records=page.scanned_records,
            scanned_bytes=page.scanned_bytes,
            ended_by=self._ended_by or page.ended_by,
        )

    def _evaluated(self, messages: list[Message]) -> Sequence[Pair | None]:
        if not messages or not self._decoding.has_expression:
            return [None] * len(messages)
        left = max(1, SHOWN_CHARACTERS - self._characters)
        return self._decoding.evaluated(messages, self._deadline - time.monotonic(), left)

    def _shown(self, facts: MessageFacts, selected: Sequence[Selected]) -> list[dict[str, Any]]:
        """Return the items of the page, of as many messages as there are time and room for."""
        fields = self._fields(selected)
        items: list[dict[str, Any]] = []
        characters = 0
        for each, (key, value) in zip(selected, fields, strict=False):
            item = shown(facts, each.message, key, value)
            characters += len(json.dumps(item))
            if items and characters > SHOWN_CHARACTERS:
                break
            items.append(item)
        if len(items) < len(selected):
            self._ended_by = EndedBy.BYTES if characters > SHOWN_CHARACTERS else EndedBy.TIME
        return items

    def _fields(self, selected: Sequence[Selected]) -> Sequence[Pair]:
        if self._decoding.has_expression:
            return [cast("Pair", each.decoded) for each in selected]
        return self._decoding.fields([each.message for each in selected], DECODING_SECONDS, SHOWN_CHARACTERS)


def _start(positions: Mapping[int, int], *, backward: bool) -> str:
    places = ",".join(f"{partition}={offset}" for partition, offset in sorted(positions.items()))
    return f"{'before' if backward else 'after'}:{places}"
