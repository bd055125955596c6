"""What stays on the cluster that clients were moved from."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

import structlog

from backend.domain.cluster_switch import EMERGENCY, Phase
from backend.domain.switch_report import PhaseTimes
from backend.kafka.errors import KafkaCallFailed
from backend.queries.discovery_clients import ClientRow
from backend.queries.switches import SwitchRow
from workers.switches.closing import GroupClosing
from workers.switches.drain import Drain
from workers.switches.estate_view import EstateView
from workers.switches.outcome import NAMED
from workers.switches.scope import Scope
from workers.switches.stranded import Stranded

log = structlog.get_logger("switches")

WRITTEN = "written_until"
"""Of the drain's measurements: sum of the offsets behind the last records that were born on the source."""
_TOLD_SECONDS = 5.0
_AGAIN_SECONDS = 0.1


def written_until(drain: Drain) -> int:
    """Sum of the offsets behind the last records that were born on the source at the mark."""
    return sum(offset + 1 for _, offset in drain.born().values())


class Left:
    """Of one switch; used by one thread."""

    def __init__(self, estate: EstateView, switch: SwitchRow, scope: Scope) -> None:
        self._estate, self._switch, self._scope = estate, switch, scope
        self._drain: Drain | None = None
        self._marked_for: frozenset[str] = frozenset()

    def groups(self) -> Sequence[str]:
        """Groups that still have members there, by logical names; none if the cluster does not answer."""
        switch, scope = self._switch, self._scope
        if switch.mode == EMERGENCY or not scope.source_is_online:
            return ()
        closing = GroupClosing(self._estate, switch.source, switch.target, scope.environments, scope.streams)
        try:
            found = closing.members().on_source
        except KafkaCallFailed as error:
            log.info("groups on the cluster that was left cannot be asked", switch=switch.id, reason=error.reason)
            return ()
        return ["/".join((one.tenant, one.instance, one.environment, one.group)) for one in found][:NAMED]

    def stray_records(self, phases: Sequence[PhaseTimes]) -> int | None:
        """At most so many records were born there since the drain was measured; None if that cannot be told."""
        # The last drain: after one whose hold ran out, clients went on there for a while, and rightly so.
        told = next((phase.measured for phase in reversed(phases) if phase.name == Phase.DRAINING), {})
        if WRITTEN not in told or not self._scope.source_is_online:
            return None
        drain = self._to_target()
        try:
            drain.warm_up()
            drain.mark()
            until = time.monotonic() + _TOLD_SECONDS
            while not drain.look().is_drained and not drain.is_told and time.monotonic() < until:
                time.sleep(_AGAIN_SECONDS)
            return max(0, written_until(drain) - told[WRITTEN]) if drain.is_told else None
        except KafkaCallFailed as error:
            log.info("the cluster that was left cannot be asked", switch=self._switch.id, reason=error.reason)
            return None

    def has_arrived(self, held: Sequence[ClientRow]) -> bool:
        """Whether the target has all that was written there until these clients began to hold."""
        if self._drain is None:
            self._drain = self._to_target()
            self._drain.warm_up()
        asked = frozenset(each.client_id for each in held)
        if asked != self._marked_for:
            # Whoever holds by now has nothing in flight: what it sent lies before the logs' ends.
            self._drain.mark()
            self._marked_for = asked
        return self._drain.look().is_drained

    def _to_target(self) -> Drain:
        switch = self._switch
        return Drain(self._estate, switch.source, (switch.target,), self._scope.streams)

    def stranded(self) -> Sequence[Mapping[str, Any]]:
        """Of an emergency: what no other leaf has."""
        if self._switch.mode != EMERGENCY:
            return ()
        return Stranded(self._estate, self._switch, self._scope).now()
