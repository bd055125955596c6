"""What stays on the cluster that clients were moved from."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from itertools import zip_longest
from typing import Any

import structlog

from backend.domain.switch.cluster_switch import EMERGENCY, Phase
from backend.domain.switch.switch_report import STOOD, WRITTEN, PhaseTimes
from backend.kafka.base.errors import KafkaCallFailed
from backend.queries.switch.discovery_clients import ClientRow
from backend.queries.switch.switches import SwitchRow
from workers.switches.closing import GroupClosing
from workers.switches.drain import Drain
from workers.switches.estate_view import EstateView
from workers.switches.outcome import group_name
from workers.switches.read_on import since
from workers.switches.scope import Scope
from workers.switches.stranded import Stranded
from workers.switches.topology import Partition

log = structlog.get_logger("switches")

_TOLD_SECONDS = 5.0
_AGAIN_SECONDS = 0.1


def written_until(drain: Drain) -> dict[str, list[int]]:
    """By stream and partition: the offset behind the last record that was born on the source at the mark, or where
    the log ended if none of them is left."""
    return _by_partition(drain, {place: end for place, (_, end) in drain.ends().items()})


def written_by_now(drain: Drain) -> dict[str, list[int]]:
    """The same of a later mark: where none of them is left, the log has copies that have come since. Only of one
    that is empty it cannot be told what was in it."""
    lows = drain.lows()
    return _by_partition(
        drain, {place: end if lows[place] >= end else 0 for place, (_, end) in drain.ends().items()}
    )


def _by_partition(drain: Drain, unborn: Mapping[Partition, int]) -> dict[str, list[int]]:
    born, found = drain.born(), dict[str, list[int]]()
    for (stream, partition), until in sorted(unborn.items()):
        row = found.setdefault(stream, [])
        row += [0] * (partition - len(row))
        row.append(born[stream, partition][1] + 1 if (stream, partition) in born else until)
    return found


def written_since(before: Mapping[str, Sequence[int]], now: Mapping[str, Sequence[int]]) -> int:
    """At most so many records were born between two marks; partitions that came between them count from 0."""
    pairs = (zip_longest(row, before.get(stream, ()), fillvalue=0) for stream, row in now.items())
    return sum(max(0, until - since) for row in pairs for until, since in row)


def measured_last(phases: Sequence[PhaseTimes], name: Phase) -> Mapping[str, Any]:
    """Of a phase, when it came last: after one whose hold ran out, clients went on for a while, and rightly so."""
    return next((phase.measured for phase in reversed(phases) if phase.name == name), {})


class Left:
    """Of one switch; used by one thread."""

    def __init__(self, estate: EstateView, switch: SwitchRow, scope: Scope) -> None:
        self._estate, self._switch, self._scope = estate, switch, scope
        self._drain: Drain | None = None
        self._marked_for: frozenset[object] = frozenset()
        self._at_work: dict[str, dict[Partition, int]] = {}
        self._working: frozenset[str] = frozenset()

    @property
    def _some_stay(self) -> bool:
        return any(moving.zone is not None for moving in self._switch.moves)

    def groups(self) -> Sequence[str]:
        """Groups that still have members there, by logical names; none if the cluster does not answer. None of
        zones either: others of the environment stay, and rightly so."""
        try:
            return self._groups()
        except KafkaCallFailed as error:
            self._not_asked(error)
            return ()

    def _groups(self) -> Sequence[str]:
        if self._switch.mode == EMERGENCY or self._some_stay or not self._scope.source_is_online:
            return ()
        return [group_name(one) for one in self._closing().members().on_source]

    @property
    def some_work(self) -> bool:
        """Whether groups had members there when it was looked last: what they have read since is not noted yet."""
        return bool(self._working)

    def note_at_work(self) -> None:
        """Groups that have members there now may read what was carried over already: up to where the logs end."""
        try:
            self._note()
        except KafkaCallFailed as error:
            self._not_asked(error)

    def _note(self) -> None:
        there = frozenset(self._groups())
        # Those that have left since the last time have read up to where the logs end by now, at most.
        seen = there | self._working
        if seen:
            self._at_work |= dict.fromkeys(seen, self._ends())
        self._working = there

    def read_on(self, phases: Sequence[PhaseTimes]) -> Sequence[Mapping[str, Any]] | None:
        """Groups that went on there after they were carried over; None if that cannot be told."""
        measured = measured_last(phases, Phase.CLOSING)
        if STOOD not in measured or not self._scope.source_is_online:
            return None
        try:
            self._note()
            noted = measured[STOOD]
            if noted is None:
                return None if self._at_work else ()
            standing = self._closing().stands()
            return since(noted, standing, self._ends(), self._at_work)
        except KafkaCallFailed as error:
            self._not_asked(error)
            return None

    def _ends(self) -> dict[Partition, int]:
        drain = self._to_target()
        drain.mark()
        return {place: end for place, (_, end) in drain.ends().items()}

    def _closing(self) -> GroupClosing:
        switch, scope = self._switch, self._scope
        return GroupClosing(self._estate, switch.source, switch.target, scope.environments, scope.streams)

    def _not_asked(self, error: KafkaCallFailed) -> None:
        log.info("the cluster that was left cannot be asked", switch=self._switch.id, reason=error.reason)

    def stray_records(self, phases: Sequence[PhaseTimes]) -> int | None:
        """At most so many records were born there since the drain was measured; None if that cannot be told, as
        where clients of other zones go on there."""
        told = measured_last(phases, Phase.DRAINING)
        if not isinstance(told.get(WRITTEN), Mapping) or self._some_stay or not self._scope.source_is_online:
            return None
        drain = self._to_target()
        try:
            drain.warm_up()
            drain.mark()
            until = time.monotonic() + _TOLD_SECONDS
            while not drain.look().is_drained and not drain.is_told and time.monotonic() < until:
                time.sleep(_AGAIN_SECONDS)
            return written_since(told[WRITTEN], written_by_now(drain)) if drain.is_told else None
        except KafkaCallFailed as error:
            self._not_asked(error)
            return None

    def has_arrived(self, held: Sequence[ClientRow]) -> bool:
        """Whether the target has all that was written there until these clients began to hold; False if a cluster
        that would know does not answer."""
        try:
            if self._drain is None:
                drain = self._to_target()
                drain.warm_up()
                self._drain = drain
            # By their words: one that went on meanwhile, and holds once more, has written since.
            words = frozenset((each.place, each.client_id, each.still_since) for each in held)
            if words != self._marked_for:
                # Whoever holds by now has nothing in flight: what it sent lies before the logs' ends.
                self._drain.mark()
                self._marked_for = words
            return self._drain.look().is_drained
        except KafkaCallFailed as error:
            self._not_asked(error)
            return False

    def _to_target(self) -> Drain:
        switch = self._switch
        return Drain(self._estate, switch.source, (switch.target,), self._scope.streams)

    def stranded(self) -> Sequence[Mapping[str, Any]]:
        """Of an emergency: what no other leaf has."""
        if self._switch.mode != EMERGENCY:
            return ()
        return Stranded(self._estate, self._switch, self._scope).now()
