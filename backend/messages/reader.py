"""Messages for requests: read from the cluster, filtered on their bytes, and decoded in child processes.

read_messages (Kafka) --> filters on bytes, short JSON --> batch --> expressions --> page --> decoded items
                                                                   (child process)          (child process)
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import Engine

from backend.kafka.search.message_reading import Bounds, read_messages
from backend.kafka.search.topic_reader import TopicPlace
from backend.messages import tail_position
from backend.messages.decoders import CheckedExpression, Decoders
from backend.messages.facts import MessageFacts
from backend.messages.fetched_messages import passing
from backend.messages.filters import Filters
from backend.messages.live_tail import LiveTail
from backend.messages.message_decoding import MessageDecoding, Schemas, check_expressions
from backend.messages.page_read import MessagePage, PageRead
from backend.messages.read_audit import note_read, note_tail
from backend.messages.reading_failures import reading_failures
from backend.messages.request import MessageRequest
from backend.slots import Slots

BOUNDS = Bounds(seconds=10.0, records=1_000_000, bytes=256 * 1024 * 1024)
"""Bounds of reading for one request; a page has bounds of its own (`page_read.py`)."""
AT_ONCE, TAILS_AT_ONCE = 8, 12
"""Requests that one process reads at once, and live tails: each has a thread, and tens of megabytes.

A process has 40 threads for all requests.
"""
OF_A_USER = 3
"""Share of one user in either."""


class MessageReader:
    """Reads messages for all requests of a process; threads share it. Rights are the caller's matter."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._decoders = Decoders()
        self._pages, self._tails = (Slots(number, OF_A_USER) for number in (AT_ONCE, TAILS_AT_ONCE))

    def close(self) -> None:
        """End the child processes."""
        self._decoders.close()

    def read(self, user: str, facts: MessageFacts, wanted: MessageRequest, schemas: Schemas) -> MessagePage:
        """Return a page of messages, and record in the audit that the user reads them.

        Raises ValueInvalid (parameters), NotFound (an offset outside of the log), ClusterSilent, MessagesBusy,
        DecodingUnavailable, and DatabaseUnavailable if the row of the audit cannot be written.
        """
        with self._pages.one(user):
            place, checked = self._place(facts, wanted)
            note_read(self._engine, user, facts, wanted)
            decoding = MessageDecoding(self._decoders, wanted.filters, schemas)
            page = PageRead(decoding, backward=wanted.is_backward, seconds=BOUNDS.seconds)
            with reading_failures(facts):
                found = read_messages(
                    place,
                    wanted.start,
                    wanted.limit,
                    BOUNDS,
                    page.select,
                    is_search=wanted.filters != Filters(),
                    passing=passing(wanted.filters, checked),
                )
            return page.answer(facts, found)

    @contextmanager
    def tail(
        self, user: str, facts: MessageFacts, wanted: MessageRequest, schemas: Schemas, last_event_id: str = ""
    ) -> Iterator[LiveTail]:
        """Yield a live tail of the partitions and filters that are wanted, recorded in the audit.

        It continues after the event that a browser saw last, if there was one. Raises what `read` does, as the
        tail's reads do.
        """
        with self._tails.one(user):
            place, _ = self._place(facts, wanted)
            note_tail(self._engine, user, facts, wanted)
            with reading_failures(facts):
                start = tail_position.read(facts, last_event_id)
                tail = LiveTail(place, facts, MessageDecoding(self._decoders, wanted.filters, schemas), start)
                try:
                    yield tail
                finally:
                    tail.close()

    def _place(self, facts: MessageFacts, wanted: MessageRequest) -> tuple[TopicPlace, CheckedExpression]:
        """Return the partitions to read, and what is known of the expressions.

        Raises ValueInvalid, also for an invalid expression.
        """
        partitions = wanted.partitions(facts)
        checked = check_expressions(self._decoders, wanted.filters)
        return TopicPlace(facts.bootstrap_servers, facts.properties, facts.topic, partitions), checked
