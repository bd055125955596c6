"""Hypothesis strategies for all commands and events of one application."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

from hypothesis import strategies as st

from backend.domain.base.errors import DomainError
from backend.domain.base.event import Event
from backend.domain.names.names import ApplicationName
from backend.domain.tenants import application, application_commands
from backend.domain.tenants.application import OPERATIONS
from backend.domain.tenants.application_commands import (
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
from backend.domain.tenants.application_records import (
    RecordAccessApplied,
    RecordAccessDrifted,
    RecordAccessFailed,
    RecordAccessRemoved,
)

NAME = ApplicationName("acme", "retail", "prod", "billing")
STREAMS = ("acme/retail/prod/orders", "acme/retail/prod/payments", "globex/shop/prod/items")
CLUSTERS = ("c1", "c2")

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
    st.builds(DeleteApplication, clusters=st.frozensets(clusters)),
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
        anew=st.just(False),
    ),
    st.builds(RecordAccessFailed, cluster=clusters, reason=st.sampled_from(("silent", "no"))),
    st.builds(RecordAccessDrifted, cluster=clusters, found=st.just(["x"]), reason=reasons),
    st.builds(RecordAccessRemoved, cluster=clusters),
)


def live(given: list[ApplicationCommand], look: Callable[[Any, Any, list[Any]], None]) -> tuple[Any, list[Event]]:
    """Run the allowed commands; `look` sees the state before and after, and the events, of each."""
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
