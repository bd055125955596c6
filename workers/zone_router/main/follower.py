"""Follows a broker's log: every partition that it leads, up to what is committed, as a consumer would.

Where the following of a partition begins:

- where it stood, if this main has followed it before, and the log has not been cut since;
- where the leader's epoch began, if another broker has led it until now (what was before, its main follows), if it
  has come while this main was away, or if the log was cut;
- at its first record, if it is new, or all history is wanted; else at its end.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Protocol

import structlog

from backend.kafka.wire import fetched, fetches, metadata, offsets
from backend.kafka.wire.batches import Batch, batches
from backend.kafka.wire.encoding import MessageMalformed
from backend.kafka.wire.endpoints import Address
from workers.zone_router.formats.block import Followed
from workers.zone_router.formats.bulk import Main
from workers.zone_router.formats.wal import UNKNOWN_BEGINNING, Begins, Partition
from workers.zone_router.main.leader import CLIENT_ID, Leader, LeaderLost, connected

_FETCH_VERSION = 13
"""The first with ids of topics (KIP-516), by which one that was made anew is told from the one before."""
_WAIT_MS = 500
_MOST_BYTES = 8 * 1024 * 1024
_MOST_PARTITION_BYTES = 2 * 1024 * 1024
_LOOK_SECONDS = 1.0
_AGAIN_SECONDS = 0.3
_GONE_SECONDS = 60.0
"""A topic of which the broker has not told for so long was deleted; one that has just started tells of none."""
_OUT_OF_RANGE = 1
_FINAL_ERRORS_OF_SESSIONS = (70, 71)
"""FETCH_SESSION_ID_NOT_FOUND, INVALID_FETCH_SESSION_EPOCH: a new one is made."""

_LOG = structlog.get_logger(__name__)


@dataclass
class Led:
    """A partition that the broker leads, as it is followed."""

    partition: Partition
    topic: str
    leader_epoch: int
    position: int
    """The next offset to follow."""
    high_watermark: int = -1
    last_stable: int = -1
    log_start: int = 0
    open: dict[int, int] = field(default_factory=dict)
    """Producers with an open transaction, and the offset of its first batch."""
    begins: Begins = UNKNOWN_BEGINNING
    last_epoch: int = -1
    """Of the last batch before the position, if it was followed."""
    is_asked: bool = False
    """Whether it was asked for; what is answered before is of one whose place it has taken."""

    @property
    def followed(self) -> Followed:
        return Followed(self.leader_epoch, self.position, dict(self.open), self.begins, self.last_epoch)


class _NotTold(Exception):
    """The broker does not tell where a partition is to be followed from."""


class Sink(Protocol):
    """Who takes what is followed."""

    @property
    def known(self) -> Mapping[Partition, Followed]:
        """Where the following stood before this process."""

    def took(self, led: Led, found: Sequence[tuple[Batch, memoryview, int]]) -> None:
        """Batches behind the position, which is behind them now, each with the number of offsets before it that
        have no record; or none, where only the log's bounds moved.
        """

    def leads(self, led: Led) -> None:
        """It is followed from now on; again, perhaps, in another epoch."""

    def left(self, partition: Partition) -> None:
        """It is not led by this broker any more, or the broker is away."""

    def gone(self, partition: Partition) -> None:
        """Its topic was deleted, or its log was cut: nothing that was followed of it is of use."""

    async def room(self) -> None:
        """Until more can be taken."""


class Follower:
    """Runs until it is cancelled."""

    def __init__(self, main: Main, broker: Callable[[], Address | None], sink: Sink, *, all_history: bool) -> None:
        self._main, self._broker, self._sink, self._all_history = main, broker, sink, all_history
        self._led: dict[Partition, Led] = {}
        self._elsewhere: set[Partition] = set()
        """Partitions that another broker led when this was looked at last."""
        self._cut: set[Partition] = set()
        """Partitions whose log does not have the offset any more at which the following stood."""
        self._missed: dict[Partition, float] = {}
        """Partitions that were followed and of which the broker does not tell, and since when."""
        self._strange: set[Partition] = set()
        """Partitions whose batches nobody knows here."""
        self._has_looked = False
        self._look_now = asyncio.Event()
        self._unsaid: set[Partition] = set()
        """Those of which the session does not know, or not where they are."""
        self._forgotten: list[Partition] = []
        self._session = (0, 0)

    def look(self) -> None:
        """There may be a partition that is not known."""
        self._look_now.set()

    async def run(self) -> None:
        """Follow; a broker that is away is tried again and again."""
        said = ""
        while True:
            try:
                await self._follow()
            except (LeaderLost, MessageMalformed) as error:
                if str(error) != said:
                    _LOG.warning("zone_router.leader_lost", main=self._main, why=str(error))
                said = str(error)
            for partition in list(self._led):
                self._leave(partition)
            await asyncio.sleep(_AGAIN_SECONDS)

    async def _follow(self) -> None:
        asked = await connected(self._broker())
        fetching = looking = None
        self._missed = {}  # nobody has looked meanwhile
        try:
            fetching = await connected(self._broker())
            await self._look(asked)
            looking = asyncio.create_task(self._look_on(asked))
            self._session = (0, 0)
            self._unsaid = set(self._led)
            while not looking.done():
                await self._sink.room()
                await self._fetch(fetching)
            looking.result()
        finally:
            if looking:
                looking.cancel()
                await asyncio.gather(looking, return_exceptions=True)
            asked.close()
            if fetching:
                fetching.close()

    async def _look_on(self, leader: Leader) -> None:
        while True:
            try:
                async with asyncio.timeout(_LOOK_SECONDS):
                    await self._look_now.wait()
            except TimeoutError:
                pass
            self._look_now.clear()
            await self._look(leader)

    async def _look(self, leader: Leader) -> None:
        """Which partitions the broker leads."""
        request = metadata.metadata_request(0, CLIENT_ID, None)
        told = metadata.read_metadata(await leader.ask(request))
        found: dict[Partition, tuple[str, int]] = {}
        elsewhere: set[Partition] = set()
        for topic in told.topics:
            for each in topic.partitions:
                partition = Partition(topic.topic_id, each.partition)
                if each.leader_id == self._main[1] and partition not in self._strange:
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
                except _NotTold as error:  # it has just gone, or come; the next look tells
                    _LOG.info("zone_router.not_yet_followed", why=str(error))
        self._miss(self._sink.known.keys() - found.keys() - elsewhere)
        self._elsewhere, self._has_looked = elsewhere, True

    def _miss(self, partitions: Set[Partition]) -> None:
        """What is missed for long is gone."""
        now = asyncio.get_running_loop().time()
        self._missed = {each: self._missed.get(each, now) for each in partitions}
        for partition, since in self._missed.items():
            if now - since >= _GONE_SECONDS:
                self._cut.discard(partition)
                self._strange.discard(partition)
                self._sink.gone(partition)

    async def _lead(self, leader: Leader, partition: Partition, name: str, epoch: int) -> None:
        before = self._led.get(partition)
        known = before.followed if before else self._sink.known.get(partition)
        if known is None or partition in self._cut:
            led = await self._first(leader, partition, name, epoch)
        else:
            led = await self._on_from(leader, partition, name, epoch, known)
        if before:
            self._forgotten.append(partition)  # or the broker tells nothing of what has not moved since
        self._led[partition] = led
        self._unsaid.add(partition)
        self._sink.leads(led)

    async def _on_from(self, leader: Leader, partition: Partition, name: str, epoch: int, known: Followed) -> Led:
        """One that was followed before: where it stood, if the log is that one still (KIP-101, KIP-279)."""
        if known.leader_epoch != epoch:
            if known.last_epoch < 0:  # of nothing
                return await self._led_anew(leader, partition, name, epoch)
            told = await self._epoch_end(leader, partition, name, epoch, known.last_epoch)
            if told.epoch != known.last_epoch or told.end_offset < known.position:
                # An unclean election cut it. What was before is of no use either: which of its transactions have
                # ended, nobody knows any more.
                led = await self._led_anew(leader, partition, name, epoch)
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

    async def _led_anew(self, leader: Leader, partition: Partition, name: str, epoch: int) -> Led:
        """One that another broker has led before, from where its leader's epoch began."""
        told = await self._epoch_end(leader, partition, name, epoch, epoch - 1)
        start = max(told.end_offset, 0)
        return Led(partition, name, epoch, start, begins=Begins(told.epoch, start))

    async def _first(self, leader: Leader, partition: Partition, name: str, epoch: int) -> Led:
        """One that was not followed before, or not there."""
        is_led_anew = partition in self._elsewhere or (not self._has_looked and bool(self._sink.known))
        if is_led_anew and partition not in self._cut:
            return await self._led_anew(leader, partition, name, epoch)
        is_whole = self._has_looked or self._all_history or partition in self._cut
        self._cut.discard(partition)
        at = offsets.EARLIEST if is_whole else offsets.LATEST
        asked = offsets.TimeAsked(name, partition.number, epoch, at)
        request = offsets.list_offsets_request(0, CLIENT_ID, 0, [asked])
        (told,) = offsets.read_list_offsets(await leader.ask(request))
        if told.error:
            raise _NotTold(f"where {name}-{partition.number} begins is not told: error {told.error}")
        return Led(partition, name, epoch, told.offset)

    async def _epoch_end(
        self, leader: Leader, partition: Partition, name: str, current: int, epoch: int
    ) -> offsets.EpochEnd:
        """Of the last epoch up to this one that the leader's log has."""
        asked = offsets.EpochAsked(name, partition.number, current, epoch)
        request = offsets.epoch_ends_request(0, CLIENT_ID, [asked])
        (told,) = offsets.read_epoch_ends(await leader.ask(request))
        if told.error:
            raise _NotTold(f"where epoch {epoch} of {name}-{partition.number} ended is not told: {told.error}")
        return told

    def _leave(self, partition: Partition) -> None:
        if self._led.pop(partition, None):
            self._unsaid.discard(partition)
            self._forgotten.append(partition)
            self._sink.left(partition)

    async def _fetch(self, asking: Leader) -> None:
        """One turn of the session: what has moved is said anew, and what the broker has is taken."""
        if any(each in self._led for each in self._forgotten):
            # Left, and led again since: brokers leave out what is both said and forgotten.
            self._session = (self._session[0], 0)
        session, epoch = self._session
        said = list(self._led) if epoch == 0 else [each for each in self._unsaid if each in self._led]
        self._unsaid.clear()
        for partition in said:
            self._led[partition].is_asked = True
        forgotten, self._forgotten = self._forgotten, []
        asked = fetches.FetchAsked(
            max_wait_ms=_WAIT_MS,
            min_bytes=1,
            max_bytes=_MOST_BYTES,
            isolation=0,
            session_id=session,
            session_epoch=epoch,
            partitions=[self._asked(self._led[each]) for each in said],
            forgotten=[]
            if epoch == 0
            else [fetches.TopicForgotten(topic, [number]) for topic, number in forgotten],
        )
        answer = await asking.ask(fetches.fetch_request(_FETCH_VERSION, 0, CLIENT_ID, asked))
        told = fetched.read_fetch_answer(_FETCH_VERSION, answer)
        if told.error in _FINAL_ERRORS_OF_SESSIONS:
            self._session = (0, 0)
            return
        if told.error:
            raise LeaderLost(f"the broker does not let it follow: error {told.error}")
        self._session = (told.session_id, epoch + 1 if told.session_id else 0)
        for each in told.partitions:
            led = self._led.get(Partition(_topic_id(each.topic), each.partition))
            if led and led.is_asked:
                self._took(led, each)
        if not self._led:
            await asyncio.sleep(_AGAIN_SECONDS)  # brokers answer at once where nothing is asked for

    @staticmethod
    def _asked(led: Led) -> fetches.PartitionAsked:
        return fetches.PartitionAsked(
            topic=led.partition.topic_id,
            partition=led.partition.number,
            leader_epoch=led.leader_epoch,
            fetch_offset=led.position,
            last_fetched_epoch=-1,
            log_start_offset=-1,
            max_bytes=_MOST_PARTITION_BYTES,
        )

    def _took(self, led: Led, told: fetched.PartitionFetched) -> None:
        if told.error:
            if told.error == _OUT_OF_RANGE:
                self._cut.add(led.partition)
            # Led by another one, deleted, cut: what it is now is looked at, and begun anew.
            self._leave(led.partition)
            self.look()
            return
        led.high_watermark, led.log_start = told.high_watermark, told.log_start_offset
        led.last_stable = told.last_stable_offset
        found = []
        try:
            for records in told.records:
                view = memoryview(records)
                for batch in batches(view):
                    if batch.next_offset > led.position:
                        gap = max(0, batch.base_offset - led.position)
                        found.append((batch, view[batch.at : batch.at + batch.size], gap))
                        led.position, led.last_epoch = batch.next_offset, batch.leader_epoch
        except MessageMalformed as error:
            # Batches of a form that Kafka has not written for years; the leader gives them to whoever reads.
            _LOG.warning(
                "zone_router.not_followed", topic=led.topic, partition=led.partition.number, why=str(error)
            )
            self._strange.add(led.partition)
            self._leave(led.partition)
            return
        if found:
            self._unsaid.add(led.partition)
        self._sink.took(led, found)
        has_ended = any(batch.is_control for batch, _, _ in found)
        if has_ended and not led.open and led.last_stable < led.position:
            # Brokers raise what is committed first, and what is stable alone they tell only those who ask anew.
            self._session = (0, 0)


def _topic_id(topic: str | bytes) -> bytes:
    assert isinstance(topic, bytes)  # since version 13
    return topic
