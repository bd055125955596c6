"""Event stream `edge-<cluster>-<level>`: records that a distributor could not copy; each has an event.

A record that the target refuses is **dead-lettered** (`RecordSetAside`): it waits in an internal topic on the
target and can be replayed. Records that retention or deletion removed from the source before they were read are
**lost**, recorded with their exact offset range. When a topic is re-created, the end of the former log is unknown:
records that were seen there and not copied are lost; records written after those, if any, are **possibly lost**.
One event covers all partitions of a re-created topic.

    (record) --RecordDeadLetter--> dead-lettered --RecordReplay--> replayed --RecordDeadLetter--> dead-lettered
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
    """The target refused a record; it is in the dead-letter topic there, and copying continues after it."""

    id: str
    cluster: str
    level: int
    target: str
    stream: str
    partition: int
    offset: int
    """Offset on the distributor's source."""
    origin: tuple[int, int, int] | None
    """(Number of the origin cluster, incarnation, offset there); null if the record carries no origin."""
    reason: str


@dataclass(frozen=True, kw_only=True)
class SetAsideReplayed(Event, name="SetAsideReplayed", version=1):
    """A dead-lettered record was written to the clusters that lacked it."""

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
    """Null in events from before SourceReplaced, if the topic was re-created."""
    reason: str


@dataclass(frozen=True, kw_only=True)
class SourceReplaced(Event, name="SourceReplaced", version=1):
    """A source topic was re-created; the end of the former log is unknown, so some of its records may be lost."""

    cluster: str
    level: int
    target: str
    stream: str
    incarnation: int
    """Incarnation of the new topic."""
    partitions: tuple[tuple[int, int, int], ...]
    """(Partition, offset in the former log before which the target has everything, number of offsets from there on
    that were seen and not read). Records written after those and never seen, if any, are gone, too."""


@dataclass(frozen=True, kw_only=True)
class LossesAcknowledged(Event, name="LossesAcknowledged", version=1):
    """An operator acknowledged all losses of this distributor so far."""

    cluster: str
    level: int


EdgeEvent = RecordSetAside | SetAsideReplayed | RecordsLost | SourceReplaced | LossesAcknowledged

# --- commands


@dataclass(frozen=True, kw_only=True)
class RecordDeadLetter:
    """Record that a record is being dead-lettered."""

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
        """Identify the record and the target; refusals of the same record by the same target share the id."""
        origin = ".".join(map(str, self.origin)) if self.origin else f"{self.cluster}-{self.level}.{self.offset}"
        return f"{self.stream}/{self.partition}/{origin}@{self.target}"


@dataclass(frozen=True, kw_only=True)
class RecordReplay:
    """Record that a dead-lettered record was replayed."""

    id: str
    clusters: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class RecordLoss:
    """Record that offsets were gone from the source; see RecordsLost."""

    cluster: str
    level: int
    target: str
    stream: str
    partition: int
    first_offset: int
    last_offset: int
    reason: str
    incarnation: int
    """Incarnation of the newest records there: offsets that are assigned a second time can be lost a second
    time."""

    @property
    def id(self) -> str:
        """Identify the offset range and the distributor."""
        offsets = f"{self.incarnation}.{self.first_offset}-{self.last_offset}"
        return f"{self.stream}/{self.partition}/{offsets}@{self.cluster}-{self.level}-{self.target}"

    @property
    def event(self) -> RecordsLost:
        """Return the event that records the loss."""
        fields = {name: value for name, value in vars(self).items() if name != "incarnation"}
        return RecordsLost(id=self.id, **fields)


@dataclass(frozen=True, kw_only=True)
class RecordReplacement:
    """Record that a topic was re-created; see SourceReplaced. Partitions already recorded are left out."""

    cluster: str
    level: int
    target: str
    stream: str
    incarnation: int
    partitions: tuple[tuple[int, int, int], ...]


@dataclass(frozen=True, kw_only=True)
class Acknowledge:
    """Acknowledge the losses of a distributor, by an operator."""

    cluster: str
    level: int


EdgeCommand = RecordDeadLetter | RecordReplay | RecordLoss | RecordReplacement | Acknowledge


def replacement_id(event: RecordReplacement | SourceReplaced, partition: int) -> str:
    """Return the id of a possible loss of one partition: one for each distributor, partition and new topic."""
    edge = f"{event.cluster}-{event.level}-{event.target}"
    return f"{event.stream}/{partition}/before {event.incarnation}@{edge}"


def replacement_reason(first_offset: int, at_least: int) -> str:
    """Describe what is known about one partition of a former topic, and what is not."""
    if at_least:
        seen = f"{at_least} offsets of the former one, from {first_offset} on, were seen but not read"
        return f"the topic was re-created; {seen}; records written after those, if any, are gone, too"
    return (
        "the topic was re-created; nothing of the former one is known to be missing, but records written to it "
        f"from offset {first_offset} on, if any, are gone"
    )


# --- state


@dataclass(frozen=True, kw_only=True)
class Edge:
    """Ids of dead-lettered records (True once replayed) and losses, and whether any loss is unacknowledged."""

    dead_letters: dict[str, bool] = field(default_factory=dict)
    lost: frozenset[str] = frozenset()
    unseen: bool = False


INITIAL = Edge()

# --- decide


def decide(state: Edge, command: EdgeCommand) -> list[EdgeEvent]:
    """Return the events that carry out the command; none for facts already recorded. Raises NotFound."""
    match command:
        case RecordDeadLetter():
            # A record that is refused again after its replay is missing again.
            waits = state.dead_letters.get(command.id) is False
            return [] if waits else [RecordSetAside(id=command.id, **vars(command))]
        case RecordReplay():
            if command.id not in state.dead_letters:
                raise NotFound(f"there is no dead-lettered record {command.id!r}; GET /set-aside lists them")
            if state.dead_letters[command.id] and not command.clusters:
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
    """Return the state after an event; events of other versions of this program never raise."""
    match event:
        case RecordSetAside():
            return replace(state, dead_letters={**state.dead_letters, event.id: False})
        case SetAsideReplayed():
            return replace(state, dead_letters={**state.dead_letters, event.id: True})
        case RecordsLost():
            return replace(state, lost=state.lost | {event.id}, unseen=True)
        case SourceReplaced():
            ids = (replacement_id(event, partition) for partition, _, _ in event.partitions)
            return replace(state, lost=state.lost.union(ids), unseen=True)
        case LossesAcknowledged():
            return replace(state, unseen=False)
        case _:
            return state
