"""Whatever is asked of applications, in whatever order: history folds to one state, and says what was decided."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import reduce
from typing import Any, get_args

from hypothesis import given, settings
from hypothesis import strategies as st

from backend.domain import application, application_commands
from backend.domain.application import OPERATIONS, Application, ApplicationEvent, GrantState
from backend.domain.application_commands import (
    DECISIONS,
    ApplicationCommand,
    ChangeApplication,
    DecideAccess,
    DeclareApplication,
    DeleteApplication,
    Facts,
    IssueCredentials,
    RevokeCredentials,
)
from backend.domain.application_records import (
    RecordAccessApplied,
    RecordAccessDrifted,
    RecordAccessFailed,
    RecordAccessRemoved,
)
from backend.domain.errors import DomainError
from backend.domain.event import Event
from backend.domain.names import ApplicationName
from backend.eventlog.registry import domain_registry

NAME = ApplicationName("acme", "retail", "prod", "billing")
STREAMS = ("acme/retail/prod/orders", "acme/retail/prod/payments", "globex/shop/prod/items")
CLUSTERS = ("c1", "c2")
EVENTS = [of for of in get_args(ApplicationEvent) if isinstance(of, type)]
REGISTRY = domain_registry()

clusters = st.sampled_from(CLUSTERS)
lists = st.lists(st.sampled_from(STREAMS), max_size=3).map(tuple)
reasons = st.none() | st.sampled_from(("silent", "no"))
facts = st.builds(Facts, may_decide=st.none() | st.sampled_from((frozenset[str](), frozenset({"acme"}))))
quotas = st.dictionaries(st.just("request_percentage"), st.none() | st.integers(1, 3))
commands: st.SearchStrategy[ApplicationCommand] = st.one_of(
    st.builds(DeclareApplication, name=st.just(NAME), produces=lists, consumes=lists, quotas=quotas, facts=facts),
    st.builds(
        ChangeApplication,
        groups=st.none() | st.lists(st.sampled_from("abc"), max_size=2).map(tuple),
        produces=st.none() | lists,
        consumes=st.none() | lists,
        quotas=quotas,
        facts=facts,
    ),
    st.builds(DeleteApplication, clusters=st.lists(clusters, max_size=2).map(tuple)),
    st.builds(
        DecideAccess,
        application=st.just(NAME),
        stream=st.sampled_from(STREAMS),
        operation=st.sampled_from(OPERATIONS),
        decision=st.sampled_from(DECISIONS),
        reason=reasons,
    ),
    st.just(IssueCredentials()),
    st.just(RevokeCredentials()),
    st.builds(
        RecordAccessApplied,
        cluster=clusters,
        revision=st.integers(1, 12),
        parts=st.dictionaries(st.just("acls"), st.sampled_from(("applied", "no authorizer"))),
    ),
    st.builds(RecordAccessFailed, cluster=clusters, reason=st.sampled_from(("silent", "no"))),
    st.builds(RecordAccessDrifted, cluster=clusters, found=st.just(["x"]), reason=reasons),
    st.builds(RecordAccessRemoved, cluster=clusters),
)


def stored(event: Event) -> Event:
    """The event as it comes back from the log."""
    return REGISTRY.decode(event.stored_name, event.schema_version, REGISTRY.encode(event))


def live(given: list[ApplicationCommand], look: Callable[[Any, Any, list[Any]], None]) -> tuple[Any, list[Event]]:
    """Carry the commands out, those that are allowed; `look` sees before, after and the events of each."""
    state, history = application.INITIAL, []
    for command in given:
        try:
            decided = list(application_commands.decide(state, command))
        except DomainError:
            continue
        before, state = state, reduce(application.evolve, decided, state)
        look(before, state, decided)
        history += decided
    return state, history


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
