"""New messages of a stream as they are written, filtered and decoded."""

from __future__ import annotations

from typing import Any

from backend.kafka.base.message_headers import Message
from backend.kafka.search.message_reading import Selected
from backend.kafka.search.message_tail import Tail
from backend.kafka.search.topic_reader import TopicPlace
from backend.messages.documents import shown
from backend.messages.facts import MessageFacts
from backend.messages.message_decoding import MessageDecoding
from backend.messages.reading_failures import reading_failures
from backend.messages.tail_position import OUT_OF_RANGE, TailStart, written

MOST_AT_ONCE = 200
"""Messages that one read returns."""
MOST_CHARACTERS = 8 * 1024 * 1024
"""Characters of keys and values as they are shown, of one read."""
DECODING_SECONDS = 2.0
"""Seconds for filtering and decoding what one read returns."""


class LiveTail:
    """Reads what is written from now on; used by one thread. What it is too slow for is skipped."""

    def __init__(
        self, place: TopicPlace, facts: MessageFacts, decoding: MessageDecoding, start: TailStart
    ) -> None:
        """Begin at the present ends, or continue. Raises TopicReplaced, KafkaCallFailed, ClusterUnreachable."""
        self._facts, self._decoding = facts, decoding
        self._left_out = 0
        self._tail = Tail(place, self._select, after=start.offsets, topic_id=facts.topic_id)
        self.note = start.note or (OUT_OF_RANGE if self._tail.is_truncated else "")
        """Why the tail does not continue where it was; empty if it does, or begins."""

    @property
    def position(self) -> str:
        """Return how far was read, as the id of an event."""
        return written(self._facts, self._tail.positions)

    @property
    def skipped(self) -> int:
        """Return how many messages were skipped because they came too fast, or took too long to decode."""
        return self._tail.skipped + self._left_out

    def read(self, wait_seconds: float) -> list[dict[str, Any]]:
        """Return new messages that match, as documents; wait at most so long for the first one.

        Raises ClusterSilent; StateConflict, if the topic was created anew; ValueInvalid, if the expression turns
        out to take too long; DecodingUnavailable.
        """
        with reading_failures(self._facts):
            selected = [each.message for each in self._tail.read(wait_seconds)]
        newest = selected[-MOST_AT_ONCE:]
        fields = self._decoding.fields(newest, DECODING_SECONDS, MOST_CHARACTERS)
        self._left_out += len(selected) - len(fields)
        return [
            shown(self._facts, message, key, value) for message, (key, value) in zip(newest, fields, strict=False)
        ]

    def close(self) -> None:
        """Close the connections."""
        self._tail.close()

    def _select(self, batch: list[Message]) -> list[Selected]:
        matching = self._decoding.matching(batch)
        if not matching or not self._decoding.has_expression:
            return [Selected(each, None) for each in matching]
        decided = self._decoding.evaluated(matching, DECODING_SECONDS, MOST_CHARACTERS)
        self._left_out += len(matching) - len(decided)
        found = zip(matching, decided, strict=False)
        return [Selected(message, None) for message, pair in found if pair is not None]
