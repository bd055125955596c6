"""Any requests for applications, in any order: history folds to one state, and contains the decisions."""

from __future__ import annotations

import dataclasses
from functools import reduce
from typing import Any, get_args

from hypothesis import given, settings
from hypothesis import strategies as st

from backend.domain.base.errors import DomainError
from backend.domain.base.event import Event
from backend.domain.tenants import application, application_commands
from backend.domain.tenants.application import OPERATIONS, Application, ApplicationEvent, GrantState
from backend.domain.tenants.application_commands import (
    ApplicationCommand,
    DeclareApplication,
    DeleteApplication,
    IssueCredentials,
    RevokeCredentials,
)
from backend.domain.tenants.application_records import (
    RecordAccessDrifted,
)
from backend.eventlog.registry import domain_registry
from tests.unit.tenants.application_strategies import CLUSTERS, STREAMS, clusters, commands, live

EVENTS = [of for of in get_args(ApplicationEvent) if isinstance(of, type)]
REGISTRY = domain_registry()


def stored(event: Event) -> Event:
    """The event as it comes back from the log."""
    return REGISTRY.decode(event.stored_name, event.schema_version, REGISTRY.encode(event))


@settings(deadline=None)
@given(st.lists(commands, max_size=25))
def test_what_is_read_from_the_log_folds_to_the_same_state(given_: list[ApplicationCommand]) -> None:
    state, history = live(given_, lambda *_: None)
    assert reduce(application.evolve, map(stored, history), application.INITIAL) == state


@settings(deadline=None)
@given(st.lists(commands, max_size=25))
def test_what_clusters_must_have_never_changes_without_a_new_revision(given_: list[ApplicationCommand]) -> None:
    def due(state: Application | None) -> Any:
        if state is None or state.settings is None:
            return None
        granted = frozenset(key for key, grant in state.grants.items() if grant is GrantState.GRANTED)
        return state.settings, state.credentials, granted

    def look(before: Application | None, after: Application | None, events: list[Any]) -> None:
        assert after is None or before is None or after.revision >= before.revision
        if due(before) != due(after):
            assert after is not None
            assert after.revision > (before.revision if before else 0)
            # Nothing that was applied before counts for what is due now.
            assert not any(each.applied for each in after.clusters.values())
        elif before is not None and after is not None and before.settings is not None:
            assert after.revision == before.revision, events

    live(given_, look)


@settings(deadline=None)
@given(st.lists(commands, max_size=25))
def test_a_command_that_is_repeated_finds_nothing_more_to_do(given_: list[ApplicationCommand]) -> None:
    state, _ = live(given_, lambda *_: None)
    for command in given_:
        if isinstance(command, DeclareApplication | DeleteApplication | IssueCredentials | RevokeCredentials):
            continue
        # Drift that was set back is told each time that it is found.
        if isinstance(command, RecordAccessDrifted) and command.reason is None:
            continue
        try:
            state = reduce(application.evolve, application_commands.decide(state, command), state)
            assert list(application_commands.decide(state, command)) == []
        except DomainError:
            continue


def any_event() -> st.SearchStrategy[Event]:
    """Events that no decider would ever write in this order."""
    values = {"revision": st.integers(0, 5), "number": st.integers(0, 5), "cluster": clusters}
    values |= {"stream": st.sampled_from(STREAMS), "operation": st.sampled_from(OPERATIONS)}
    values |= {"by": st.sampled_from(("application", "owner")), "reason": st.just("so")}
    values |= {"clusters": st.just(CLUSTERS), "groups": st.just(("g",)), "found": st.just(("x",))}
    values |= {"parts": st.just({"acls": "applied"}), **{part: st.just("x") for part in ("tenant", "instance")}}
    values |= {part: st.just("x") for part in ("environment", "application")}
    return st.one_of(
        st.builds(of, **{each.name: values.get(each.name, st.none()) for each in dataclasses.fields(of)})
        for of in EVENTS
    )


@settings(deadline=None)
@given(st.lists(any_event(), max_size=25))
def test_no_history_whatsoever_stops_a_fold(history: list[Event]) -> None:
    state = reduce(application.evolve, history, application.INITIAL)
    assert state is None or state.revision >= 0
