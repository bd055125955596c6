"""Figures and sentences of the pages."""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, datetime

import pytest

from backend.domain.base.words import lasting
from backend.domain.topics.stream_settings import StreamSettings
from backend.eventlog.registry import domain_registry
from backend.queries.base.names_of_events import Names, PlacementNamed, SwitchNamed
from backend.web.frame.templates import labels
from backend.web.words import figures
from backend.web.words.capitals import as_sentence
from backend.web.words.field_words import label
from backend.web.words.names import operation_name, placement_name, switch_name
from backend.web.words.sentences import CHANGES, SENTENCES, TROUBLES, sentence


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "–"),
        (0, "0"),
        (0.04, "0.0"),
        (3.14, "3.1"),
        (7, "7"),
        (9.96, "10"),
        (812.4, "812"),
        (999.4, "999"),
        (999.6, "1.0k"),
        (12_345, "12.3k"),
        (99_960, "100k"),
        (999_600, "1.0M"),
        (4_120_000, "4.1M"),
        (7.2e12, "7.2T"),
    ],
)
def test_figures_are_short(value: float | None, text: str) -> None:
    assert figures.compact(value) == text
    assert len(text) <= 5


def test_times_are_utc() -> None:
    moment = datetime.fromisoformat("2026-11-01T00:30:05+01:00")
    assert (figures.clock(moment), figures.day(moment)) == ("23:30:05", "31 Oct 2026")
    assert figures.clock(datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)) == "03:04:05"


def test_names_stay_whole_and_are_escaped() -> None:
    assert figures.unbroken("to cluster-4 <b>") == 'to <span class="whole">cluster-4</span> &lt;b&gt;'


def test_every_event_there_is_has_a_sentence() -> None:
    names = set(domain_registry().classes)
    assert set(SENTENCES) == names
    assert names >= TROUBLES


@pytest.mark.parametrize("name", sorted(SENTENCES))
def test_an_event_of_another_program_version_still_has_a_sentence(name: str) -> None:
    assert sentence(name, "cluster-c1", {})
    assert sentence(name, "nothing", {"root": 7, "partitions": "many", "tenant": None, "unknown": []})


@pytest.mark.parametrize(
    ("name", "stream", "data", "text"),
    [
        ("ClusterWentOffline", "cluster-c-1", {"reason": "no answer"}, "c-1 went offline: no answer"),
        (
            "DistributorTargetSwitched",
            "tree-main",
            {"cluster": "c1", "level": 2, "target": "c3", "previous": "c2"},
            "c1 level 2 now copies to c3; it was c2",
        ),
        (
            "TreeReplaced",
            "tree-main",
            {"root": {"level": 1, "children": [{"cluster": "a"}, {"cluster": "b"}]}, "primary_cluster": "a"},
            "Tree set: 2 clusters, 2 distributors; primary is a",
        ),
        (
            "StreamDeclared",
            "tenant-t",
            {"tenant": "t", "instance": "i", "environment": "e", "stream": "s", "partitions": 1},
            "Stream t/i/e/s declared, 1 partition",
        ),
        (
            "ClusterDefaultsSet",
            "cluster-c1",
            {"replication_factor": 2, "min_insync_replicas": None},
            "Defaults of c1 set: replication factor 2, min.insync.replicas automatic",
        ),
        (
            "MessageProduced",
            "messages-t",
            {"stream": "t/i/e/s", "cluster": "c1", "partition": 2, "offset": 7},
            "Message produced to t/i/e/s on c1: partition 2, offset 7",
        ),
        (
            "MessageProduced",
            "messages-t",
            {"stream": "t/i/e/s", "cluster": "c1", "partition": None, "offset": None},
            "Message produced to t/i/e/s on c1: not confirmed, it may have been written",
        ),
        (
            "RecordsLost",
            "edge-c1-2",
            {"stream": "t/i/e/s", "partition": 0, "cluster": "c1", "reason": "offsets 5 to 9 were gone"},
            "Records of t/i/e/s/0 on c1 lost: offsets 5 to 9 were gone",
        ),
        ("SwitchWasPlanned", "switch-1", {}, "Switch was planned"),
    ],
)
def test_sentences(name: str, stream: str, data: dict, text: str) -> None:
    assert sentence(name, stream, data) == text


BEFORE = {"tenant": "t", "environment": "e", "revision": 1, "events": ["a"], "properties": {"k": "v", "p": "x"}}


@pytest.mark.parametrize(
    ("data", "text"),
    [
        ({"revision": 2, "events": ["a", "b"]}, "events: a → a, b"),
        ({"properties": {"k": "secret", "q": "y"}}, "client properties: k, p, q changed"),
        ({"limits": {"a": 1}, "zone": "z"}, None),
        ({"events": None, "tenant": "t2"}, "events: a → none; tenant: t → t2"),
        ({"revision": 2}, None),
    ],
)
def test_only_what_is_known_of_both_and_differs_is_told(data: dict, text: str | None) -> None:
    told = sentence("WebhookChanged", "webhook-w", {"webhook": "w", "url": "u", **data}, BEFORE)
    assert told == f"Webhook w changed: {text or 'u'}"


@pytest.mark.parametrize("name", sorted(CHANGES))
def test_a_change_of_another_program_version_still_has_a_sentence(name: str) -> None:
    data = {"root": 7, "properties": 7, "limits": [], "groups": None}
    assert sentence(name, "x-y", data, {"root": {}, "properties": {"k": "v"}, "limits": {"a": 1}, "groups": ["g"]})


@pytest.mark.parametrize(
    ("milliseconds", "text"),
    [
        (-1, "for ever"),
        (0, "0 ms"),
        (1, "1 ms"),
        (1500, "1,500 ms"),
        (90_000, "90 seconds"),
        (3_600_000, "1 hour"),
        (604_800_000, "7 days"),
    ],
)
def test_times_in_words(milliseconds: int, text: str) -> None:
    assert lasting(milliseconds) == text


def test_settings_are_called_as_their_form_calls_them() -> None:
    settings = asdict(StreamSettings())
    assert {name: label(name) for name in settings} == {
        name: label for name, label in labels("stream_form.html").items() if name in settings
    }


NAMES = Names(
    switches={"4f2c": SwitchNamed(number=12, source="c1", target="c2")},
    placements={"9b21": PlacementNamed(number=3, cluster="c2")},
)


@pytest.mark.parametrize(
    ("name", "data", "text"),
    [
        ("SwitchAdvanced", {"switch": "4f2c", "phase": "holding"}, "Switch 12 (c1 → c2) is holding"),
        (
            "SwitchStarted",
            {"switch": "4f2c", "source": "c1", "target": "c2", "mode": "planned"},
            "Switch 12 of clients from c1 to c2 started, planned",
        ),
        ("SwitchCompleted", {"switch": "unknown"}, "Switch unknown completed"),
        ("PlacementPaused", {"placement": "9b21", "cluster": "c2"}, "Placement 3 of c2 is paused"),
    ],
)
def test_sentences_name_switches_and_placements_by_number(name: str, data: dict, text: str) -> None:
    assert sentence(name, "any", data, None, NAMES) == text


def test_names_of_things_without_one_are_their_ids() -> None:
    switch, placement = NAMES.switches["4f2c"], NAMES.placements["9b21"]
    assert (switch_name(switch, "4f2c"), switch_name(None, "4f2c")) == ("Switch 12 · c1 → c2", "Switch 4f2c")
    assert (placement_name(placement, "9b21"), placement_name(None, "x")) == ("Placement 3 · c2", "Placement x")


@pytest.mark.parametrize(
    ("event", "data", "text"),
    [
        (
            "DistributorTargetSwitched",
            {"cluster": "c1", "level": 2, "target": "c3"},
            "Change of target: c1 level 2 → c3",
        ),
        ("PrimaryMoveBegun", {"cluster": "c2", "previous": "c1"}, "Move of the primary: c1 → c2"),
        ("AdoptionBegun", {"cluster": "c1", "topics": []}, "Adoption of topics: c1"),
        ("AdoptionBegun", {}, "Operation"),
    ],
)
def test_operations_are_called_by_what_they_change(event: str, data: dict, text: str) -> None:
    assert operation_name(event, data, "Operation") == text


@pytest.mark.parametrize(
    ("message", "shown"),
    [
        ("there is no tenant 'nobody'", "There is no tenant 'nobody'."),
        ("c2 does not answer: timed out", "c2 does not answer: timed out."),
        ("east does not answer.", "east does not answer."),
        ("min.insync.replicas is 3", "min.insync.replicas is 3."),
    ],
)
def test_messages_become_sentences_and_names_stay(message: str, shown: str) -> None:
    assert as_sentence(message, "east") == shown
