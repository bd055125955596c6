"""A gateway's changes to Kafka messages, compared with Kafka's own definitions."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backend.kafka.wire import api_versions, endpoints
from backend.kafka.wire.apis import PRODUCE_WITH_BATCHES, SUPPORTED_VERSIONS, Api, is_supported
from backend.kafka.wire.encoding import MessageMalformed
from backend.kafka.wire.endpoints import Address
from backend.kafka.wire.requests import is_answered, read_request, with_all_acks, with_fetch_bounded
from tests.nightly import some_now
from tests.unit.wire.messages import (
    SLOW,
    definitions,
    joined,
    messages,
    names,
    varint,
    with_addresses,
    within,
    written,
)

WITH_ADDRESSES = (
    Api.PRODUCE,
    Api.FETCH,
    Api.METADATA,
    Api.FIND_COORDINATOR,
    Api.DESCRIBE_CLUSTER,
    Api.SHARE_FETCH,
    Api.SHARE_ACKNOWLEDGE,
)
VERSIONS = [
    (api, v)
    for api in WITH_ADDRESSES
    for v in range(SUPPORTED_VERSIONS[api].first, SUPPORTED_VERSIONS[api].last + 1)
]
WHERE = ("Host", "Port", "Endpoints", "NodeEndpoints", "Listeners")
ELSEWHERE = {
    29: "hosts are those that an access rule is about",
    31: "hosts are those that an access rule is about",
    55: "listeners are those of controllers",
    88: "endpoints are those of applications",
    89: "endpoints are those of applications",
}
OF_BROKERS_AMONG_THEMSELVES = {4, 5, 6, 7, 52, 53, 54, 56, 58, 59, 62, 63, 67, 70, 73, 82}


def mirrored(node: int, host: str, port: int) -> tuple[str, int] | None:
    """Return a shorter or longer address derived from the original; some stay."""
    if node % 5 == 0:
        return None
    return f"{node}.{host[: node % 200]}", port ^ 1


FIRST_AND_LAST = [
    place
    for place, (api, v) in enumerate(VERSIONS)
    if v in (SUPPORTED_VERSIONS[api].first, SUPPORTED_VERSIONS[api].last)
]
EACH_VERSION = some_now(
    "api, version", VERSIONS, now=FIRST_AND_LAST, ids=lambda value: getattr(value, "name", str(value))
)
FEW = settings(max_examples=8, deadline=None, suppress_health_check=SLOW)
MANY = settings(FEW, max_examples=100)
ADDRESSES = given(data=st.data(), correlation=st.integers(-(2**31), 2**31 - 1))


@EACH_VERSION
@FEW
@ADDRESSES
def test_addresses_are_moved_and_nothing_else_changes(api: Api, version: int, data, correlation: int):
    check_addresses(api, version, data, correlation)


@pytest.mark.nightly
@EACH_VERSION
@MANY
@ADDRESSES
def test_addresses_of_many_messages_are_moved(api: Api, version: int, data, correlation: int):
    check_addresses(api, version, data, correlation)


def check_addresses(api: Api, version: int, data: st.DataObject, correlation: int) -> None:
    """Draw a message; check that its rewritten bytes are those of the same message with other addresses."""
    message = data.draw(messages(api, version))
    answer = written(message, correlation)

    found = joined(
        endpoints.rewritten(
            api,
            version,
            answer,
            lambda node, at: (there := mirrored(node, at.host, at.port)) and Address(*there),
        )
    )

    assert found == written(with_addresses(message, mirrored), correlation)


@EACH_VERSION
@FEW
@given(data=st.data())
def test_an_answer_that_is_cut_or_spoilt_ends_in_words_or_in_bytes_never_otherwise(api: Api, version: int, data):
    check_spoilt(api, version, data)


@pytest.mark.nightly
@EACH_VERSION
@MANY
@given(data=st.data())
def test_many_answers_that_are_cut_or_spoilt_end_in_words_or_in_bytes(api: Api, version: int, data):
    check_spoilt(api, version, data)


def check_spoilt(api: Api, version: int, data: st.DataObject) -> None:
    """Draw a message, damage its bytes, and check that they are rewritten or refused with a reason."""
    answer = bytearray(written(data.draw(messages(api, version)), 7))
    for _ in range(data.draw(st.integers(0, 3))):
        answer[data.draw(st.integers(0, len(answer) - 1))] = data.draw(st.integers(0, 255))
    cut = bytes(answer[: data.draw(st.integers(0, len(answer)))])
    try:
        endpoints.rewritten(api, version, cut, lambda node, at: Address("elsewhere", 9))
    except MessageMalformed as error:
        assert str(error)


@given(st.integers(0, 2**31 - 1), st.binary(max_size=300))
def test_garbage_of_a_huge_array_is_no_long_work(count: int, rest: bytes):
    """A message of some bytes claims an array of two billion brokers."""
    answer = struct.pack(">iii", 1, 0, count) + rest
    try:
        endpoints.rewritten(Api.METADATA, 3, answer, lambda node, at: None)
    except MessageMalformed:
        return


def test_every_answer_of_kafka_that_tells_addresses_is_known():
    """A new api or version with addresses would let clients bypass the node."""
    telling = {key for key, each in definitions("response").items() if set(names(each)) & set(WHERE)}
    assert telling - set(ELSEWHERE) - OF_BROKERS_AMONG_THEMSELVES == set(WITH_ADDRESSES)


BEGIN_LATER = {
    Api.FETCH: 4,  # earlier responses are unbounded, or have records in formats that zones do not store
    # A preview in Kafka 4.0.
    76: 1,
    77: 1,
    Api.SHARE_FETCH: 1,
    Api.SHARE_ACKNOWLEDGE: 1,
}
"""Requests advertised from a later version than 0; older brokers accept versions that Kafka 4.1 lacks."""


def test_what_is_passed_on_is_what_kafka_has_for_clients():
    for key, described in definitions("request").items():
        if key in OF_BROKERS_AMONG_THEMSELVES:
            assert key not in SUPPORTED_VERSIONS, described["name"]
            continue
        first, _, last = described["validVersions"].partition("-")
        known = SUPPORTED_VERSIONS[key]
        assert known.last == int(last or first), described["name"]
        assert known.first == BEGIN_LATER.get(key, 0) <= int(first), described["name"]
    assert not is_supported(Api.METADATA, SUPPORTED_VERSIONS[Api.METADATA].last + 1)
    assert not is_supported(4, 0)
    assert (is_supported(Api.SASL_HANDSHAKE, 0), is_supported(Api.SASL_HANDSHAKE, 1)) == (False, True)


@pytest.mark.parametrize("version", range(5))
@settings(max_examples=50, deadline=None)
@given(data=st.data())
def test_clients_are_told_what_both_speak(version: int, data):
    drawn = data.draw(
        st.lists(st.tuples(st.integers(0, 600), st.integers(0, 20), st.integers(0, 20)), max_size=100)
    )
    broker = {key: (min(a, b), max(a, b)) for key, a, b in drawn}
    flexible = version >= 3
    tags = b"\0" if flexible else b""

    def answer(entries: dict[int, tuple[int, int]]) -> bytes:
        listed = b"".join(struct.pack(">hhh", key, *versions) + tags for key, versions in entries.items())
        count = varint(len(entries) + 1) if flexible else struct.pack(">i", len(entries))
        throttled = struct.pack(">i", 5) if version >= 1 else b""
        rest = b"\1\1\4\1abc" if flexible else b""  # a tagged field that stays
        return struct.pack(">ih", 3, 0) + count + listed + throttled + rest

    both = {}
    for key, (first, last) in broker.items():
        known = SUPPORTED_VERSIONS.get(key)
        if known and max(first, known.first) <= min(last, known.last):
            both[key] = (max(first, known.first), min(last, known.last))
    assert joined(api_versions.limited(version, answer(broker))) == answer(both)


def test_a_broker_that_refuses_the_version_answers_in_the_oldest_form():
    refusal = struct.pack(">ihi", 9, 35, 1) + struct.pack(">hhh", Api.API_VERSIONS, 0, 9)
    capped = struct.pack(">ihi", 9, 35, 1) + struct.pack(">hhh", Api.API_VERSIONS, 0, 4)
    assert joined(api_versions.limited(4, refusal)) == capped
    assert (
        api_versions.unsupported_version(read_request(head(Api.API_VERSIONS, 5, b"c", True)))
        == b"\0\0\0\x4d" + capped[4:]
    )


def test_a_version_that_is_not_passed_on_is_refused_in_its_own_form_where_that_is_known():
    handshake = read_request(head(Api.SASL_HANDSHAKE, 0, b"c", False))
    assert api_versions.unsupported_version(handshake) == struct.pack(">ihi", 77, 35, 0)
    assert api_versions.unsupported_version(read_request(head(Api.METADATA, 99, b"c", False))) is None


def head(api_key: int, version: int, client_id: bytes | None, flexible: bool) -> bytes:
    name = struct.pack(">h", -1) if client_id is None else struct.pack(">h", len(client_id)) + client_id
    return struct.pack(">hhi", api_key, version, 77) + name + (b"\0" if flexible else b"")


@pytest.mark.parametrize("version", range(14))
@pytest.mark.parametrize("transactional_id", [None, b"", b"tx" * 100])
@pytest.mark.parametrize("acks", [-1, 0, 1])
def test_only_a_produce_request_without_acks_gets_no_answer(
    version: int, transactional_id: bytes | None, acks: int
):
    flexible = version >= 9
    if flexible:
        told = b"\0" if transactional_id is None else varint(len(transactional_id) + 1) + transactional_id
    elif version < PRODUCE_WITH_BATCHES:
        told = b""
    else:
        length = -1 if transactional_id is None else len(transactional_id)
        told = struct.pack(">h", length) + (transactional_id or b"")
    message = head(Api.PRODUCE, version, b"zone=az1", flexible) + told + struct.pack(">hi", acks, 30_000)

    request = read_request(message)

    assert (request.api_key, request.version, request.correlation) == (Api.PRODUCE, version, 77)
    assert request.client_id == b"zone=az1"
    assert is_answered(request, message) == (acks != 0)


@pytest.mark.parametrize("version", range(4, 19))
@pytest.mark.parametrize(("asked", "told"), [(50_000_000, 1_000_000), (1_000_000, 1_000_000), (5, 5)])
def test_a_fetch_is_bounded_and_otherwise_as_it_was(version: int, asked: int, told: int):
    def message(most: int) -> bytes:
        replica = struct.pack(">i", -1) if version < 15 else b""
        body = replica + struct.pack(">iii", 500, 1, most) + b"the rest"
        return head(Api.FETCH, version, None, version >= 12) + body

    assert within(definitions("request")[Api.FETCH]["flexibleVersions"], version) == (version >= 12)
    request = read_request(message(asked))
    assert joined(with_fetch_bounded(request, message(asked), 1_000_000)) == message(told)


@pytest.mark.parametrize(("group", "member"), [(b"share", b"m" * 200), (None, None), (b"", b"")])
def test_a_share_fetch_is_bounded_as_well(group: bytes | None, member: bytes | None):
    def message(most: int) -> bytes:
        names = b"".join(b"\0" if name is None else varint(len(name) + 1) + name for name in (group, member))
        return head(Api.SHARE_FETCH, 1, b"c", True) + names + struct.pack(">iiii", 3, 500, 1, most) + b"the rest"

    first = [each["name"] for each in definitions("request")[Api.SHARE_FETCH]["fields"][:6]]
    assert first == ["GroupId", "MemberId", "ShareSessionEpoch", "MaxWaitMs", "MinBytes", "MaxBytes"]
    request = read_request(message(50_000_000))
    assert joined(with_fetch_bounded(request, message(50_000_000), 1_000_000)) == message(1_000_000)


def test_a_produce_request_is_acknowledged_by_all_and_otherwise_as_it_was():
    for version, told in ((3, struct.pack(">h", 2) + b"tx"), (9, b"\3tx"), (13, b"\0")):

        def message(acks: int, version: int = version, told: bytes = told) -> bytes:
            return (
                head(Api.PRODUCE, version, b"c", version >= 9) + told + struct.pack(">hi", acks, 5) + b"the rest"
            )

        for acks in (0, 1, -1):
            assert joined(with_all_acks(read_request(message(acks)), message(acks))) == message(-1)


def test_a_header_of_millions_of_tags_is_refused_at_once():
    with pytest.raises(MessageMalformed, match="tagged fields at byte"):
        read_request(head(Api.PRODUCE, 9, b"c", False) + varint(20_000_000) + b"\0\0" * 100)


def test_a_tagged_field_that_is_shorter_than_it_tells_is_refused():
    """Rewriting would give the field a negative size."""
    node = struct.pack(">i", 1) + varint(60) + b"h" * 59 + struct.pack(">i", 9) + b"\0\0"
    answer = struct.pack(">i", 1) + b"\0" + b"\1" + struct.pack(">i", 0) + b"\1\0" + varint(3) + b"\2" + node
    with pytest.raises(MessageMalformed, match="is not as long as it declares"):
        endpoints.rewritten(Api.PRODUCE, 10, answer, lambda node, at: Address("h", 9))


@given(st.binary(max_size=40))
def test_what_is_no_request_is_refused_in_words(garbage: bytes):
    try:
        request = read_request(garbage)
        is_answered(request, garbage)
    except MessageMalformed as error:
        assert str(error)
