"""Unreplicated records after an emergency switch: which ones only the old cluster has, and when they have arrived.

Clients were moved without querying it. The records that only it holds follow from what the others have. Once it is
back, they are distributed like all others, exactly once; this module only observes their arrival.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from backend.domain.switch.switch_commands import RecordArrived
from backend.queries.switch.switches import SwitchRow
from workers.switches.drain import Drain
from workers.switches.estate_view import EstateView
from workers.switches.scope import Scope


class UnreplicatedRecords:
    """Unreplicated records of one switch; used by one thread. Calls raise KafkaCallFailed and can be repeated."""

    def __init__(self, estate: EstateView, switch: SwitchRow, scope: Scope) -> None:
        self._drain = Drain(estate, switch.source, scope.online_leaves, scope.streams)
        self._marked = False

    def now(self) -> list[dict[str, Any]]:
        """Return the records that no other leaf has: stream, partition, first offset, end and number of records.

        End and number are None if the cluster is unreachable, since its log end is unknown.
        """
        self._drain.warm_up()
        return [asdict(each) for each in self._drain.undrained()]

    def arrived(self, stranded: Sequence[Mapping[str, Any]]) -> RecordArrived | None:
        """Return the late records, once the cluster is back and every other online leaf has all of them."""
        if not self._drain.source_answers():
            self._marked = False
            return None
        if not self._marked:
            self._drain.mark()
            self._marked = True
        if not self._drain.observe().is_drained:
            return None
        produced, ends, lows = self._drain.last_produced(), self._drain.ends(), self._drain.lows()
        found, lost = [], []
        for each in stranded:
            place, first = (each["stream"], each["partition"]), each["first"]
            incarnation, end = ends.get(place, (-1, 0))
            if incarnation != each["incarnation"] or end < first:
                # The log was recreated or truncated: its unreplicated records are lost.
                lost.append((*place, first))
                continue
            if lows[place] > first:
                # Deleted there meanwhile, perhaps before any copy was made: report a possible loss.
                lost.append((*place, first))
            first = max(first, lows[place])
            if produced.get(place, (0, -1))[1] >= first:
                found.append((*place, first, produced[place][1]))
        records = sum(last - first + 1 for _, _, first, last in found)
        return RecordArrived(records=records, partitions=tuple(found), lost=tuple(lost))
