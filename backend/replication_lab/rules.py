"""By which rules a world runs: the documents' pseudo-code in one of its readings, or what Kafka does since.

The documents leave things open (docs/decisions/0043 lists each with the reading taken), so that a reading is a
value here and no branch of the code. Each mend is one value as well: a mode between the two shows what the mend
is for.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from types import MappingProxyType


class NewLeaderHw(StrEnum):
    """What a new leader takes for its HW: the documents say "r.hw = r.leo", with a TODO beside it."""

    LEO = "leo"
    CHECKPOINT = "checkpoint"
    """What the TODO asks about."""
    OWN = "own"
    """It stays what it was, and rises as followers fetch (KIP-101)."""


class OffByOne(StrEnum):
    """HW is "the offset of the last committed message" in the text and an end offset in the code."""

    NONE = "none"
    """End offsets everywhere."""
    REACHED = "reached"
    """A follower that asks for offset n counts as one that has it."""
    TRUNCATED = "truncated"
    """Truncating to the HW takes the message at it away."""


class Truncation(StrEnum):
    """How far a follower cuts its log back for a new leader."""

    HW = "high watermark"
    EPOCH = "epoch"
    """To the end of its last epoch on the leader, asked for once (KIP-101)."""
    EXACT = "exact"
    """Asked for until both know the epoch (KIP-279)."""


@dataclass(frozen=True, kw_only=True)
class Rules:
    """The protocol. Fields of the first part choose readings of the documents, those of the second are mends."""

    mode: str
    new_leader_hw: NewLeaderHw = NewLeaderHw.LEO
    off_by_one: OffByOne = OffByOne.NONE
    committer_sets_leader_hw: bool = True
    """The `r` of "r.hw = pr.offset" is the leader's replica; otherwise that which the loop before it looked at
    last.
    """
    passes_ar: bool = True
    """becomeLeader gets AR, as it is declared; otherwise CUR, as leaderElection calls it."""
    yields_to_higher_hw: bool = False
    """Who sees a higher HW among the ISR waits for the preferred replica's time; otherwise everybody else waits.
    """

    truncation: Truncation = Truncation.HW
    fenced: bool = False
    """Fetches name the leader epoch and are refused in another (KIP-320)."""
    compare_and_set: bool = False
    """ISR and leader are written only over the version that was read."""
    idempotent: bool = False
    """Producers number their records, and leaders know what they have (KIP-98)."""
    keeps_hw: bool = False
    """A follower's HW neither falls nor passes its log's end."""
    broker_epochs: bool = False
    """Who comes back from a crash is in sync no more (KIP-903); eligible leader replicas (KIP-966)."""
    judges_by_progress: bool = False
    """The leader judges followers by what they fetch, not by the request that waits: ISR and HW need no traffic.
    """
    min_isr_at_commit: bool = False
    """min.insync.replicas holds when a request is committed, not only when it comes."""
    answers_first: bool = False
    """Who steps down answers all that wait."""

    @property
    def has_epochs(self) -> bool:
        """Leaders are numbered."""
        return self.fenced or self.compare_and_set or self.truncation is not Truncation.HW


FAITHFUL = Rules(mode="faithful")
"""The documents, in the readings that the decision names."""

FIXED = Rules(
    mode="fixed",
    new_leader_hw=NewLeaderHw.OWN,
    truncation=Truncation.EXACT,
    fenced=True,
    compare_and_set=True,
    idempotent=True,
    keeps_hw=True,
    broker_epochs=True,
    judges_by_progress=True,
    min_isr_at_commit=True,
    answers_first=True,
)
"""All mends at once."""

KIP_101 = replace(FIXED, mode="kip-101", truncation=Truncation.EPOCH, fenced=False)
"""Truncation by epochs alone: fetches are not fenced, and the epoch is asked for once."""

KIP_279 = replace(FIXED, mode="kip-279", fenced=False)
"""Exact truncation, but fetches that are not fenced."""

MODES: Mapping[str, Rules] = MappingProxyType({each.mode: each for each in (FAITHFUL, FIXED, KIP_101, KIP_279)})
"""By name, as CLI and REST take them."""
