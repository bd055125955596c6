"""The view of a cluster's placement policy and of brokers that joined or left."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from backend.domain.placement.broker_changes import BrokerPresence, BrokerStatus, broker_status
from backend.domain.placement.placement_policy import PlacementPolicy, Policy
from backend.queries.clusters.broker_presence import ObservedBrokers
from backend.queries.placement.placements import PlacementRow
from backend.web.words.figures import counted, span

POLICY_TEXT = {
    Policy.OFF: "nothing happens",
    Policy.PROPOSE: "a plan is proposed for review, and nothing moves",
    Policy.APPLY: "a plan is proposed and applied, unless it needs review",
}
_MOST_NAMED = 20
_STATUS_TEXT = {
    BrokerStatus.SETTLING: "is new and holds no replicas yet",
    BrokerStatus.JOINED: "has joined and holds no replicas yet",
    BrokerStatus.EMPTY: "is meant to be empty",
    BrokerStatus.AWAY: "is away",
    BrokerStatus.LEFT: "has left",
}


@dataclass(frozen=True, kw_only=True)
class PolicyView:
    """The placement policy of a cluster, with the observed brokers."""

    policy: PlacementPolicy
    seen: ObservedBrokers
    settled: timedelta
    """Time after which an arrived broker counts as joined."""
    proposed: PlacementRow | None = None
    """A proposed placement that waits for an operator."""
    proposed_name: str = ""

    @property
    def sentence(self) -> str:
        """Describe the policy."""
        return POLICY_TEXT[self.policy.policy]

    @property
    def away(self) -> str:
        """Return the time after which a missing broker has left."""
        return counted(self.policy.away_minutes, "minute")

    @property
    def brokers(self) -> Sequence[str]:
        """Describe the brokers that do not simply hold replicas."""
        lines = [line for each in self.seen.brokers if (line := self._line(each)) is not None]
        more = len(lines) - _MOST_NAMED
        return [*lines[:_MOST_NAMED], f"And {counted(more, 'broker')} more."] if more > 0 else lines

    def _line(self, broker: BrokerPresence) -> str | None:
        now = self.seen.now
        status = broker_status(broker, self.settled, timedelta(minutes=self.policy.away_minutes), now)
        if status is None:
            return None
        since_ms = (now - broker.since).total_seconds() * 1000
        return f"Broker {broker.id} {_STATUS_TEXT[status]}, for {span(since_ms)}."
