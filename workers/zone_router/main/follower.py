"""Follow a broker's log as a consumer: every partition that it leads, up to the high watermark.

Following of a partition starts:

- at the stored position, if this main has followed it before and the log was not truncated since;
- at the start of the leader's epoch, if another broker led it until now (whose main follows what was before), if
  leadership moved here while this main was down, or if the log was truncated;
- at its first record, if it is new or all history is wanted; else at its end.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Protocol

import structlog

from backend.kafka.wire import fetch_requests, fetch_responses, metadata, offsets
from backend.kafka.wire.batches import Batch, batches
from backend.kafka.wire.encoding import MessageMalformed
from backend.kafka.wire.endpoints import Address
from workers.zone_router.formats.block import Followed
from workers.zone_router.formats.bulk import Main
from workers.zone_router.formats.wal import UNKNOWN_BEGINNING, Begins, Partition
from workers.zone_router.main.leader import CLIENT_ID, Leader, LeaderLost, connected

_FETCH_VERSION = 13
"""First version with topic ids (KIP-516), which distinguish a topic from a deleted one of the same name."""
_WAIT_MS = 500
_MOST_BYTES = 8 * 1024 * 1024
_MOST_PARTITION_BYTES = 2 * 1024 * 1024
_POLL_SECONDS = 1.0
_RETRY_SECONDS = 0.3
_GONE_SECONDS = 60.0
"""Seconds after which a topic missing from metadata counts as deleted; a broker that has just started lists none.
"""
_OUT_OF_RANGE = 1
_SESSION_ERRORS = (70, 71)
"""FETCH_SESSION_ID_NOT_FOUND and INVALID_FETCH_SESSION_EPOCH, after which a new session is opened."""

_LOG = structlog.get_logger(__name__)


@dataclass
class Led:
    """A partition that the broker leads, and the state of following it."""

    partition: Partition
    topic: str
    leader_epoch: int
    position: int
    """Next offset to follow."""
    high_watermark: int = -1
    last_stable: int = -1
    log_start: int = 0
    open: dict[int, int] = field(default_factory=dict)
    """First offset of each open transaction, by producer id."""
    begins: Begins = UNKNOWN_BEGINNING
    last_epoch: int = -1
    """Epoch of the last batch before the position; -1 if that was not followed."""
    is_requested: bool = False
    """True once it was in a fetch request; earlier responses are for its predecessor."""

    @property
    def followed(self) -> Followed:
        return Followed(self.leader_epoch, self.position, dict(self.open), self.begins, self.last_epoch)


class _StartUnknown(Exception):
    """The broker does not return the offset from which to follow a partition."""


class Sink(Protocol):
    """Receiver of followed batches."""

    @property
    def known(self) -> Mapping[Partition, Followed]:
        """Follow state from before this process."""

    def took(self, led: Led, found: Sequence[tuple[Batch, memoryview, int]]) -> None:
        """Receive batches, each with the number of offsets before it without records.

        The position is already after them. Without batches, only the bounds of the log have changed.
        """

    def leads(self, led: Led) -> None:
        """Following starts, or restarts in another epoch."""

    def left(self, partition: Partition) -> None:
        """The broker no longer leads the partition, or is unreachable."""

    def gone(self, partition: Partition) -> None:
        """The topic was deleted or the log truncated: nothing that was followed is valid."""

    async def room(self) -> None:
        """Wait until more can be received."""


class Follower:
    """Follower of one broker."""

    def __init__(self, main: Main, broker: Callable[[], Address | None], sink: Sink, *, all_history: bool) -> None:
        self._main, self._broker, self._sink, self._all_history = main, broker, sink, all_history
        self._led: dict[Partition, Led] = {}
        self._elsewhere: set[Partition] = set()
        """Partitions led by other brokers at the last poll."""
        self._cut: set[Partition] = set()
        """Partitions whose log no longer has the offset at which following stood."""
        self._missed: dict[Partition, float] = {}
        """Followed partitions that are missing from metadata, and since when."""
        self._unreadable: set[Partition] = set()
        """Partitions with batches in an unknown format."""
        self._has_polled = False
        self._poll_now = asyncio.Event()
        self._changed: set[Partition] = set()
        """Partitions whose position the fetch session does not know yet."""
        self._forgotten: list[Partition] = []
        self._session = (0, 0)

    def poll(self) -> None:
        """Poll metadata now, as there may be an unknown partition."""
        self._poll_now.set()

    async def run(self) -> None:
        """Follow until cancelled; reconnect whenever the broker is lost."""
        logged = ""
        while True:
            try:
                await self._follow()
            except (LeaderLost, MessageMalformed) as error:
                if str(error) != logged:
                    _LOG.warning("zone_router.leader_lost", main=self._main, why=str(error))
                logged = str(error)
            for partition in list(self._led):
                self._leave(partition)
            await asyncio.sleep(_RETRY_SECONDS)

    async def _follow(self) -> None:
        metadata_connection = await connected(self._broker())
        fetch_connection = polling = None
        self._missed = {}  # metadata was not polled meanwhile
        try:
            fetch_connection = await connected(self._broker())
            await self._poll(metadata_connection)
            polling = asyncio.create_task(self._poll_on(metadata_connection))
            self._session = (0, 0)
            self._changed = set(self._led)
            while not polling.done():
                await self._sink.room()
                await self._fetch(fetch_connection)
            polling.result()
        finally:
            if polling:
                polling.cancel()
                await asyncio.gather(polling, return_exceptions=True)
            metadata_connection.close()
            if fetch_connection:
                fetch_connection.close()

    async def _poll_on(self, leader: Leader) -> None:
        while True:
            try:
                async with asyncio.timeout(_POLL_SECONDS):
                    await self._poll_now.wait()
            except TimeoutError:
                pass
            self._poll_now.clear()
            await self._poll(leader)

    async def _poll(self, leader: Leader) -> None:
        """Poll metadata for the partitions that the broker leads."""
        request = metadata.metadata_request(0, CLIENT_ID, None)
        answer = metadata.read_metadata(await leader.ask(request))
        found: dict[Partition, tuple[str, int]] = {}
        elsewhere: set[Partition] = set()
        for topic in answer.topics:
            for each in topic.partitions:
                partition = Partition(topic.topic_id, each.partition)
                if each.leader_id == self._main[1] and partition not in self._unreadable:
                    found[partition] = (topic.name, each.leader_epoch)
                else:
                    elsewhere.add(partition)
        for partition in self._led.keys() - found.keys():
            self._leave(partition)
        for partition, (name, epoch) in found.items():
            led = self._led.get(partition)
            if led is None or led.leader_epoch < epoch:
                try:
                    await self._lead(leader, partition, name, epoch)
                except _StartUnknown as error:  # it was just deleted or created; the next poll decides
                    _LOG.info("zone_router.not_yet_followed", why=str(error))
        self._drop_missing(self._sink.known.keys() - found.keys() - elsewhere)
        self._elsewhere, self._has_polled = elsewhere, True

    def _drop_missing(self, partitions: Set[Partition]) -> None:
        """Treat partitions that are missing for long as deleted."""
        now = asyncio.get_running_loop().time()
        self._missed = {each: self._missed.get(each, now) for each in partitions}
        for partition, since in self._missed.items():
            if now - since >= _GONE_SECONDS:
                self._cut.discard(partition)
                self._unreadable.discard(partition)
                self._sink.gone(partition)

    async def _lead(self, leader: Leader, partition: Partition, name: str, epoch: int) -> None:
        before = self._led.get(partition)
        known = before.followed if before else self._sink.known.get(partition)
        if known is None or partition in self._cut:
            led = await self._follow_first_time(leader, partition, name, epoch)
        else:
            led = await self._resume(leader, partition, name, epoch, known)
        if before:
            self._forgotten.append(partition)  # or the broker omits it until it changes
        self._led[partition] = led
        self._changed.add(partition)
        self._sink.leads(led)

    async def _resume(self, leader: Leader, partition: Partition, name: str, epoch: int, known: Followed) -> Led:
        """Resume at the stored position, if the log still continues from there (KIP-101, KIP-279)."""
        if known.leader_epoch != epoch:
            if known.last_epoch < 0:  # no batch was followed
                return await self._follow_from_epoch_start(leader, partition, name, epoch)
            answer = await self._epoch_end(leader, partition, name, epoch, known.last_epoch)
            if answer.epoch != known.last_epoch or answer.end_offset < known.position:
                # An unclean election truncated the log. Records before the cut are useless too: the outcome of
                # their transactions is unknown.
                led = await self._follow_from_epoch_start(leader, partition, name, epoch)
                self._sink.gone(partition)
                return led
        return Led(
            partition,
            name,
            epoch,
            known.position,
            open=dict(known.open),
            begins=known.begins,
            last_epoch=known.last_epoch,
        )

    async def _follow_from_epoch_start(self, leader: Leader, partition: Partition, name: str, epoch: int) -> Led:
        """Follow from the start of the leader's epoch, as another broker led the partition before."""
        answer = await self._epoch_end(leader, partition, name, epoch, epoch - 1)
        start = max(answer.end_offset, 0)
        return Led(partition, name, epoch, start, begins=Begins(answer.epoch, start))

    async def _follow_first_time(self, leader: Leader, partition: Partition, name: str, epoch: int) -> Led:
        """Follow a partition for the first time."""
        is_led_anew = partition in self._elsewhere or (not self._has_polled and bool(self._sink.known))
        if is_led_anew and partition not in self._cut:
            return await self._follow_from_epoch_start(leader, partition, name, epoch)
        is_whole = self._has_polled or self._all_history or partition in self._cut
        self._cut.discard(partition)
        at = offsets.EARLIEST if is_whole else offsets.LATEST
        query = offsets.OffsetQuery(name, partition.number, epoch, at)
        request = offsets.list_offsets_request(0, CLIENT_ID, 0, [query])
        (answer,) = offsets.read_list_offsets(await leader.ask(request))
        if answer.error:
            raise _StartUnknown(
                f"the broker did not return an offset of {name}-{partition.number}: error {answer.error}"
            )
        return Led(partition, name, epoch, answer.offset)

    async def _epoch_end(
        self, leader: Leader, partition: Partition, name: str, current: int, epoch: int
    ) -> offsets.EpochEnd:
        """Return the end of the last epoch up to this one in the leader's log."""
        query = offsets.EpochEndQuery(name, partition.number, current, epoch)
        request = offsets.epoch_ends_request(0, CLIENT_ID, [query])
        (answer,) = offsets.read_epoch_ends(await leader.ask(request))
        if answer.error:
            raise _StartUnknown(
                f"the broker did not return the end of epoch {epoch} of {name}-{partition.number}: {answer.error}"
            )
        return answer

    def _leave(self, partition: Partition) -> None:
        if self._led.pop(partition, None):
            self._changed.discard(partition)
            self._forgotten.append(partition)
            self._sink.left(partition)

    async def _fetch(self, leader: Leader) -> None:
        """Fetch once: update the session with changed partitions, and receive what the broker has."""
        if any(each in self._led for each in self._forgotten):
            # Lost and regained since: brokers omit partitions that are both in the request and forgotten.
            self._session = (self._session[0], 0)
        session, epoch = self._session
        changed = list(self._led) if epoch == 0 else [each for each in self._changed if each in self._led]
        self._changed.clear()
        for partition in changed:
            self._led[partition].is_requested = True
        forgotten, self._forgotten = self._forgotten, []
        fetch = fetch_requests.FetchRequest(
            max_wait_ms=_WAIT_MS,
            min_bytes=1,
            max_bytes=_MOST_BYTES,
            isolation=0,
            session_id=session,
            session_epoch=epoch,
            partitions=[self._partition_request(self._led[each]) for each in changed],
            forgotten=[]
            if epoch == 0
            else [fetch_requests.ForgottenTopic(topic, [number]) for topic, number in forgotten],
        )
        message = await leader.ask(fetch_requests.fetch_request(_FETCH_VERSION, 0, CLIENT_ID, fetch))
        answer = fetch_responses.read_fetch_response(_FETCH_VERSION, message)
        if answer.error in _SESSION_ERRORS:
            self._session = (0, 0)
            return
        if answer.error:
            raise LeaderLost(f"the broker refuses the fetch: error {answer.error}")
        self._session = (answer.session_id, epoch + 1 if answer.session_id else 0)
        for each in answer.partitions:
            led = self._led.get(Partition(_topic_id(each.topic), each.partition))
            if led and led.is_requested:
                self._took(led, each)
        if not self._led:
            await asyncio.sleep(_RETRY_SECONDS)  # brokers respond at once to an empty request

    @staticmethod
    def _partition_request(led: Led) -> fetch_requests.FetchPartition:
        return fetch_requests.FetchPartition(
            topic=led.partition.topic_id,
            partition=led.partition.number,
            leader_epoch=led.leader_epoch,
            fetch_offset=led.position,
            last_fetched_epoch=-1,
            log_start_offset=-1,
            max_bytes=_MOST_PARTITION_BYTES,
        )

    def _took(self, led: Led, answer: fetch_responses.FetchedPartition) -> None:
        if answer.error:
            if answer.error == _OUT_OF_RANGE:
                self._cut.add(led.partition)
            # Led by another broker, deleted or truncated: poll metadata, and start again.
            self._leave(led.partition)
            self.poll()
            return
        led.high_watermark, led.log_start = answer.high_watermark, answer.log_start_offset
        led.last_stable = answer.last_stable_offset
        found = []
        try:
            for records in answer.records:
                view = memoryview(records)
                for batch in batches(view):
                    if batch.next_offset > led.position:
                        gap = max(0, batch.base_offset - led.position)
                        found.append((batch, view[batch.at : batch.at + batch.size], gap))
                        led.position, led.last_epoch = batch.next_offset, batch.leader_epoch
        except MessageMalformed as error:
            # Batches in a format that Kafka has not written for years; readers get them from the leader.
            _LOG.warning(
                "zone_router.not_followed", topic=led.topic, partition=led.partition.number, why=str(error)
            )
            self._unreadable.add(led.partition)
            self._leave(led.partition)
            return
        if found:
            self._changed.add(led.partition)
        self._sink.took(led, found)
        has_ended = any(batch.is_control for batch, _, _ in found)
        if has_ended and not led.open and led.last_stable < led.position:
            # Brokers raise the high watermark first; a higher last stable offset alone goes only to a new session.
            self._session = (0, 0)


def _topic_id(topic: str | bytes) -> bytes:
    assert isinstance(topic, bytes)  # since version 13
    return topic
