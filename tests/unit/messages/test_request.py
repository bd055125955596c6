"""The parameters of a request for messages, and what is wrong with them."""

from __future__ import annotations

import pytest

from backend.domain.base.errors import ValueInvalid
from backend.domain.names.names import StreamName
from backend.kafka.search.message_reading import After, AtOffset, Before, Earliest, Newest, Since, Start
from backend.messages.facts import MessageFacts
from backend.messages.request import MessageRequest, parse


def request(start: str = "", partition: str = "", limit: str = "", *filters: str) -> MessageRequest:
    return parse(start=start, partition=partition, limit=limit, filters=filters)


def facts(partitions: int) -> MessageFacts:
    return MessageFacts(
        stream=StreamName("acme", "retail", "prod", "orders"),
        cluster="c1",
        number=1,
        bootstrap_servers="127.0.0.1:9",
        properties={},
        topic="acme-retail-prod-orders",
        incarnation=1,
        partitions=partitions,
        names={1: "c1"},
        flags_header="copy-flags",
        origin_header="copy-origin",
    )


STARTS = [
    ("", Newest()),
    ("latest", Newest()),
    ("earliest", Earliest()),
    ("0", AtOffset(0)),
    (str(2**63 - 1), AtOffset(2**63 - 1)),
    ("time:0", Since(0)),
    ("time:1767225600000", Since(1767225600000)),
    ("time:2026-01-01", Since(1767225600000)),
    ("time:2026-01-01T01:00:00+01:00", Since(1767225600000)),
    ("time:1900-01-01", Since(0)),
    ("after:0=12", After({0: 12})),
    ("before:0=12", Before({0: 12})),
]


@pytest.mark.parametrize(("text", "start"), STARTS)
def test_a_start_is_read(text: str, start: Start) -> None:
    found = request(text, "0")
    assert found.start == start
    assert found.start_text == (text or "latest")
    assert found.is_backward is isinstance(start, Newest | Before)


def test_defaults_are_the_newest_of_all_partitions() -> None:
    found = request()
    assert (found.partition, found.start, found.limit, found.filter_texts) == (None, Newest(), 50, ())
    assert found.partitions(facts(3)) == (0, 1, 2)


def test_places_name_the_partitions() -> None:
    assert request("after:2=44,0=12").partitions(facts(3)) == (0, 2)
    assert request("before:1=7", "1").partitions(facts(3)) == (1,)


WRONG = [
    *(
        (text, "0", "", "/from")
        for text in ("yesterday", "-1", "latest:1", "earliest:", "time:", "time:soon", "٣")
    ),
    *(
        (text, "0", "", "/from")
        for text in ("after:", "after:0", "after:0=", "after:0=1,", "before:a=1", "after:0=-1")
    ),
    *((text, "", "", "/from") for text in ("after:0=1,0=2", f"after:0={2**63}", f"after:{2**31}=0", "4711")),
    (str(2**63), "0", "", "/from"),
    ("after:1=1", "0", "", "/from"),
    ("after:" + ",".join(f"{n}={10**18}" for n in range(2000)), "", "", "/from"),
    *(("", text, "", "/partition") for text in ("x", "-1", str(2**31), "1.0", " 1")),
    *(("", "", text, "/limit") for text in ("0", "501", "x")),
]


@pytest.mark.parametrize(("start", "partition", "limit", "pointer"), WRONG)
def test_a_wrong_parameter_is_named(start: str, partition: str, limit: str, pointer: str) -> None:
    with pytest.raises(ValueInvalid) as refused:
        request(start, partition, limit)
    [error] = refused.value.errors
    assert error.pointer == pointer
    assert error.detail in refused.value.detail


def test_all_wrong_parameters_are_named_at_once() -> None:
    with pytest.raises(ValueInvalid) as refused:
        request("soon", "x", "0", "key:")
    assert [error.pointer for error in refused.value.errors] == ["/partition", "/limit", "/from", "/filter"]


@pytest.mark.parametrize(
    ("start", "partition", "partitions", "pointer"),
    [("", "3", 3, "/partition"), ("after:3=0", "", 3, "/from"), ("", "", 257, "/partition")],
)
def test_partitions_must_exist_and_be_few_enough(
    start: str, partition: str, partitions: int, pointer: str
) -> None:
    wanted = request(start, partition)
    with pytest.raises(ValueInvalid) as refused:
        wanted.partitions(facts(partitions))
    assert [error.pointer for error in refused.value.errors] == [pointer]


def test_a_page_of_256_partitions_names_where_the_next_one_begins() -> None:
    assert len(request().partitions(facts(256))) == 256
    text = "before:" + ",".join(f"{partition}={2**63 - 1}" for partition in range(256))
    assert request(text).partitions(facts(256)) == tuple(range(256))
