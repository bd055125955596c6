"""Brokers and producers in memory and on disk: the documents' `Replica` and `Partition`."""

from __future__ import annotations

from enum import IntEnum

from backend.replication_lab.model.messages import NOBODY, UNKNOWN, Pending, Record

UNCUT = 1 << 60
"""Value of `cut_to` for a log that was not truncated."""


class Role(IntEnum):
    """Role of a broker for the partition."""

    NONE = 0
    """No role yet: the broker knows no leader."""
    FOLLOWER = 1
    STANDING = 2
    """In leaderElection, waiting before it writes itself as leader."""
    BECOMING = 3
    """In becomeLeader, waiting for others to catch up; it answers fetches, but no reads or writes of clients."""
    LEADER = 4


class Fetcher(IntEnum):
    """State of a ReplicaFetcherThread."""

    STOPPED = 0
    READY = 1
    WAITS = 2
    """Waiting for a fetch response."""
    ASKS = 3
    """About to request the end offset of its last epoch."""
    WAITS_FOR_EPOCH = 4


class Partition:
    """Partition: what a broker knows of it. Only the leader keeps ISR, CUR, RAR and commitQ."""

    __slots__ = (
        "ar", "caught_up_at", "commit_q", "cur", "epoch", "epoch_start", "isr", "isr_version", "leader", "leo",
        "rar",
    )  # fmt: skip

    def __init__(self) -> None:
        self.leader = NOBODY
        self.epoch = 0
        """Epoch of that leader."""
        self.ar: tuple[int, ...] = ()
        self.isr: frozenset[int] = frozenset()
        self.cur: frozenset[int] = frozenset()
        self.rar: tuple[int, ...] = ()
        self.commit_q: tuple[Pending, ...] = ()
        self.leo: dict[int, int] = {}
        """Log end offsets of the other replicas as of their fetches: the leader's copies of `Replica`."""
        self.isr_version = 0
        """Version of the ISR in the store when it was last read or written."""
        self.epoch_start = 0
        """Offset at which the leader's own epoch begins."""
        self.caught_up_at: dict[int, float] = {}
        """Time at which a follower last had everything that the leader had; not part of the state that a search
        compares.
        """

    def copy(self) -> Partition:
        """Return a copy."""
        twin = Partition.__new__(Partition)
        twin.leader, twin.epoch, twin.ar = self.leader, self.epoch, self.ar
        twin.isr, twin.cur, twin.rar = self.isr, self.cur, self.rar
        twin.commit_q, twin.isr_version, twin.epoch_start = self.commit_q, self.isr_version, self.epoch_start
        twin.leo, twin.caught_up_at = dict(self.leo), dict(self.caught_up_at)
        return twin

    def key(self, isr_version: int) -> tuple[object, ...]:
        """Return a key that distinguishes two states; the version counts only as the store's or another."""
        return (
            self.leader, self.epoch, self.ar, self.isr, self.cur, self.rar, self.commit_q,
            self.isr_version == isr_version, self.epoch_start, tuple(sorted(self.leo.items())),
        )  # fmt: skip


class Broker:
    """A broker and its replica of the partition. What is on disk survives a crash; the rest does not."""

    __slots__ = (
        "alive", "checkpoint", "checkpoints", "cut_to", "dirty", "fell_from", "fetcher", "flushed", "hw", "id",
        "incarnation", "log", "notices", "partition", "paused", "role", "silent_since", "slow", "slow_disk",
        "started", "thread",
    )  # fmt: skip

    def __init__(self, id_: int, dirty: list[int]) -> None:
        self.id = id_
        self.dirty = dirty
        """List shared with the checker, which examines the brokers in it after the step."""
        self.alive = False
        self.paused = False
        self.slow = False
        """Tells whether the follower is slow at fetching."""
        self.slow_disk = False
        """Tells whether the disk is slow at writing fetched records and at flushing."""
        self.incarnation = 0
        self.silent_since = 0.0
        """Time of the last heartbeat that the store received; not part of the state that a search compares."""
        self.notices: tuple[str, ...] = ()
        """Due listeners: leader_change, session_lost."""

        self.log: list[Record] = []
        self.flushed = 0
        """Number of records flushed to disk."""
        self.checkpoint = 0
        """HW on disk."""
        self.cut_to = UNCUT
        """Lowest log end offset since the checker's last look."""

        self.fell_from = 0
        """HW before it fell, if it fell since the checker's last look."""

        self.started = False
        """Tells whether the replica's log is open."""
        self.checkpoints = False
        """Tells whether the HW checkpoint thread runs."""
        self.hw = 0
        """High watermark as an end offset: the number of committed records."""
        self.role = Role.NONE
        self.fetcher = Fetcher.STOPPED
        self.thread = 0
        self.partition = Partition()

    def append(self, records: tuple[Record, ...]) -> None:
        """Append records to the log, in memory."""
        self.log.extend(records)
        self.dirty.append(self.id)

    def truncate(self, end: int) -> None:
        """Truncate the log to an end offset."""
        if end < len(self.log):
            del self.log[end:]
            self.flushed = min(self.flushed, end)
            self.cut_to = min(self.cut_to, end)
            self.dirty.append(self.id)

    def set_hw(self, hw: int) -> None:
        """Set the HW. The checker judges whether it may fall."""
        if hw != self.hw:
            if hw < self.hw:
                self.fell_from = max(self.fell_from, self.hw)
            self.hw = hw
            self.dirty.append(self.id)

    def last_epoch(self) -> int:
        """Return the epoch of the log's last record; 0 for an empty log."""
        return self.log[-1].epoch if self.log else 0

    def end_of_epoch(self, asked: int) -> tuple[int, int]:
        """Return the log's greatest epoch up to the requested one, and its end offset (KIP-101, KIP-279)."""
        for at in range(len(self.log), 0, -1):
            if self.log[at - 1].epoch <= asked:
                return self.log[at - 1].epoch, at
        return 0, 0

    def stop_threads(self) -> None:
        """Stop the fetcher; an answer still under way is ignored."""
        self.fetcher = Fetcher.STOPPED
        self.thread += 1

    def copy(self, dirty: list[int]) -> Broker:
        """Return a copy that reports changes to another list."""
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
        """Return a key that distinguishes two states; the thread count is left out where answers come at once."""
        return (
            self.alive, self.paused, self.incarnation, self.notices, tuple(self.log), self.flushed,
            self.checkpoint, self.checkpoints, self.started, self.hw, self.role, self.fetcher,
            self.partition.key(isr_version),
        )  # fmt: skip


class Producer:
    """A client that sends records one after another, each until it is acknowledged."""

    __slots__ = ("abandoned", "acknowledged", "attempt", "epoch", "id", "leader", "left", "number", "waits")

    def __init__(self, id_: int, left: int) -> None:
        self.id = id_
        self.epoch = 0
        self.number = 0
        """Number of the record that is next or under way."""
        self.left = left
        """Records that are still to be sent."""
        self.attempt = 0
        self.waits = False
        """Tells whether the producer waits for an answer."""
        self.leader = UNKNOWN
        """Broker to which it sends; it queries the store when that broker does not answer."""
        self.acknowledged = 0
        self.abandoned: frozenset[int] = frozenset()
        """Numbers of records that it abandoned when it restarted."""

    def copy(self) -> Producer:
        """Return a copy."""
        twin = Producer.__new__(Producer)
        twin.id, twin.epoch, twin.number, twin.left = self.id, self.epoch, self.number, self.left
        twin.attempt, twin.waits, twin.leader = self.attempt, self.waits, self.leader
        twin.acknowledged, twin.abandoned = self.acknowledged, self.abandoned
        return twin

    def key(self) -> tuple[object, ...]:
        """Return a key that distinguishes two states."""
        return (self.epoch, self.number, self.left, self.attempt, self.waits, self.leader, self.acknowledged)


def producer_state(log: list[Record], producer: int) -> tuple[int, int, int]:
    """Return a producer's last epoch and number in a log, and that record's end offset; UNKNOWN if it has none."""
    for at in range(len(log), 0, -1):
        record = log[at - 1]
        if record.producer == producer:
            return record.producer_epoch, record.number, at
    return UNKNOWN, UNKNOWN, 0
