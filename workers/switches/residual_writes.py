"""Observes what remains on the old cluster: members of groups, residual writes, unreplicated records."""

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
from workers.switches.topology import Partition
from workers.switches.unreplicated import UnreplicatedRecords

log = structlog.get_logger("switches")

_TOLD_SECONDS = 5.0
_AGAIN_SECONDS = 0.1


def produced_until(drain: Drain) -> dict[str, list[int]]:
    """Return, by stream and partition, the offset behind the last record produced on the source before the mark.

    Where no such record is left, it is the log end.
    """
    return _by_partition(drain, {place: end for place, (_, end) in drain.ends().items()})


def produced_by_now(drain: Drain) -> dict[str, list[int]]:
    """Return the same for a later mark, with 0 where no record produced there is left.

    Such a log may hold copies that arrived since; only of an empty log the content is unknown.
    """
    lows = drain.lows()
    return _by_partition(
        drain, {place: end if lows[place] >= end else 0 for place, (_, end) in drain.ends().items()}
    )


def _by_partition(drain: Drain, otherwise: Mapping[Partition, int]) -> dict[str, list[int]]:
    produced, found = drain.last_produced(), dict[str, list[int]]()
    for (stream, partition), until in sorted(otherwise.items()):
        row = found.setdefault(stream, [])
        row += [0] * (partition - len(row))
        row.append(produced[stream, partition][1] + 1 if (stream, partition) in produced else until)
    return found


def produced_since(before: Mapping[str, Sequence[int]], now: Mapping[str, Sequence[int]]) -> int:
    """Return an upper bound of the records produced between two marks; new partitions count from 0."""
    pairs = (zip_longest(row, before.get(stream, ()), fillvalue=0) for stream, row in now.items())
    return sum(max(0, until - since) for row in pairs for until, since in row)


def measured_last(phases: Sequence[PhaseTimes], name: Phase) -> Mapping[str, Any]:
    """Return the measurements of the last run of a phase; after earlier runs, clients continued and wrote."""
    return next((phase.measured for phase in reversed(phases) if phase.name == name), {})


class Residuals:
    """Observations of one switch; used by one thread."""

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
        """Return the groups that still have members there, by logical name.

        There are none if the cluster does not answer, and none for a switch of zones, where other clients stay.
        """
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
    def had_members(self) -> bool:
        """Return whether groups had members there at the last observation, so that they may have read since."""
        return bool(self._working)

    def note_at_work(self) -> None:
        """Record that groups with members there may re-read up to the present log ends."""
        try:
            self._note()
        except KafkaCallFailed as error:
            self._not_asked(error)

    def _note(self) -> None:
        there = frozenset(self._groups())
        # Groups that left since the last observation have read up to the present log ends at most.
        seen = there | self._working
        if seen:
            self._at_work |= dict.fromkeys(seen, self._ends())
        self._working = there

    def read_on(self, phases: Sequence[PhaseTimes]) -> Sequence[Mapping[str, Any]] | None:
        """Return the groups that read on there after their offsets were translated; None: unknown."""
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
        log.info("the old cluster cannot be queried", switch=self._switch.id, reason=error.reason)

    def stray_records(self, phases: Sequence[PhaseTimes]) -> int | None:
        """Return an upper bound of the residual writes: records produced there since the drain was marked.

        None if it is unknown, or if clients of other zones legitimately stay there.
        """
        told = measured_last(phases, Phase.DRAINING)
        if not isinstance(told.get(WRITTEN), Mapping) or self._some_stay or not self._scope.source_is_online:
            return None
        drain = self._to_target()
        try:
            drain.warm_up()
            drain.mark()
            until = time.monotonic() + _TOLD_SECONDS
            while not drain.observe().is_drained and not drain.is_told and time.monotonic() < until:
                time.sleep(_AGAIN_SECONDS)
            return produced_since(told[WRITTEN], produced_by_now(drain)) if drain.is_told else None
        except KafkaCallFailed as error:
            self._not_asked(error)
            return None

    def has_arrived(self, held: Sequence[ClientRow]) -> bool:
        """Return whether the target has all records written there until these clients began to hold.

        False if a cluster that is needed does not answer.
        """
        try:
            if self._drain is None:
                drain = self._to_target()
                drain.warm_up()
                self._drain = drain
            # Identify holds by their start: a client that released its hold and holds again has written since.
            words = frozenset((each.place, each.client_id, each.still_since) for each in held)
            if words != self._marked_for:
                # Clients that hold by now have nothing in flight: their records lie before the log ends.
                self._drain.mark()
                self._marked_for = words
            return self._drain.observe().is_drained
        except KafkaCallFailed as error:
            self._not_asked(error)
            return False

    def _to_target(self) -> Drain:
        switch = self._switch
        return Drain(self._estate, switch.source, (switch.target,), self._scope.streams)

    def stranded(self) -> Sequence[Mapping[str, Any]]:
        """Return the unreplicated records of an emergency switch: those that no other leaf has."""
        if self._switch.mode != EMERGENCY:
            return ()
        return UnreplicatedRecords(self._estate, self._switch, self._scope).now()
