"""Rules of a world: the documents' pseudo-code in one of its readings, or what Kafka has done since.

The documents leave things open (docs/decisions/0043 lists each with the reading taken), so a reading is a value
here and not a branch of the code. Each fix is one value as well: a mode in between shows what a fix is for.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from types import MappingProxyType


class NewLeaderHw(StrEnum):
    """HW of a new leader: the documents say "r.hw = r.leo", with a TODO beside it."""

    LEO = "leo"
    CHECKPOINT = "checkpoint"
    """The HW on disk, as the TODO suggests."""
    OWN = "own"
    """The HW stays as it was and rises as followers fetch (KIP-101)."""


class OffByOne(StrEnum):
    """Readings of the HW: "offset of the last committed message" in the text, an end offset in the code."""

    NONE = "none"
    """End offsets everywhere."""
    REACHED = "reached"
    """A follower that fetches from offset n counts as having it."""
    TRUNCATED = "truncated"
    """Truncating to the HW removes the message at it."""


class Truncation(StrEnum):
    """Offset to which a follower truncates its log for a new leader."""

    HW = "high watermark"
    EPOCH = "epoch"
    """End of its last epoch on the leader, requested once (KIP-101)."""
    EXACT = "exact"
    """Requested until both know the epoch (KIP-279)."""


@dataclass(frozen=True, kw_only=True)
class Rules:
    """Rules of the protocol: the first fields are readings of the documents, the others are fixes."""

    mode: str
    new_leader_hw: NewLeaderHw = NewLeaderHw.LEO
    off_by_one: OffByOne = OffByOne.NONE
    committer_sets_leader_hw: bool = True
    """The `r` of "r.hw = pr.offset" is the leader's replica; otherwise the replica that the loop before it visited
    last.
    """
    passes_ar: bool = True
    """becomeLeader gets AR, as it is declared; otherwise CUR, as leaderElection calls it."""
    yields_to_higher_hw: bool = False
    """A replica that sees a higher HW in the ISR waits for the preferred replica's time; otherwise every replica
    but the preferred one waits.
    """

    truncation: Truncation = Truncation.HW
    fenced: bool = False
    """Fetches name the leader epoch and are refused in another one (KIP-320)."""
    compare_and_set: bool = False
    """Writes of ISR and leader are conditional on the version that was read."""
    idempotent: bool = False
    """Producers number their records, and leaders know which they have (KIP-98)."""
    keeps_hw: bool = False
    """A follower's HW neither falls nor exceeds its log end offset."""
    broker_epochs: bool = False
    """A broker that restarts after a crash leaves the ISR (KIP-903); eligible leader replicas exist (KIP-966)."""
    judges_by_progress: bool = False
    """The leader judges followers by their fetches, not by the waiting request: ISR and HW need no traffic.
    """
    min_isr_at_commit: bool = False
    """min.insync.replicas is checked when a request is committed, not only when it arrives."""
    answers_first: bool = False
    """A leader that steps down answers all waiting requests."""

    @property
    def has_epochs(self) -> bool:
        """Tell whether leaders have epochs."""
        return self.fenced or self.compare_and_set or self.truncation is not Truncation.HW


FAITHFUL = Rules(mode="faithful")
"""The documents, in the readings that decision 43 names."""

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
"""All fixes at once."""

KIP_101 = replace(FIXED, mode="kip-101", truncation=Truncation.EPOCH, fenced=False)
"""Truncation by epochs alone: fetches are not fenced, and the epoch is requested once."""

KIP_279 = replace(FIXED, mode="kip-279", fenced=False)
"""Exact truncation, with fetches that are not fenced."""

MODES: Mapping[str, Rules] = MappingProxyType({each.mode: each for each in (FAITHFUL, FIXED, KIP_101, KIP_279)})
"""Modes by name, as CLI and REST take them."""
