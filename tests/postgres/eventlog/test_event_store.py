"""Promises of every event store, kept by the one in PostgreSQL and by its twin in memory."""

from __future__ import annotations

import math
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from backend.eventlog.bulk_load import bulk_load
from backend.eventlog.faults import EventUnreadable, NotStorable, WrongExpectedVersion
from backend.eventlog.memory import MemoryEventLog
from backend.eventlog.recorded import EMPTY, Entry, Head, Metadata, Write, chain
from backend.eventlog.registry import EventRegistry
from backend.eventlog.store import PostgresEventLog
from tests.support.database.sample_events import METADATA, TIME, Coin, Noted, Paid, paid, registry

Store = MemoryEventLog | PostgresEventLog


@pytest.fixture(params=["memory", "postgres"])
def log(request: pytest.FixtureRequest) -> Iterator[Store]:
    if request.param == "memory":
        yield MemoryEventLog(registry())
        return
    database = request.getfixturevalue("database")
    with database.engine.connect() as connection:
        yield PostgresEventLog(connection, registry())


def append(log: Store, stream: str, *events, version: int | None = None, **kwargs):
    expected = log.version(stream) if version is None else version
    return log.append(stream, expected, events, **{"metadata": METADATA, "time": TIME, **kwargs})


def test_an_empty_log_has_an_empty_head(log):
    assert log.head() == EMPTY
    assert log.read("a") == []
    assert log.feed(0, 10) == []
    assert log.verify().ok


def test_what_is_appended_comes_back_as_it_was(log):
    event = paid(7, Coin("gold", 5), Coin("tin", 2))
    [recorded] = append(log, "purse-1", event)
    [read] = log.read("purse-1")
    assert read == recorded
    assert read.event == event
    assert (read.position, read.stream, read.version) == (1, "purse-1", 1)
    assert (read.name, read.schema_version) == ("Paid", 2)
    assert read.metadata == METADATA
    assert read.time == TIME
    assert read.time.utcoffset() == timedelta(0)
    assert log.head() == Head(1, read.hash)


def test_positions_count_the_log_and_versions_count_the_stream(log):
    append(log, "a", paid(1), paid(2))
    append(log, "b", paid(3))
    append(log, "a", paid(4))
    assert [(e.position, e.stream, e.version) for e in log.feed(0, 10)] == [
        (1, "a", 1),
        (2, "a", 2),
        (3, "b", 1),
        (4, "a", 3),
    ]


@pytest.mark.parametrize("expected", [0, 1, 3, -1])
def test_append_at_another_version_is_refused_and_changes_nothing(log, expected):
    append(log, "a", paid(1), paid(2))
    with pytest.raises(WrongExpectedVersion) as refused:
        append(log, "a", paid(3), version=expected)
    assert (refused.value.stream, refused.value.expected, refused.value.actual) == ("a", expected, 2)
    assert log.head().position == 2


def test_append_of_nothing_appends_nothing_but_checks_the_version(log):
    assert append(log, "a", version=0) == []
    with pytest.raises(WrongExpectedVersion):
        append(log, "a", version=4)
    assert log.head() == EMPTY


def write(stream: str, version: int, *events) -> Write:
    return Write(stream, version, events, METADATA, TIME)


def test_several_writes_are_appended_in_their_order(log):
    append(log, "a", paid(1))
    recorded = log.append_all(
        [write("b", 0, paid(2), paid(3)), write("a", 1, paid(4)), write("b", 2), write("b", 2, Noted(note="x"))]
    )
    assert [(e.position, e.stream, e.version) for e in recorded] == [
        (2, "b", 1),
        (3, "b", 2),
        (4, "a", 2),
        (5, "b", 3),
    ]
    assert log.feed(1, 10) == recorded
    assert log.verify().ok


@pytest.mark.parametrize(
    ("wrong", "expected", "actual"), [(("a", 0), 0, 1), (("b", 1), 1, 2), (("c", 1), 1, 0)], ids=str
)
def test_one_write_at_another_version_stops_all_of_them(log, wrong, expected, actual):
    append(log, "a", paid(1))
    with pytest.raises(WrongExpectedVersion) as refused:
        log.append_all([write("b", 0, paid(2), paid(3)), write(*wrong, paid(4))])
    assert (refused.value.stream, refused.value.expected, refused.value.actual) == (wrong[0], expected, actual)
    assert log.head().position == 1


def test_one_event_that_cannot_be_stored_stops_all_writes(log):
    with pytest.raises(NotStorable):
        log.append_all([write("a", 0, paid(1)), write("b", 0, Noted(note=math.nan))])
    assert log.head() == EMPTY


def test_an_event_that_nobody_could_read_again_is_refused(log):
    with pytest.raises(NotStorable, match="does not fit its class"):
        append(log, "a", Paid(amount=None, currency="EUR"))
    assert log.head() == EMPTY


def test_no_writes_append_nothing(log):
    assert log.append_all([]) == []
    assert log.head() == EMPTY


def test_read_stops_at_a_position(log):
    append(log, "a", paid(1))
    append(log, "b", paid(2))
    append(log, "a", paid(3), paid(4))
    for position, amounts in [(0, []), (1, [1]), (2, [1]), (3, [1, 3]), (4, [1, 3, 4]), (99, [1, 3, 4])]:
        assert [e.event.amount for e in log.read("a", until_position=position)] == amounts


def test_read_continues_after_a_version(log):
    append(log, "a", paid(1), paid(2), paid(3))
    assert [e.version for e in log.read("a", after_version=1)] == [2, 3]


def test_feed_gives_pages_in_order_after_a_position(log):
    append(log, "a", *(paid(n) for n in range(10)))
    assert [e.position for e in log.feed(0, 4)] == [1, 2, 3, 4]
    assert [e.position for e in log.feed(4, 4)] == [5, 6, 7, 8]
    assert [e.position for e in log.feed(8, 4)] == [9, 10]
    assert log.feed(10, 4) == []


@pytest.mark.parametrize(
    ("prefix", "streams"),
    [
        ("tenant-", ["tenant-a", "tenant-%"]),
        ("tenant-%", ["tenant-%"]),
        ("tenant_", ["tenant_x"]),
        ("", ["tenant-a", "tenant-%", "tenant_x"]),
        ("none", []),
    ],
)
def test_feed_of_a_prefix_takes_it_literally(log, prefix, streams):
    for stream in ("tenant-a", "tenant-%", "tenant_x"):
        append(log, stream, paid(1))
    assert [e.stream for e in log.feed(0, 10, prefix)] == streams


def test_feed_of_names_gives_only_those(log):
    append(log, "a", paid(1), Noted(note="x"), paid(2))
    assert [e.position for e in log.feed(0, 10, names={"Paid"})] == [1, 3]
    assert log.feed(0, 10, names=set()) == []


def test_an_event_of_an_earlier_version_is_raised_when_read_and_stays_as_it_was_stored(log):
    store_old(log, Entry("a", "Paid", 1, {"amount": 5, "coins": []}, METADATA, TIME))
    [read] = log.read("a")
    assert read.event == Paid(amount=5, currency="shell")
    assert (read.schema_version, read.data) == (1, {"amount": 5, "coins": []})
    assert log.verify().ok


@pytest.mark.parametrize(("name", "version"), [("Unheard", 1), ("Paid", 3), ("Noted", 0)])
def test_an_event_that_this_program_cannot_read_is_an_error_not_a_gap(log, name, version):
    store_old(log, Entry("a", name, version, {}, METADATA, TIME))
    with pytest.raises(EventUnreadable):
        log.read("a")
    assert [e.name for e in log.stored(0, 10)] == [name]
    assert log.verify().ok


@pytest.mark.parametrize(
    ("note", "pointer"),
    [
        (math.nan, "/note"),
        (math.inf, "/note"),
        (-0.0, "/note"),
        (1e16, "/note"),
        (1 << 63, "/note"),
        ("a\x00b", "/note"),
        ({"x": ["\x00"]}, "/note/x/0"),
        ({"a/b~": {"\x00": 1}}, "/note/a~1b~0"),
        ("\ud800", "/note"),
    ],
)
def test_a_value_that_would_not_survive_is_refused_with_its_place(log, note, pointer):
    with pytest.raises(NotStorable) as refused:
        append(log, "a", Noted(note=note))
    assert [error.pointer for error in refused.value.errors] == [pointer]
    assert log.head() == EMPTY


def test_too_deep_and_too_large_values_are_refused(log):
    deep: object = 1
    for _ in range(200):
        deep = [deep]
    for note in (deep, "x" * (1 << 20)):
        with pytest.raises(NotStorable):
            append(log, "a", Noted(note=note))


def test_streams_metadata_and_times_must_be_storable_too(log):
    for refused in (
        {"time": datetime(2026, 1, 1)},  # noqa: DTZ001  the missing zone is the point
        {"metadata": Metadata("a\x00", "r")},
    ):
        with pytest.raises(NotStorable):
            append(log, "a", paid(1), **refused)
    for stream in ("", "\x00"):
        with pytest.raises(NotStorable):
            append(log, stream, paid(1), version=0)


def test_times_of_any_zone_are_kept_in_utc(log):
    local = TIME.astimezone(timezone(timedelta(hours=5, minutes=30)))
    [recorded] = append(log, "a", paid(1), time=local)
    assert log.read("a") == [recorded]
    assert recorded.time.isoformat() == "2026-03-01T12:30:00.123456+00:00"


def test_events_that_are_not_registered_are_refused(log):
    log._registry = EventRegistry()
    with pytest.raises(ValueError, match="not registered"):
        append(log, "a", paid(1))


def test_each_event_is_chained_to_the_one_before(log):
    append(log, "a", paid(1), paid(1))
    append(log, "b", paid(1))
    rows = log.feed(0, 10)
    assert [row.previous_hash for row in rows] == [EMPTY.hash, rows[0].hash, rows[1].hash]
    assert len({row.hash for row in rows}) == 3
    assert log.verify().head == Head(3, rows[2].hash)


def test_the_hash_of_an_event_never_changes():
    log = MemoryEventLog(registry())
    append(log, "purse-1", paid(7, Coin("gold", 5)))
    assert log.head().hash == "438ebb323727595901b5b346656b24a1babc5db2d627a721812435030a6e1eb6"


def test_an_exported_head_fits_the_log_that_grew_from_it(log):
    append(log, "a", paid(1), paid(2))
    exported = log.head()
    append(log, "a", paid(3))
    assert log.verify(exported).ok
    assert log.verify(EMPTY).ok


@pytest.mark.parametrize(
    ("exported", "broken_at"),
    [(Head(5, "f" * 64), 4), (Head(2, "f" * 64), 2), (Head(3, "f" * 64), 3), (Head(0, "f" * 64), 0)],
)
def test_a_log_that_is_not_the_exported_one_shows(log, exported, broken_at):
    append(log, "a", paid(1), paid(2), paid(3))
    report = log.verify(exported)
    assert (report.ok, report.broken_at) == (False, broken_at)
    assert report.reason


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(1 << 63), (1 << 63) - 1)
    | st.floats()
    | st.text()
    | st.sampled_from([0.1, 1e-7, 1e15, 123456789.123456789, 5e-324, 1.7976931348623157e308]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture], derandomize=True
)
@given(note=JSON)
def test_any_json_is_kept_exactly_or_refused(log, note):
    try:
        [recorded] = append(log, "a", Noted(note=note))
    except NotStorable:
        return
    [read] = log.feed(recorded.position - 1, 1)
    assert read.data == {"note": note}
    assert log.verify(Head(recorded.position, recorded.hash)).ok


def store_old(log: Store, entry: Entry) -> None:
    """Put an entry into the log as an earlier (or later) program would have."""
    if isinstance(log, MemoryEventLog):
        log._stored += chain(log.head(), {}, [entry])
    else:
        bulk_load(log._connection, log._registry, [entry])
