"""Configuration of a world: brokers, replicas, acknowledgement and times; impossible values are refused."""

from __future__ import annotations

from dataclasses import dataclass

from backend.domain.base.words import counted

MOST_BROKERS = 20
MOST_PRODUCERS = 5
LEAST_OF_A_WAIT = 0.95
"""Least share of a timeout that passes: timeouts vary by a twentieth."""
_MOST_SHOWN = 60
"""Most characters of an invalid value that a message shows."""


def shown(value: object) -> str:
    """Show a value within the space that a message has."""
    try:
        text = repr(value)
    except ValueError:  # Python writes no number of more than 4,300 digits
        return "a number of thousands of digits"
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}..."


class InvalidDrill(ValueError):
    """The request is impossible; the message says what is wrong and what is possible."""


@dataclass(frozen=True, kw_only=True)
class Times:
    """Timeouts and intervals of the model, in simulated milliseconds."""

    keep_in_sync: float = 1_000
    """KeepInSyncTime: how long a leader waits before it drops a follower (replica.lag.time.max.ms)."""
    leader_election_wait: float = 300
    """LeaderElectionWaitTime: how long a replica other than the preferred one waits before it stands for election.
    """
    session: float = 600
    """A broker's session with the store ends after this long without a heartbeat."""
    checkpoint: float = 250
    """Interval between two flushes of log and HW."""
    fetch: float = 5
    """Interval between two fetches of a follower that finds nothing new."""
    network: float = 1
    """Mean latency of a message; it varies from half to one and a half of it."""
    request: float = 400
    """A producer retries after this long without an answer."""
    produce: float = 10
    """Interval between an answer and a producer's next record."""


@dataclass(frozen=True, kw_only=True)
class Configuration:
    """One partition of one topic on some brokers.

    Raises:
        InvalidDrill: the values contradict each other.
    """

    brokers: int = 3
    replication_factor: int = 3
    min_isr: int = 2
    producers: int = 1
    acks_all: bool = True
    """Synchronous replication: a record is acknowledged when it is committed; otherwise when the leader has it."""
    records: int = 20
    """Records that each producer sends."""
    gives_way: bool = True
    """Tells whether leaders yield to the preferred replica as soon as it is in sync (checkLoadBalancing)."""
    most_fetched: int = 100
    """Most records in a fetch response."""
    unclean_election: bool = False
    """Tells whether any replica may lead if no replica in the ISR or ELR is alive
    (`unclean.leader.election.enable`); what it lacks is lost.
    """
    times: Times = Times()

    def __post_init__(self) -> None:
        _within("brokers", self.brokers, 1, MOST_BROKERS)
        _within("replication_factor", self.replication_factor, 1, MOST_BROKERS)
        _within("min_isr", self.min_isr, 1, MOST_BROKERS)
        _within("producers", self.producers, 0, MOST_PRODUCERS)
        if self.replication_factor > self.brokers:
            raise InvalidDrill(
                f"replication_factor is {self.replication_factor}, but there "
                f"{'is' if self.brokers == 1 else 'are'} {counted(self.brokers, 'broker')}: each replica needs a "
                f"broker of its own. Use {self.brokers} or fewer, or more brokers."
            )
        if self.min_isr > self.replication_factor:
            raise InvalidDrill(
                f"min_isr is {self.min_isr}, above the replication factor {self.replication_factor}: no record "
                f"could ever be acknowledged with acks=all. Use {self.replication_factor} or less."
            )

    @property
    def assigned(self) -> tuple[int, ...]:
        """Return AR: the first brokers, the preferred replica first."""
        return tuple(range(1, self.replication_factor + 1))


def _within(name: str, value: int, least: int, most: int) -> None:
    if not least <= value <= most:
        raise InvalidDrill(f"{name} is {shown(value)}: it must be {least} to {most}.")
