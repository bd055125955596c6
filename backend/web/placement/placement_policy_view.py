"""What pages say of brokers that come or go: what is done about it, and what is seen of each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from backend.domain.placement.broker_changes import BrokerPresence, Doing, doing
from backend.domain.placement.placement_policy import PlacementPolicy, Policy
from backend.queries.clusters.broker_presence import BrokersSeen
from backend.queries.placement.placements import PlacementRow
from backend.web.words.figures import counted, span

POLICY_SAID = {
    Policy.OFF: "nothing is done",
    Policy.PROPOSE: "a placement is proposed, and moves nothing",
    Policy.APPLY: "a placement is proposed and applied, unless there is something to look at first",
}
_MOST_NAMED = 20
_SAID = {
    Doing.SETTLING: "has come, and holds nothing yet",
    Doing.JOINED: "has joined, and holds nothing yet",
    Doing.EMPTY: "holds nothing, as it is meant to",
    Doing.AWAY: "is away",
    Doing.LEFT: "has left",
}


@dataclass(frozen=True, kw_only=True)
class PolicyView:
    """Of one cluster."""

    policy: PlacementPolicy
    seen: BrokersSeen
    settled: timedelta
    """After how long a broker that came has joined."""
    proposed: PlacementRow | None = None
    """A placement that waits for an operator."""

    @property
    def sentence(self) -> str:
        """What is done."""
        return POLICY_SAID[self.policy.policy]

    @property
    def away(self) -> str:
        """After how long a broker has left."""
        return counted(self.policy.away_minutes, "minute")

    @property
    def brokers(self) -> Sequence[str]:
        """What there is to say of single ones."""
        told = [said for each in self.seen.brokers if (said := self._said(each)) is not None]
        more = len(told) - _MOST_NAMED
        return [*told[:_MOST_NAMED], f"And so of {counted(more, 'broker')} more."] if more > 0 else told

    def _said(self, broker: BrokerPresence) -> str | None:
        now = self.seen.now
        does = doing(broker, self.settled, timedelta(minutes=self.policy.away_minutes), now)
        if does is None:
            return None
        return f"Broker {broker.id} {_SAID[does]}, for {span((now - broker.since).total_seconds() * 1000)}."
