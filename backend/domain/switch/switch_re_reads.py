"""How many records come again to a group that a switch moves: a bound that holds, or an estimate with its reason.

In an emergency a group goes on where its offset was set for the last commit that had been carried over. What it
has read since then comes again too, whether it has committed that or not. A group without members on the source
reads nothing any more, so all of it is known; one with members reads on until its clients are stopped.
"""

from __future__ import annotations

from dataclasses import dataclass

from backend.domain.switch.switch_facts import OffsetFact

PENDING = "pending"
"""State of an offset on the target that was set for an earlier commit than the newest."""
SET_ANEW = "the switch sets it anew, exactly; a group that does not follow discovery reads on until it is stopped"
NOTHING_SET = "nothing is set for it on the target yet: it begins where its auto.offset.reset says"
SILENT = "the source does not answer: what the group has read there since its last commit is not known"
READS_ON = (
    "the group reads on until its clients are stopped; counted to the end of the source's log at this moment"
)
FAR_BEHIND = (
    "its newest commit is not carried over yet; counted from the offset on the target to the log's end there"
)


@dataclass(frozen=True, kw_only=True)
class ReRead:
    """`bound` records at most; None: nobody can tell. `estimate`: why more may come; None: the bound holds."""

    bound: int | None
    estimate: str | None


def planned(known: OffsetFact | None) -> ReRead:
    """Return what is set now; it is set anew before clients move."""
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
    """Return what comes again where the group goes on from the offset that is set on the target by now.

    `committed`: its newest commit on the source; `source_end`, `target_end`: of the logs, None of a cluster that
    is silent; `lacking`: at most so many records that the source holds and the target does not: they come later.
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
            # Records that it has read are still on their way to the target, behind the offset that is set there.
            if lacking is None:
                return ReRead(bound=None, estimate=FAR_BEHIND)
            bound += lacking
        return ReRead(bound=bound, estimate=READS_ON if has_members else None)
    if target_end is None or lacking is None:
        return ReRead(bound=None, estimate=FAR_BEHIND)
    return ReRead(bound=max(0, target_end - known.offset) + lacking, estimate=FAR_BEHIND)


def _larger(first: int | None, second: int | None) -> int | None:
    return max((each for each in (first, second) if each is not None), default=None)
