"""Event stream `edge-<cluster>-<level>`: what a distributor could not copy. Nothing is left out without an event.

A record that the target refuses is **set aside**: it waits in a topic of ours on the target and can be replayed.
What was gone from the source before it could be read (retention, deletion) is **lost**, and named with its exact
range. Of a topic that was made anew the end of the former log is unknown: what was seen there and not copied is
lost; what was written behind that, if anything, is **possibly lost**. One event tells it of all partitions.

    (record) --SetAside--> set aside --RecordReplay--> replayed --SetAside--> set aside
    (range)  --RecordLoss--> lost --Acknowledge--> acknowledged
    (topic)  --RecordReplacement--> lost, or possibly lost --Acknowledge--> acknowledged
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from backend.domain.base.errors import NotFound
from backend.domain.base.event import Event

# --- events


@dataclass(frozen=True, kw_only=True)
class RecordSetAside(Event, name="RecordSetAside", version=1):
    """The target refused a record; it is in the quarantine topic there, and what follows it goes on."""

    id: str
    cluster: str
    level: int
    target: str
    stream: str
    partition: int
    offset: int
    """On the distributor's source."""
    origin: tuple[int, int, int] | None
    """Number of the cluster where it was born, incarnation, offset there; null if the record does not say."""
    reason: str


@dataclass(frozen=True, kw_only=True)
class SetAsideReplayed(Event, name="SetAsideReplayed", version=1):
    """A record that had been set aside was written where it was missing."""

    id: str
    clusters: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class RecordsLost(Event, name="RecordsLost", version=1):
    """Records were gone from the source before this distributor could read them."""

    id: str
    cluster: str
    level: int
    target: str
    stream: str
    partition: int
    first_offset: int
    last_offset: int | None
    """Null in events of before SourceReplaced, if the topic was made anew."""
    reason: str


@dataclass(frozen=True, kw_only=True)
class SourceReplaced(Event, name="SourceReplaced", version=1):
    """A source's topic was made anew; records of the former one may be lost: the end of its log is unknown."""

    cluster: str
    level: int
    target: str
    stream: str
    incarnation: int
    """Of the new topic."""
    partitions: tuple[tuple[int, int, int], ...]
    """Partition; offset in the former log before which the target has everything; how many offsets from there on
    were seen and not read. What was written behind them and never seen, if anything, is gone, too."""


@dataclass(frozen=True, kw_only=True)
class LossesAcknowledged(Event, name="LossesAcknowledged", version=1):
    """An operator has seen all that this distributor lost so far."""

    cluster: str
    level: int


EdgeEvent = RecordSetAside | SetAsideReplayed | RecordsLost | SourceReplaced | LossesAcknowledged

# --- commands


@dataclass(frozen=True, kw_only=True)
class SetAside:
    """Say that a record is being set aside."""

    cluster: str
    level: int
    target: str
    stream: str
    partition: int
    offset: int
    origin: tuple[int, int, int] | None
    reason: str

    @property
    def id(self) -> str:
        """Names the record and the target; the same whenever the same record is refused there again."""
        born = ".".join(map(str, self.origin)) if self.origin else f"{self.cluster}-{self.level}.{self.offset}"
        return f"{self.stream}/{self.partition}/{born}@{self.target}"


@dataclass(frozen=True, kw_only=True)
class RecordReplay:
    """Say that a record was replayed."""

    id: str
    clusters: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class RecordLoss:
    """Say that offsets were gone; see RecordsLost."""

    cluster: str
    level: int
    target: str
    stream: str
    partition: int
    first_offset: int
    last_offset: int
    reason: str
    incarnation: int
    """Of the source's newest records there: offsets that are given out anew can be lost anew."""

    @property
    def id(self) -> str:
        """Names the range and the distributor."""
        offsets = f"{self.incarnation}.{self.first_offset}-{self.last_offset}"
        return f"{self.stream}/{self.partition}/{offsets}@{self.cluster}-{self.level}-{self.target}"

    @property
    def event(self) -> RecordsLost:
        """That it was so."""
        told = {name: value for name, value in vars(self).items() if name != "incarnation"}
        return RecordsLost(id=self.id, **told)


@dataclass(frozen=True, kw_only=True)
class RecordReplacement:
    """Say that a topic was made anew; see SourceReplaced. Partitions of which it was said are left out."""

    cluster: str
    level: int
    target: str
    stream: str
    incarnation: int
    partitions: tuple[tuple[int, int, int], ...]


@dataclass(frozen=True, kw_only=True)
class Acknowledge:
    """An operator takes note of what was lost."""

    cluster: str
    level: int


EdgeCommand = SetAside | RecordReplay | RecordLoss | RecordReplacement | Acknowledge


def replacement_id(event: RecordReplacement | SourceReplaced, partition: int) -> str:
    """Name what may be lost of one partition with a former topic: once for each distributor and new topic."""
    edge = f"{event.cluster}-{event.level}-{event.target}"
    return f"{event.stream}/{partition}/before {event.incarnation}@{edge}"


def replacement_reason(first_offset: int, at_least: int) -> str:
    """Say in words what is known of one partition of a former topic, and what is not."""
    if at_least:
        seen = f"{at_least} offsets of the former one, from {first_offset} on, were seen and not read"
        return f"the topic was made anew; {seen}, and what was written behind them, if anything, is gone, too"
    return (
        "the topic was made anew; nothing of the former one is known to be missing, but what was written to it "
        f"from offset {first_offset} on, if anything, is gone"
    )


# --- state


@dataclass(frozen=True, kw_only=True)
class Edge:
    """Ids of what was set aside (whether replayed) and lost, and whether some of the latter is unseen."""

    set_aside: dict[str, bool] = field(default_factory=dict)
    lost: frozenset[str] = frozenset()
    unseen: bool = False


INITIAL = Edge()

# --- decide


def decide(state: Edge, command: EdgeCommand) -> list[EdgeEvent]:
    """Events that carry the command out; none for what is known already. Raises NotFound."""
    match command:
        case SetAside():
            # Refused again after it was replayed, it is missing again.
            waits = state.set_aside.get(command.id) is False
            return [] if waits else [RecordSetAside(id=command.id, **vars(command))]
        case RecordReplay():
            if command.id not in state.set_aside:
                raise NotFound(f"no record {command.id!r} was set aside; GET /set-aside lists them")
            if state.set_aside[command.id] and not command.clusters:
                return []
            return [SetAsideReplayed(id=command.id, clusters=command.clusters)]
        case RecordLoss():
            return [] if command.id in state.lost else [command.event]
        case RecordReplacement():
            new = tuple(each for each in command.partitions if replacement_id(command, each[0]) not in state.lost)
            return [SourceReplaced(**{**vars(command), "partitions": new})] if new else []
        case Acknowledge():
            return [LossesAcknowledged(cluster=command.cluster, level=command.level)] if state.unseen else []


# --- evolve


def evolve(state: Edge, event: Event) -> Edge:
    """The state after an event; events of other versions of this program never make it fail."""
    match event:
        case RecordSetAside():
            return replace(state, set_aside={**state.set_aside, event.id: False})
        case SetAsideReplayed():
            return replace(state, set_aside={**state.set_aside, event.id: True})
        case RecordsLost():
            return replace(state, lost=state.lost | {event.id}, unseen=True)
        case SourceReplaced():
            ids = (replacement_id(event, partition) for partition, _, _ in event.partitions)
            return replace(state, lost=state.lost.union(ids), unseen=True)
        case LossesAcknowledged():
            return replace(state, unseen=False)
        case _:
            return state
