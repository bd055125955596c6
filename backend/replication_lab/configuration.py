"""What a world is made of: brokers, replicas, acknowledgement and times; impossible ones are refused."""

from __future__ import annotations

from dataclasses import dataclass

from backend.domain.base.words import counted

MOST_BROKERS = 20
MOST_PRODUCERS = 5
LEAST_OF_A_WAIT = 0.95
"""Time-outs vary by a twentieth: none passes before."""
_MOST_SHOWN = 60
"""Characters of what was given and cannot be."""


def shown(value: object) -> str:
    """What was given, as far as a message has room for it."""
    try:
        text = repr(value)
    except ValueError:  # Python writes no number of more than 4,300 digits
        return "a number of thousands of digits"
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}..."


class ImpossibleDrill(ValueError):
    """What was asked for cannot be; the message says what is wrong and what would do."""


@dataclass(frozen=True, kw_only=True)
class Times:
    """In simulated milliseconds."""

    keep_in_sync: float = 1_000
    """KeepInSyncTime: how long a leader waits before it drops a follower."""
    leader_election_wait: float = 300
    """LeaderElectionWaitTime: how long one that is not the preferred replica waits before it stands for
    election.
    """
    session: float = 600
    """After so long without a sign of life a broker's session with the store ends."""
    checkpoint: float = 250
    """Between two flushes of log and HW."""
    fetch: float = 5
    """Between two fetches of a follower that finds nothing new."""
    network: float = 1
    """A message takes half of it to one and a half."""
    request: float = 400
    """After so long without an answer a producer tries again."""
    produce: float = 10
    """Between an answer and a producer's next record."""


@dataclass(frozen=True, kw_only=True)
class Configuration:
    """One partition of one topic on some brokers.

    Raises:
        ImpossibleDrill: it contradicts itself.
    """

    brokers: int = 3
    replication_factor: int = 3
    min_isr: int = 2
    producers: int = 1
    acks_all: bool = True
    """Synchronous replication: a record is acknowledged when it is committed; otherwise when the leader has it."""
    records: int = 20
    """That each producer hands in."""
    gives_way: bool = True
    """Leaders give way to the preferred replica as soon as it is in sync (checkLoadBalancing)."""
    most_fetched: int = 100
    """Records in an answer to a fetch."""
    unclean_election: bool = False
    """Where nobody lives that is in sync or eligible, any replica may lead (`unclean.leader.election.enable`):
    what it lacks is lost.
    """
    times: Times = Times()

    def __post_init__(self) -> None:
        _within("brokers", self.brokers, 1, MOST_BROKERS)
        _within("replication_factor", self.replication_factor, 1, MOST_BROKERS)
        _within("min_isr", self.min_isr, 1, MOST_BROKERS)
        _within("producers", self.producers, 0, MOST_PRODUCERS)
        if self.replication_factor > self.brokers:
            raise ImpossibleDrill(
                f"replication_factor is {self.replication_factor}, but there "
                f"{'is' if self.brokers == 1 else 'are'} {counted(self.brokers, 'broker')}: each replica is on a "
                f"broker of its own. Take {self.brokers} or fewer, or more brokers."
            )
        if self.min_isr > self.replication_factor:
            raise ImpossibleDrill(
                f"min_isr is {self.min_isr}, above the replication factor {self.replication_factor}: no record "
                f"could ever be acknowledged with acks=all. Take {self.replication_factor} or less."
            )

    @property
    def assigned(self) -> tuple[int, ...]:
        """AR: the first brokers, the preferred one first."""
        return tuple(range(1, self.replication_factor + 1))


def _within(name: str, value: int, least: int, most: int) -> None:
    if not least <= value <= most:
        raise ImpossibleDrill(f"{name} is {shown(value)}: it must be {least} to {most}.")
