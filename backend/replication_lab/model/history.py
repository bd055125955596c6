"""Committed records and what was promised about them: the memory of the invariants."""

from __future__ import annotations

from enum import StrEnum

from backend.replication_lab.model.messages import Record, named


class Invariant(StrEnum):
    """Conditions that must hold after every step; for asynchronous acknowledgement see `checking`."""

    COMMITTED_LOST = "committed_record_lost"
    LOGS_DIFFER = "logs_differ_below_hw"
    UNCOMMITTED_READ = "uncommitted_record_read"
    BELOW_MIN_ISR = "acknowledged_below_min_isr"
    WRITTEN_TWICE = "record_written_twice"
    OUT_OF_ORDER = "producer_order_broken"
    TWO_LEADERS = "two_leaders_commit"
    NOT_READABLE = "acknowledged_record_not_readable"
    UNANSWERED = "request_never_answered"
    FORGOTTEN = "replica_forgotten"
    HW_FELL = "high_watermark_fell"
    NEVER_SETTLES = "never_settles"


IN_WORDS = {
    Invariant.COMMITTED_LOST: "a committed record is never lost while one in-sync replica is alive",
    Invariant.LOGS_DIFFER: "the logs of all replicas agree up to their HW",
    Invariant.UNCOMMITTED_READ: "only committed records are read",
    Invariant.BELOW_MIN_ISR: "acks=all with fewer replicas in sync than min.insync.replicas is refused",
    Invariant.WRITTEN_TWICE: "a retried record is written once",
    Invariant.OUT_OF_ORDER: "a producer's records are committed in the order in which it sent them, without gaps",
    Invariant.TWO_LEADERS: "two brokers never commit different records at one offset",
    Invariant.NOT_READABLE: "a record acknowledged as committed can be read",
    Invariant.UNANSWERED: "a leader that steps down answers every request that it accepted",
    Invariant.FORGOTTEN: "every assigned replica is in sync or catching up (AR = ISR + CUR)",
    Invariant.HW_FELL: "a replica's HW never falls, except by a restart",
    Invariant.NEVER_SETTLES: "once faults are healed, replicas return to the ISR and all requests are answered",
}


class History:
    """Committed records in order, and the first violated invariant."""

    __slots__ = (
        "applied",
        "checked",
        "committed",
        "expected_losses",
        "identities",
        "last_of",
        "lost_promise",
        "noted",
        "unclean_epoch",
        "violated",
        "what",
    )

    def __init__(self) -> None:
        self.committed: list[Record] = []
        self.identities: set[tuple[int, int]] = set()
        """Producer and number of each committed record."""
        self.last_of: dict[int, Record] = {}
        """Last committed record of each producer."""
        self.applied: dict[int, tuple[tuple[Record, frozenset[int]], ...]] = {}
        """Offset beyond the committed ones -> records there, with the brokers that have had them in their logs."""
        self.noted: dict[int, int] = {}
        """Broker -> offset up to which its log is in `applied`."""
        self.lost_promise = 0
        """Number of committed records that may be lost: for a moment no in-sync replica was alive."""
        self.unclean_epoch = 0
        """Epoch of the last unclean leader. A broker that still follows an earlier leader may commit records that
        are lost."""
        self.expected_losses: tuple[tuple[int, Record], ...] = ()
        """Offsets and records that were lost as expected."""
        self.checked: dict[int, int] = {}
        """Broker -> offset up to which its log is known to agree with the committed records."""
        self.violated: Invariant | None = None
        self.what = ""
        """Description of the violation."""

    def add(self, record: Record) -> None:
        """Add a committed record."""
        self.committed.append(record)
        self.identities.add((record.producer, record.number))
        self.last_of[record.producer] = record

    def elected_unclean(self, epoch: int) -> None:
        """Note an unclean election: the leader of this epoch may lack any committed record."""
        self.lost_promise, self.unclean_epoch = len(self.committed), epoch

    def forget_from(self, offset: int) -> None:
        """Drop the records from an offset on, which are lost as expected."""
        kept, self.committed, self.identities, self.last_of = self.committed[:offset], [], set(), {}
        for record in kept:
            self.add(record)

    def out_of_order(self, record: Record, *, gaps: bool) -> str | None:
        """Return the reason why a record cannot be its producer's next one; None if it can.

        `gaps` permits missing records before it. They are also permitted after expected losses, and where a
        producer restarted and abandoned some.
        """
        last = self.last_of.get(record.producer)
        if last is None:
            return None
        if record.producer_epoch < last.producer_epoch or record.number < last.number:
            return f"after {named(last)}, which its producer sent later"
        if gaps or record.producer_epoch > last.producer_epoch or self.expected_losses or self.unclean_epoch:
            return None
        if record.number > last.number + 1:
            return f"although its producer's records between {named(last)} and it are not committed"
        return None

    def violate(self, invariant: Invariant, what: str) -> None:
        """Record the first violation."""
        if self.violated is None:
            self.violated, self.what = invariant, what

    def copy(self) -> History:
        """Return a copy."""
        twin = History.__new__(History)
        twin.committed, twin.identities = self.committed.copy(), self.identities.copy()
        twin.applied, twin.lost_promise = dict(self.applied), self.lost_promise
        twin.expected_losses, twin.checked = self.expected_losses, dict(self.checked)
        twin.noted, twin.violated, twin.what = dict(self.noted), self.violated, self.what
        twin.last_of, twin.unclean_epoch = dict(self.last_of), self.unclean_epoch
        return twin

    def key(self) -> tuple[object, ...]:
        """Return a key that distinguishes two histories."""
        return (
            tuple(self.committed),
            self.lost_promise,
            self.unclean_epoch,
            self.expected_losses,
            tuple([(at, frozenset(self.applied[at])) for at in sorted(self.applied)]),
        )
