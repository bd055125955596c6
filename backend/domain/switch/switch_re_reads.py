"""Computes how many records a moved group re-reads: a bound that holds, or an estimate with its reason.

In an emergency switch a group resumes at the offset that was set for its last translated commit. It re-reads all
records that it has read since then, committed or not. A group without members on the source reads nothing more, so
the figure is exact; a group with members keeps reading until its clients are stopped.
"""

from __future__ import annotations

from dataclasses import dataclass

from backend.domain.switch.switch_facts import OffsetFact

PENDING = "pending"
"""State of an offset on the target that was set for an earlier commit than the newest."""
SET_ANEW = "the switch sets the offset exactly; a group that does not use discovery reads until it is stopped"
NOTHING_SET = "no offset is set on the target yet; the group starts where its auto.offset.reset says"
SILENT = "the source is unreachable; what the group has read there since its last commit is unknown"
READS_ON = "the group reads until its clients are stopped; counted to the current end of the source's log"
FAR_BEHIND = (
    "its newest commit is not translated yet; counted from its offset on the target to the end of the log there"
)


@dataclass(frozen=True, kw_only=True)
class ReRead:
    """Bound of re-read records; None: unknown. `estimate`: why more may be re-read; None: the bound holds."""

    bound: int | None
    estimate: str | None


def planned(known: OffsetFact | None) -> ReRead:
    """Return the bound of the offset set now; the switch sets the offset again before clients move."""
    return ReRead(bound=None if known is None else known.re_read_bound, estimate=SET_ANEW)


def in_emergency(
    known: OffsetFact | None,
    *,
    committed: int | None,
    has_members: bool,
    source_end: int | None,
    target_end: int | None,
    lacking: int | None,
) -> ReRead:
    """Return how many records a group re-reads that resumes at the offset set on the target by now.

    `committed`: its newest commit on the source; `source_end`, `target_end`: log ends, None for an unreachable
    cluster; `lacking`: upper bound of the records that the source holds and the target does not: they come later.
    """
    if known is None or known.offset is None:
        return ReRead(bound=None, estimate=NOTHING_SET)
    if source_end is None:
        since_offset = None if target_end is None else max(0, target_end - known.offset)
        return ReRead(bound=_larger(known.re_read_bound, since_offset), estimate=SILENT)
    if known.state != PENDING and known.re_read_bound is not None:
        read = source_end if has_members or committed is None else committed
        bound = known.re_read_bound + max(0, read - known.committed)
        if not known.settled:
            # Records that the group has read are still being copied, to offsets behind the one set on the target.
            if lacking is None:
                return ReRead(bound=None, estimate=FAR_BEHIND)
            bound += lacking
        return ReRead(bound=bound, estimate=READS_ON if has_members else None)
    if target_end is None or lacking is None:
        return ReRead(bound=None, estimate=FAR_BEHIND)
    return ReRead(bound=max(0, target_end - known.offset) + lacking, estimate=FAR_BEHIND)


def _larger(first: int | None, second: int | None) -> int | None:
    return max((each for each in (first, second) if each is not None), default=None)
