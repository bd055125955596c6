"""Several streams declared at once."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from backend.domain.base.errors import (
    AlreadyExists,
    DomainError,
    NotFound,
    StateConflict,
    TechnicalNameTaken,
    ValueInvalid,
)
from backend.domain.base.event import Event
from backend.domain.names.formats import ClusterFormats
from backend.domain.names.names import StreamName
from backend.domain.tenants.tenant_commands import DeclareStreams
from backend.domain.topics.stream_settings import StreamSettings
from tests.unit.tenants.test_tenant import (
    APPLIED,
    C1,
    C4,
    DECLARE,
    DELETED,
    FULL,
    INSTANCE,
    SET_UP,
    SETTINGS,
    TENANT,
    WITH_STREAM,
    when,
)


def many(*names: str, **facts: Any) -> DeclareStreams:
    settings = StreamSettings(**SETTINGS)
    return DeclareStreams(
        instance="retail", environment="prod", streams=[(name, settings) for name in names], **facts
    )


def test_several_streams_are_declared_as_one_after_the_other() -> None:
    one_by_one = [*when(SET_UP, DECLARE), *when(SET_UP, replace(DECLARE, stream="payments"))]
    assert when(SET_UP, many("orders", "payments")) == one_by_one
    # One that was deleted goes on where it was.
    assert [event.revision for event in when([*WITH_STREAM, DELETED], many("payments", "orders"))] == [1, 2]


@pytest.mark.parametrize(
    ("given", "command", "error", "says", "pointer"),
    [
        (WITH_STREAM, many("a", "orders"), AlreadyExists, "streams/1: stream", "/streams/1/name"),
        (SET_UP, many("a", "b", "a"), ValueInvalid, "acme/retail/prod/a is listed twice", "/streams/2/name"),
        (SET_UP, many("a.b", "a_b", clusters=[C1]), TechnicalNameTaken, "acme-retail-prod-a_b", "/streams/1/name"),
        (
            SET_UP,
            many("a", clusters=[C4], taken_topics={("c4", "acme-a"): StreamName("acme", "retail", "dev", "a")}),
            TechnicalNameTaken,
            "acme/retail/dev/a",
            "/streams/0/name",
        ),
        ([TENANT, INSTANCE], many("a"), NotFound, "no environment", None),
        (
            [*WITH_STREAM, APPLIED, DELETED],
            many("a", "orders", clusters=[ClusterFormats("c1", FULL, FULL)]),
            StateConflict,
            "still being removed from c1",
            "/streams/1",
        ),
    ],
)
def test_a_refusal_of_several_names_the_one(
    given: Sequence[Event], command: DeclareStreams, error: type[DomainError], says: str, pointer: str | None
) -> None:
    with pytest.raises(error, match=re.escape(says)) as caught:
        when(given, command)
    assert [each.pointer for each in caught.value.errors] == ([] if pointer is None else [pointer])
