"""Brokers and producers as they are in memory and on disk: the documents' `Replica` and `Partition`."""

from __future__ import annotations

from enum import IntEnum

from backend.replication_lab.messages import NOBODY, UNKNOWN, Pending, Record

UNCUT = 1 << 60
"""A log's least end where it was not cut."""


class Role(IntEnum):
    """What a broker does for the partition."""

    NONE = 0
    """Nothing yet: it has heard of no leader."""
    FOLLOWER = 1
    STANDING = 2
    """In leaderElection, waiting before it writes itself as the leader."""
    BECOMING = 3
    """In becomeLeader, waiting for others to catch up; it answers fetches, but neither reads nor writes."""
    LEADER = 4


class Fetcher(IntEnum):
    """Where a ReplicaFetcherThread is."""

    STOPPED = 0
    READY = 1
    WAITS = 2
    """For the answer to a fetch."""
    ASKS = 3
    """It is about to ask where its last epoch ends."""
    WAITS_FOR_EPOCH = 4


class Partition:
    """Partition: what a broker knows of it. ISR, CUR, RAR and commitQ are kept by the leader alone."""

    __slots__ = (
        "ar", "caught_up_at", "commit_q", "cur", "epoch", "epoch_start", "isr", "isr_version", "leader", "leo",
        "rar",
    )  # fmt: skip

    def __init__(self) -> None:
        self.leader = NOBODY
        self.epoch = 0
        """Of that leader."""
        self.ar: tuple[int, ...] = ()
        self.isr: frozenset[int] = frozenset()
        self.cur: frozenset[int] = frozenset()
        self.rar: tuple[int, ...] = ()
        self.commit_q: tuple[Pending, ...] = ()
        self.leo: dict[int, int] = {}
        """Of the others, as their fetches told: the leader's copies of `Replica`."""
        self.isr_version = 0
        """Of the ISR in the store when it was last read or written."""
        self.epoch_start = 0
        """Where the leader's own epoch begins."""
        self.caught_up_at: dict[int, float] = {}
        """When a follower last had all that the leader had; a time, no part of the state that a search tells
        apart.
        """

    def copy(self) -> Partition:
        """Another one of the same."""
        twin = Partition.__new__(Partition)
        twin.leader, twin.epoch, twin.ar = self.leader, self.epoch, self.ar
        twin.isr, twin.cur, twin.rar = self.isr, self.cur, self.rar
        twin.commit_q, twin.isr_version, twin.epoch_start = self.commit_q, self.isr_version, self.epoch_start
        twin.leo, twin.caught_up_at = dict(self.leo), dict(self.caught_up_at)
        return twin

    def key(self, isr_version: int) -> tuple[object, ...]:
        """What tells two of them apart: of the version only whether it is the store's, which never comes again."""
        return (
            self.leader, self.epoch, self.ar, self.isr, self.cur, self.rar, self.commit_q,
            self.isr_version == isr_version, self.epoch_start, tuple(sorted(self.leo.items())),
        )  # fmt: skip


class Broker:
    """A broker and its replica of the partition. What is on disk outlives a crash; the rest does not."""

    __slots__ = (
        "alive", "checkpoint", "checkpoints", "cut_to", "dirty", "fell_from", "fetcher", "flushed", "hw", "id",
        "incarnation", "log", "notices", "partition", "paused", "role", "silent_since", "slow", "slow_disk",
        "started", "thread",
    )  # fmt: skip

    def __init__(self, id_: int, dirty: list[int]) -> None:
        self.id = id_
        self.dirty = dirty
        """Where replicas that changed put their brokers' ids: the checker looks at those after the step."""
        self.alive = False
        self.paused = False
        self.slow = False
        """It takes long to fetch."""
        self.slow_disk = False
        """It takes long to write what it fetched, and to flush."""
        self.incarnation = 0
        self.silent_since = 0.0
        """When the store last began to hear nothing of it; a time, which a search does not tell apart."""
        self.notices: tuple[str, ...] = ()
        """Listeners that are to be called: leader_change, session_lost."""

        self.log: list[Record] = []
        self.flushed = 0
        """Records that are safe on disk."""
        self.checkpoint = 0
        """The HW on disk."""
        self.cut_to = UNCUT
        """The least end that the log had since the checker looked."""

        self.fell_from = 0
        """The HW before it fell, if it did since the checker looked."""

        self.started = False
        """The replica's log is open."""
        self.checkpoints = False
        """The HW checkpoint thread runs."""
        self.hw = 0
        """As an end offset: so many records are committed."""
        self.role = Role.NONE
        self.fetcher = Fetcher.STOPPED
        self.thread = 0
        self.partition = Partition()

    def append(self, records: tuple[Record, ...]) -> None:
        """Write to the log, in memory."""
        self.log.extend(records)
        self.dirty.append(self.id)

    def truncate(self, end: int) -> None:
        """Cut the log back to so many records."""
        if end < len(self.log):
            del self.log[end:]
            self.flushed = min(self.flushed, end)
            self.cut_to = min(self.cut_to, end)
            self.dirty.append(self.id)

    def set_hw(self, hw: int) -> None:
        """Move the HW. That it falls is for the checker to judge."""
        if hw != self.hw:
            if hw < self.hw:
                self.fell_from = max(self.fell_from, self.hw)
            self.hw = hw
            self.dirty.append(self.id)

    def last_epoch(self) -> int:
        """Of the log's last record; 0 of an empty log."""
        return self.log[-1].epoch if self.log else 0

    def end_of_epoch(self, asked: int) -> tuple[int, int]:
        """The greatest epoch in the log that is not above the one asked for, and where it ends (KIP-101,
        KIP-279).
        """
        for at in range(len(self.log), 0, -1):
            if self.log[at - 1].epoch <= asked:
                return self.log[at - 1].epoch, at
        return 0, 0

    def stop_threads(self) -> None:
        """Of fetching; an answer that is still to come finds nobody."""
        self.fetcher = Fetcher.STOPPED
        self.thread += 1

    def copy(self, dirty: list[int]) -> Broker:
        """Another one of the same, which tells another list."""
        twin = Broker.__new__(Broker)
        twin.id, twin.dirty, twin.alive, twin.paused, twin.slow = (
            self.id,
            dirty,
            self.alive,
            self.paused,
            self.slow,
        )
        twin.slow_disk, twin.incarnation = self.slow_disk, self.incarnation
        twin.silent_since, twin.checkpoints = self.silent_since, self.checkpoints
        twin.notices, twin.log, twin.flushed = self.notices, self.log.copy(), self.flushed
        twin.checkpoint, twin.started = self.checkpoint, self.started
        twin.hw, twin.role, twin.fetcher, twin.thread = self.hw, self.role, self.fetcher, self.thread
        twin.cut_to, twin.fell_from, twin.partition = self.cut_to, self.fell_from, self.partition.copy()
        return twin

    def key(self, isr_version: int) -> tuple[object, ...]:
        """What tells two of them apart; how often threads began does not, where answers come at once."""
        return (
            self.alive, self.paused, self.incarnation, self.notices, tuple(self.log), self.flushed,
            self.checkpoint, self.checkpoints, self.started, self.hw, self.role, self.fetcher,
            self.partition.key(isr_version),
        )  # fmt: skip


class Producer:
    """A client that hands in records one after another, each until it is acknowledged."""

    __slots__ = ("abandoned", "acknowledged", "attempt", "epoch", "id", "leader", "left", "number", "waits")

    def __init__(self, id_: int, left: int) -> None:
        self.id = id_
        self.epoch = 0
        self.number = 0
        """Of the record that is next or under way."""
        self.left = left
        """Records that it still has to hand in."""
        self.attempt = 0
        self.waits = False
        """For an answer."""
        self.leader = UNKNOWN
        """Where it sends to; it asks the store when that does not answer."""
        self.acknowledged = 0
        self.abandoned: frozenset[int] = frozenset()
        """Numbers that it left unanswered when it began anew."""

    def copy(self) -> Producer:
        """Another one of the same."""
        twin = Producer.__new__(Producer)
        twin.id, twin.epoch, twin.number, twin.left = self.id, self.epoch, self.number, self.left
        twin.attempt, twin.waits, twin.leader = self.attempt, self.waits, self.leader
        twin.acknowledged, twin.abandoned = self.acknowledged, self.abandoned
        return twin

    def key(self) -> tuple[object, ...]:
        """What tells two of them apart."""
        return (self.epoch, self.number, self.left, self.attempt, self.waits, self.leader, self.acknowledged)


def producer_state(log: list[Record], producer: int) -> tuple[int, int, int]:
    """A producer's last epoch and number in a log, and that record's end; UNKNOWN where it wrote nothing."""
    for at in range(len(log), 0, -1):
        record = log[at - 1]
        if record.producer == producer:
            return record.producer_epoch, record.number, at
    return UNKNOWN, UNKNOWN, 0
