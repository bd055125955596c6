"""After an emergency: what only the cluster that was left has, and when the others have it.

Its clients were moved without asking it. What it alone holds is told by what the others have, and once it is back
it is distributed like everything else, exactly once: nothing is done here but to see that it has arrived.
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


class Stranded:
    """Of one switch; used by one thread. Calls raise KafkaCallFailed; they can be repeated."""

    def __init__(self, estate: EstateView, switch: SwitchRow, scope: Scope) -> None:
        self._drain = Drain(estate, switch.source, scope.online_leaves, scope.streams)
        self._marked = False

    def now(self) -> list[dict[str, Any]]:
        """What no other leaf has: stream, partition, first offset, end and records (None: the cluster is gone, and
        nobody knows how far its log reaches)."""
        self._drain.warm_up()
        return [asdict(each) for each in self._drain.undrained()]

    def arrived(self, stranded: Sequence[Mapping[str, Any]]) -> RecordArrived | None:
        """What has come late, once the cluster is back and every other leaf that is online has all of it."""
        if not self._drain.source_answers():
            self._marked = False
            return None
        if not self._marked:
            self._drain.mark()
            self._marked = True
        if not self._drain.look().is_drained:
            return None
        born, ends, lows = self._drain.born(), self._drain.ends(), self._drain.lows()
        found, lost = [], []
        for each in stranded:
            place, first = (each["stream"], each["partition"]), each["first"]
            incarnation, end = ends.get(place, (-1, 0))
            if incarnation != each["incarnation"] or end < first:
                # The log was made anew, or was cut off: what it alone held is nowhere any more.
                lost.append((*place, first))
                continue
            if lows[place] > first:
                # Removed there meanwhile, perhaps before anybody had it: what cannot be told is not told as well.
                lost.append((*place, first))
            first = max(first, lows[place])
            if born.get(place, (0, -1))[1] >= first:
                found.append((*place, first, born[place][1]))
        records = sum(last - first + 1 for _, _, first, last in found)
        return RecordArrived(records=records, partitions=tuple(found), lost=tuple(lost))
