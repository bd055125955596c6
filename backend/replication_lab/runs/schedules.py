"""Schedules of faults: read, checked, and run on a world in which producers send all the time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import pairwise
from typing import Any

from backend.replication_lab.model.configuration import Configuration, InvalidDrill, shown
from backend.replication_lab.model.history import Invariant
from backend.replication_lab.model.messages import NOBODY
from backend.replication_lab.model.rules import MODES
from backend.replication_lab.model.start_states import established, wake_all
from backend.replication_lab.model.world import Action, World
from backend.replication_lab.runs.recovery import settles, unsettled
from backend.replication_lab.runs.timed import Clock

MOST_FAULTS = 100
LONGEST_MS = 60_000
MOST_REPLICA_MS = 240_000
"""Limit of replicas times the time of the last heal: replicas fetch all the time, and a run may take only
seconds."""
_QUIET_MS = 2_000
"""Producers continue for this long after the last fault was healed."""
_MUCH = 1 << 30

HEALED_BY: Mapping[str, str | None] = {
    "crash": "restart",
    "power_loss": "restart",
    "pause": "resume",
    "cut": "heal",
    "slow": "fast",
    "slow_disk": "fast",
    "session_expiry": None,
}
"""Fault -> the action that heals it; None: an expired session is re-established by itself."""
_HEALS = frozenset(filter(None, HEALED_BY.values()))
"""Healing actions, which come first where another fault begins at the same time."""


@dataclass(frozen=True, kw_only=True)
class Fault:
    """A fault, with its start and duration."""

    at_ms: float
    fault: str
    broker: int
    other: int | None = None
    """Other end of a `cut`, 0 for the store."""
    for_ms: float | None = None

    def actions(self) -> list[tuple[float, Action]]:
        """Return the begin and the heal of the fault, as timed actions."""
        whom = (self.broker,) if self.other is None else (self.broker, self.other)
        found: list[tuple[float, Action]] = [(self.at_ms, (self.fault, *whom))]
        healed_by = HEALED_BY[self.fault]
        if healed_by is not None and self.for_ms is not None:
            found.append((self.at_ms + self.for_ms, (healed_by, *whom)))
        return found


@dataclass(frozen=True)
class Run:
    """Result of a schedule."""

    world: World
    steps: tuple[Action, ...]
    start: World
    acknowledged: tuple[float, ...]
    """Times of the acknowledgements, in simulated milliseconds."""
    states: tuple[tuple[float, int, frozenset[int]], ...]
    """Each change of the store's leader (0: none) and ISR, with its time."""
    longest_gap_ms: float | None
    """Longest time between two acknowledgements, from the first fault to the end; None after an earlier violation,
    or without producers.
    """


def read_schedule(document: object) -> tuple[Configuration, tuple[Fault, ...]]:
    """Read a configuration and its faults from plain data, as YAML or JSON give it.

    Raises:
        InvalidDrill: something is missing, unknown or contradictory; the message says where.
    """
    if not isinstance(document, Mapping):
        raise InvalidDrill("a schedule must be a mapping: brokers, replication_factor, min_isr, ..., faults.")
    known = {each.name for each in fields(Configuration)} - {"times", "records", "most_fetched"}
    unknown = sorted(shown(each) for each in set(document) - known - {"faults"})
    if unknown:
        raise InvalidDrill(f"{unknown[0]} is unknown; use {', '.join(sorted(known))} or faults.")
    given = {key: _plain(key, value) for key, value in document.items() if key != "faults"}
    configuration = Configuration(records=_MUCH, **given)
    listed = document.get("faults")
    if not isinstance(listed, Sequence) or isinstance(listed, str) or not listed:
        raise InvalidDrill("`faults` must be a list with at least one fault: at_ms, fault, broker, for_ms.")
    if len(listed) > MOST_FAULTS:
        raise InvalidDrill(f"there are {len(listed)} faults; at most {MOST_FAULTS} are allowed.")
    faults = tuple(_read_fault(number, each) for number, each in enumerate(listed, 1))
    check_schedule(configuration, faults)
    return configuration, faults


def _plain(key: Any, value: object) -> Any:
    wanted = bool if key in ("acks_all", "gives_way", "unclean_election") else int
    if type(value) is not wanted:
        raise InvalidDrill(
            f"{key} is {shown(value)}: it must be {'true or false' if wanted is bool else 'a number'}."
        )
    return value


def _read_fault(number: int, given: object) -> Fault:
    where = f"fault {number}"
    if not isinstance(given, Mapping):
        raise InvalidDrill(f"{where} is {shown(given)}: it must have at_ms, fault, broker and for_ms.")
    names = {each.name for each in fields(Fault)}
    for key in given:
        if key not in names:
            raise InvalidDrill(f"{where} has {shown(key)}, which is unknown; use {', '.join(sorted(names))}.")
    for key in ("at_ms", "fault", "broker"):
        if key not in given:
            raise InvalidDrill(f"{where} has no {key}.")
    kind = given["fault"]
    if not isinstance(kind, str) or kind not in HEALED_BY:
        raise InvalidDrill(f"{where} is a {shown(kind)}, which is unknown; use one of {', '.join(HEALED_BY)}.")
    for key in set(given) - {"fault"}:
        value = given[key]
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= LONGEST_MS:
            raise InvalidDrill(f"{where}: {key} is {shown(value)}; it must be a number from 0 to {LONGEST_MS:,}.")
    for key in {"broker", "other"} & set(given):
        if not isinstance(given[key], int):
            raise InvalidDrill(f"{where}: {key} is {shown(given[key])}; it must be the number of a broker.")
    return Fault(**dict(given))


def check_schedule(configuration: Configuration, faults: Iterable[Fault]) -> None:
    """Refuse a schedule that cannot be run.

    Raises:
        InvalidDrill: a broker is unknown, a fault is never healed or overlaps itself, or a broker is
            paused that is down.
    """
    until: dict[tuple[str | None, tuple[int, ...]], float] = {}
    for number, each in sorted(enumerate(faults, 1), key=lambda numbered: numbered[1].at_ms):
        where = f"fault {number} ({each.fault} of broker {each.broker} at {each.at_ms:g} ms)"
        _check_ends(configuration, each, where)
        healed_by = HEALED_BY[each.fault]
        if healed_by is None:
            if each.for_ms is not None:
                raise InvalidDrill(f"{where} has for_ms; leave it out: the session comes back by itself.")
            _check_length(configuration, each.at_ms, where)
            continue
        if each.for_ms and each.for_ms < 1:
            raise InvalidDrill(f"{where} lasts less than a millisecond: set for_ms to at least 1.")
        if not each.for_ms:
            raise InvalidDrill(
                f"{where} is never healed: the partition could not recover, and whether anything is lost for good "
                f"would stay open. Set for_ms to the time after which the {healed_by} comes."
            )
        whom = (healed_by, tuple(sorted((each.broker, each.other or NOBODY))))
        if each.at_ms < until.get(whom, -1):
            raise InvalidDrill(f"{where} overlaps the one before, which lasts until {until[whom]:g} ms.")
        down = until.get((HEALED_BY["crash"], whom[1]), -1)
        if each.fault == "pause" and each.at_ms < down:
            raise InvalidDrill(f"{where} begins while the broker is down, until {down:g} ms: nothing to pause.")
        until[whom] = each.at_ms + each.for_ms
        _check_length(configuration, until[whom], where)


def _check_length(configuration: Configuration, until: float, where: str) -> None:
    replicas = configuration.replication_factor
    latest = min(LONGEST_MS, MOST_REPLICA_MS // replicas)
    if until > latest:
        fewer = f" with {replicas} replicas, which fetch all the time" if latest < LONGEST_MS else ""
        raise InvalidDrill(f"{where} lasts until {until:g} ms; the limit is {latest:,} ms{fewer}.")


def _check_ends(configuration: Configuration, each: Fault, where: str) -> None:
    brokers = range(1, configuration.brokers + 1)
    if each.broker not in brokers:
        raise InvalidDrill(f"{where}: there is no broker {each.broker}; there are 1 to {configuration.brokers}.")
    if each.fault != "cut":
        if each.other is not None:
            raise InvalidDrill(f"{where} has `other`, which only a cut may have.")
        return
    if each.other is None:
        raise InvalidDrill(f"{where} needs `other`: the broker at its other end, or 0 for the store.")
    if each.other != NOBODY and each.other not in brokers:
        raise InvalidDrill(
            f"{where}: there is no broker {each.other}; there are 1 to {configuration.brokers}, and 0, the store."
        )
    if each.other == each.broker:
        raise InvalidDrill(f"{where}: a broker cannot be cut off from itself.")


def run_schedule(configuration: Configuration, faults: Sequence[Fault], mode: str, seed: int) -> Run:
    """Run a schedule: producers send until two seconds after the last heal, then the partition must recover.

    Raises:
        InvalidDrill: there is no such mode, or `check_schedule` refuses the schedule.
    """
    if mode not in MODES:
        raise InvalidDrill(f"there is no mode {mode!r}; use one of {', '.join(MODES)}.")
    check_schedule(configuration, faults)
    start = established(configuration, MODES[mode])
    world = start.copy()
    clock = Clock(world, seed)
    wake_all(world)
    end = _QUIET_MS
    actions = [each for fault in faults for each in fault.actions()]
    for at, action in sorted(actions, key=lambda each: (each[0], each[1][0] not in _HEALS)):
        clock.at(at, action)
        end = max(end, int(at) + _QUIET_MS)
    watched = _Watched(world)
    while world.now <= end and world.history.violated is None and clock.next_at() is not None:
        clock.step()
        watched.look(world)
    for producer in world.producers:
        producer.left = 1 if producer.waits else 0
    was_run = world.history.violated is None
    if was_run and not settles(clock):
        world.history.violate(Invariant.NEVER_SETTLES, unsettled(world))
    watched.look(world)
    first = min(each.at_ms for each in faults)
    return Run(
        world,
        tuple(clock.steps),
        start,
        tuple(watched.acknowledged),
        tuple(watched.states),
        _longest_gap(watched.acknowledged, first, end) if was_run and world.producers else None,
    )


class _Watched:
    """Recorder of acknowledgements, leaders and ISR during a run."""

    def __init__(self, world: World) -> None:
        self.acknowledged: list[float] = []
        self.states: list[tuple[float, int, frozenset[int]]] = [(world.now, world.store.leader, world.store.isr)]
        self._counted = 0

    def look(self, world: World) -> None:
        """Record the state after a step."""
        counted = sum(each.acknowledged for each in world.producers)
        if counted != self._counted:
            self._counted = counted
            self.acknowledged.append(world.now)
        store = world.store
        _, leader, isr = self.states[-1]
        if store.leader != leader or store.isr != isr:
            self.states.append((world.now, store.leader, store.isr))


def _longest_gap(times: Sequence[float], first: float, last: float) -> float:
    inside = [each for each in times if first <= each <= last]
    edges = [max([each for each in times if each < first], default=first), *inside, last]
    return max((later - earlier for earlier, later in pairwise(edges)), default=0.0)
