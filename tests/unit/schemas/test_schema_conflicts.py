"""A conflict is told once when it is found and once when it is gone, however often it is seen."""

from __future__ import annotations

from dataclasses import replace

from backend.domain.schemas import schema_conflicts
from backend.domain.schemas.schema_conflicts import (
    ID_TAKEN,
    MOST_AT_ONCE,
    Conflict,
    ConflictEvent,
    RecordConflicts,
    SchemaConflictFound,
    SchemaConflictResolved,
    TargetConflicts,
)

TAKEN = Conflict(kind=ID_TAKEN, subject="acme-prod-orders-value", version=1, schema_id=7, detail="it is taken")
OTHER = replace(TAKEN, schema_id=8)


def after(*looks: tuple[Conflict, ...]) -> tuple[TargetConflicts, list[ConflictEvent]]:
    state, events = schema_conflicts.INITIAL, []
    for conflicts in looks:
        decided = schema_conflicts.decide(state, RecordConflicts(cluster="c4", conflicts=conflicts))
        for event in decided:
            state = schema_conflicts.evolve(state, event)
        events += decided
    return state, events


def test_one_event_for_a_conflict_that_is_seen_again_and_again() -> None:
    state, events = after((TAKEN,), (TAKEN,), (replace(TAKEN, detail="told otherwise"),))
    assert events == [SchemaConflictFound(cluster="c4", **vars(TAKEN))]
    assert list(state.open) == [TAKEN]


def test_it_is_resolved_once_and_can_come_again() -> None:
    state, events = after((TAKEN, OTHER), (OTHER,), (OTHER,), (TAKEN, OTHER))
    found, resolved = SchemaConflictFound, SchemaConflictResolved
    assert [(type(each), each.schema_id) for each in events] == [(found, 7), (found, 8), (resolved, 7), (found, 7)]
    assert set(state.open) == {TAKEN, OTHER}


def test_many_come_in_several_commands() -> None:
    many = tuple(replace(TAKEN, schema_id=number) for number in range(MOST_AT_ONCE + 1))
    state, events = after(many)
    assert len(events) == MOST_AT_ONCE
    state, events = after(many, many)
    assert set(state.open) == set(many)
