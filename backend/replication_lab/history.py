"""What was committed, and what was promised about it: the memory that the invariants need."""

from __future__ import annotations

from enum import StrEnum

from backend.replication_lab.messages import Record, named


class Invariant(StrEnum):
    """What must hold after every step; with asynchronous acknowledgement, not by the documents (`checking`)."""

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
    Invariant.COMMITTED_LOST: "a committed record is never lost while one in-sync replica lives",
    Invariant.LOGS_DIFFER: "the logs of all replicas agree up to their HW",
    Invariant.UNCOMMITTED_READ: "only committed records are read",
    Invariant.BELOW_MIN_ISR: "acks=all with fewer replicas in sync than min ISR is refused",
    Invariant.WRITTEN_TWICE: "a record that is sent again is written once",
    Invariant.OUT_OF_ORDER: "a producer's records are committed in the order in which it sent them, without gaps",
    Invariant.TWO_LEADERS: "two brokers never commit different records at one offset",
    Invariant.NOT_READABLE: "what was acknowledged as committed can be read",
    Invariant.UNANSWERED: "a leader that steps down answers every request that it took",
    Invariant.FORGOTTEN: "every assigned replica is in sync or catching up (AR = ISR + CUR)",
    Invariant.HW_FELL: "a replica's HW does not fall, but by a restart",
    Invariant.NEVER_SETTLES: "when faults are healed, replicas come in sync again and all requests are answered",
}


class History:
    """Committed records in order, and the first invariant that did not hold."""

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
        """By producer: its last committed record."""
        self.applied: dict[int, tuple[tuple[Record, frozenset[int]], ...]] = {}
        """By offset, where nothing is committed: records, and the brokers that have had them in their logs."""
        self.noted: dict[int, int] = {}
        """By broker: up to which offset its log is in `applied`."""
        self.lost_promise = 0
        """So many of the committed may be lost: for a moment no in-sync replica lived."""
        self.unclean_epoch = 0
        """Of the last leader that was not in sync. Who still follows an earlier one commits what is lost."""
        self.expected_losses: tuple[tuple[int, Record], ...] = ()
        """Those that were: by their offsets."""
        self.checked: dict[int, int] = {}
        """By broker: up to which offset its log was seen to agree with the committed records."""
        self.violated: Invariant | None = None
        self.what = ""
        """What happened, in words."""

    def add(self, record: Record) -> None:
        """It is committed."""
        self.committed.append(record)
        self.identities.add((record.producer, record.number))
        self.last_of[record.producer] = record

    def elected_unclean(self, epoch: int) -> None:
        """Who leads from this epoch on was neither in sync nor eligible: it may lack whatever is committed."""
        self.lost_promise, self.unclean_epoch = len(self.committed), epoch

    def forget_from(self, offset: int) -> None:
        """What was committed from there on is lost, as has to be expected."""
        kept, self.committed, self.identities, self.last_of = self.committed[:offset], [], set(), {}
        for record in kept:
            self.add(record)

    def out_of_order(self, record: Record, *, gaps: bool) -> str | None:
        """Why it cannot come next of its producer, in words; with `gaps`, records before it may be missing.

        So they may where something was lost as expected, and where its producer began anew and left some.
        """
        last = self.last_of.get(record.producer)
        if last is None:
            return None
        if record.producer_epoch < last.producer_epoch or record.number < last.number:
            return f"behind {named(last)}, which its producer sent later"
        if gaps or record.producer_epoch > last.producer_epoch or self.expected_losses or self.unclean_epoch:
            return None
        if record.number > last.number + 1:
            return f"although what its producer sent after {named(last)} and before it is not"
        return None

    def violate(self, invariant: Invariant, what: str) -> None:
        """Keep the first violation."""
        if self.violated is None:
            self.violated, self.what = invariant, what

    def copy(self) -> History:
        """Another one of the same."""
        twin = History.__new__(History)
        twin.committed, twin.identities = self.committed.copy(), self.identities.copy()
        twin.applied, twin.lost_promise = dict(self.applied), self.lost_promise
        twin.expected_losses, twin.checked = self.expected_losses, dict(self.checked)
        twin.noted, twin.violated, twin.what = dict(self.noted), self.violated, self.what
        twin.last_of, twin.unclean_epoch = dict(self.last_of), self.unclean_epoch
        return twin

    def key(self) -> tuple[object, ...]:
        """What tells two of them apart."""
        return (
            tuple(self.committed),
            self.lost_promise,
            self.unclean_epoch,
            self.expected_losses,
            tuple([(at, frozenset(self.applied[at])) for at in sorted(self.applied)]),
        )
