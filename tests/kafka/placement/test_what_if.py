"""Predicted losses if a broker of a real cluster failed, compared with the losses when it does."""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import ResourceType

from backend.domain.replication.replication_health import PartitionDescribed, Place
from backend.kafka.admin import replication_observation
from backend.kafka.admin.replica_admin import ReplicaAdmin
from tests.eventually import eventually
from tests.kafka.placement.test_replication import WHAT_IF, Watched, topic, watched
from tests.support.api.rest import Rest, problem
from tests.support.api.shell import shell_of
from tests.support.console.consoles import serve_here
from tests.support.console.visitors import Visitor, said
from tests.support.kafka.three_brokers import Brokers, operator_sets
from tests.support.kafka.topics import DEADLINE_SECONDS, produce

__all__ = ["topic", "watched"]

_RECORDS, _BYTES = 40, 250_000
"""Ten megabytes: more than a follower gets with its first fetch, which no throttle limits."""
_BEHIND = ("unclean", "eligible", "plain", "third")


def answer(watched: Watched, broker: int, topic: str) -> tuple[dict[str, set[str]], dict[str, Any]]:
    """Return the outcomes of each partition whose topic has this prefix, and the whole response."""
    found = watched.rest("GET", f"{WHAT_IF}?broker={broker}").json()
    outcomes: dict[str, set[str]] = {}
    for each in found["outcomes"]:
        for name in each["examples"]:
            if name.startswith(topic):
                outcomes.setdefault(name.removeprefix(f"{topic}."), set()).add(each["what"])
    return outcomes, found


@pytest.fixture
def behind(brokers: Brokers, topic: str) -> None:
    """Create four topics with 40 records that broker 3 leads, and whose replicas on broker 1 lag.

    Broker 1 was away, and is throttled now. In `eligible` nothing is committed, since two replicas must be in
    sync; `unclean` allows unclean leader election.
    """
    brokers.create(f"{topic}.unclean", [[3, 1]], unclean_leader_election_enable="true")
    brokers.create(f"{topic}.eligible", [[3, 1]], min_insync_replicas="2")
    brokers.create(f"{topic}.plain", [[3, 1]])
    brokers.create(f"{topic}.third", [[3, 2, 1]], min_insync_replicas="2")
    # Throttle leaders: a follower's own throttle does not apply to replicas that have all committed records.
    for leader in ("2", "3"):
        operator_sets(brokers, ResourceType.BROKER, leader, {"leader.replication.throttled.rate": "1"})
    for name in _BEHIND:
        operator_sets(
            brokers, ResourceType.TOPIC, f"{topic}.{name}", {"leader.replication.throttled.replicas": "*"}
        )
    brokers.stop(1)
    for name in _BEHIND:
        payload = ({"value": secrets.token_bytes(_BYTES), "partition": 0} for _ in range(_RECORDS))
        produce(brokers.servers, f"{topic}.{name}", payload, **{"acks": 1, "enable.idempotence": False})
    brokers.start(1)
    eventually(lambda: len(brokers.admin.list_topics(timeout=10).brokers) == 3, "all are there")


def eligible(described: dict[Place, PartitionDescribed] | None) -> dict[Place, tuple[int, ...]]:
    """Return the eligible leader replicas of the partitions that have any."""
    assert described is not None
    return {place: each.eligible for place, each in described.items() if each.eligible}


@pytest.mark.nightly
def test_a_replica_that_lives_and_is_behind_does_not_help_but_by_the_rules_of_the_cluster(
    watched: Watched, admin: ReplicaAdmin, topic: str, behind: None
) -> None:
    brokers = watched.brokers
    # While nothing is committed, a follower that returns empty is in sync for a moment.
    asked = [f"{topic}.unclean", f"{topic}.eligible"]
    expected = {(f"{topic}.eligible", 0): (1,)}
    eventually(lambda: eligible(admin.describe(asked)) == expected, "broker 1 is behind, and eligible")

    outcomes, found = answer(watched, 3, topic)

    assert outcomes == {
        "unclean-0": {"unclean", "moved"},
        "eligible-0": {"moved", "uncopied", "refusing"},
        "plain-0": {"offline"},
        "third-0": {"moved", "uncopied", "refusing"},
    }, admin.describe([f"{topic}.eligible"])
    assert f"{topic}.unclean-0" in found["sentence"] and "lost for good" in found["sentence"]
    # The session timeout is that of these brokers, not Kafka's default of nine seconds or the model's.
    assert found["session_ms"] == 5_000 and 4_750 < found["longest_away_ms"] < 5_750
    assert found["assumed"] == [] and found["settings_unseen"] == 0

    brokers.kill(3)

    def led_by(name: str) -> int:
        return admin.observe().partitions[f"{topic}.{name}", 0].leader

    for name, leader in (("unclean", 1), ("eligible", 1), ("plain", -1), ("third", 2)):
        eventually(lambda name=name, leader=leader: led_by(name) == leader, f"{leader} leads {name}")
    # All records were acknowledged: in one topic as committed, in the other with acks=1, as only the leader had
    # them.
    for name in ("unclean", "eligible"):
        place = f"{topic}.{name}", 0
        assert admin.copied({place: [1]}).get(place, 0) < _RECORDS * _BYTES, f"the leader of {name} has it all"
    for name in ("eligible", "third"):
        watched.alert("under-min-isr", f"{topic}.{name}-0")
    # Broker 1 has a replica of the partition without a leader, but not the last one, which is on the unavailable
    # broker.
    outcomes, found = answer(watched, 1, topic)
    assert outcomes["plain-0"] == {"offline_already"}
    # Topics of other tests may be without a leader, too.
    assert f"{topic}.plain-0" in found["sentence"] and "no leader already" in found["sentence"]
    assert answer(watched, 3, topic)[0]["plain-0"] == {"offline_already", "last_copy"}


@pytest.mark.nightly
def test_all_eligible_replicas_are_told_however_many_an_answer_has(
    watched: Watched, admin: ReplicaAdmin, topic: str
) -> None:
    brokers = watched.brokers
    names = [f"{topic}.{each}" for each in ("a", "b")]
    for name in names:
        brokers.create(name, [[3, 1], [3, 1], [2, 1]], min_insync_replicas="2")
    assert eligible(admin.describe(names)) == {}
    brokers.kill(1)
    everywhere = {(name, number): (1,) for name in names for number in range(3)}
    eventually(lambda: eligible(admin.describe(names)) == everywhere, "broker 1 is out of sync, and eligible")
    assert eligible(replication_observation.describe(admin._send, names, most_at_once=2)) == everywhere
    # It is away: eligible or not, it cannot lead.
    assert answer(watched, 3, topic)[0] == {f"{each}-{number}": {"offline"} for each in "ab" for number in (0, 1)}


@pytest.mark.nightly  # a partition without leader stays in test_replication; its words in test_what_if_page
def test_what_nobody_leads_is_named_and_is_no_good_news(watched: Watched, topic: str, tmp_path: Path) -> None:
    brokers = watched.brokers
    brokers.create(topic, [[3]])
    brokers.kill(3)
    watched.alert("partition-without-leader", f"{topic}-0")

    with serve_here(watched.database.url, probe_timeout_seconds=20.0) as console:
        page = Visitor(console, "op", "operator").get("/clusters/east/replication/what-if?broker=3")
        assert 'data-tone="bad"' in page.text and "no leader already" in said(page)
    with shell_of(watched.database.url, tmp_path) as shell:
        told = shell("drill", "broker", "east", "3")
        assert told.exit_code == 0 and "no leader already" in told.stderr and "last_copy" in told.stdout
        assert shell.json("drill", "broker", "east", "3")["session_ms"] == 5_000
        written = shell("drill", "broker", "east", "3", "-o", "yaml")
        assert written.exit_code == 0 and "settings_unseen: 0" in written.stdout


_STREAMS = ("three", "two", "one", "others")


def _declare(rest: Rest, tenant: str) -> None:
    """Provide a tree of east and two clusters that are down, with streams of one partition."""
    rest.add_clusters("west", "south")
    near = {"level": 1, "children": [{"cluster": "west"}, {"cluster": "south"}]}
    environments = f"/tenants/{tenant}/instances/retail/environments"
    for method, path, body in (
        ("PUT", "/trees/main", {"level": 2, "children": [{"cluster": "east"}, near]}),
        ("POST", "/tenants", {"name": tenant}),
        ("POST", f"/tenants/{tenant}/instances", {"name": "retail", "tree": "main"}),
        ("POST", environments, {"name": "prod"}),
        *(("POST", f"{environments}/prod/streams", {"name": each, "partitions": 1}) for each in _STREAMS),
    ):
        answer = rest(method, path, body)
        assert answer.status_code == 201, answer.text


def test_a_plan_of_a_switch_says_what_its_streams_would_lose_with_a_broker(
    watched: Watched, topic: str, tmp_path: Path
) -> None:
    brokers, rest, tenant = watched.brokers, watched.rest, f"t{secrets.token_hex(3)}"
    _declare(rest, tenant)
    streams = f"{tenant}/retail/prod"
    names = [f"{tenant}-retail-prod-{each}" for each in _STREAMS]
    brokers.create(topic, [[3]])  # of nobody who would move
    for name, replicas in zip(names, ([3, 1, 2], [1, 3], [3], [1, 2]), strict=True):
        brokers.create(name, [replicas], min_insync_replicas="2")
    wish = {"from": "east", "to": "west", "mode": "emergency"}

    def plan(**changes: Any) -> dict[str, Any]:
        answer = rest("POST", "/switches/plan", {**wish, **changes})
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()
        return found

    try:
        plain, found = plan(), plan(without={"brokers": [{"cluster": "east", "broker": 3}]})
        (gone,) = found["what_if"]["brokers"]
        counts = {each["what"]: (each["count"], each["examples"]) for each in gone["outcomes"] if each["count"]}
        assert counts == {
            "offline": (1, [f"{streams}/one-0"]),
            "refusing": (1, [f"{streams}/two-0"]),
            "uncopied": (1, [f"{streams}/three-0"]),
            "moved": (1, [f"{streams}/three-0"]),
        }
        assert (gone["cluster"], gone["broker"], gone["replicas"], gone["session_ms"]) == ("east", 3, 3, 5_000)
        assert "1 partition could not be led until it is back" in gone["sentence"]
        # The cluster is unchanged: the plan is the same, but cannot be started.
        assert found["what_if"]["gone"] == [] and found["moves"] == plain["moves"] != []
        assert found["blockers"] == plain["blockers"] and found["digest"] != plain["digest"]
        assert plain["what_if"] is None

        unknown = rest(
            "POST", "/switches/plan", {**wish, "without": {"brokers": [{"cluster": "east", "broker": 9}]}}
        )
        told = problem(unknown, 404, "not-found")
        assert "east has no broker 9; it has 1, 2, 3: name one of these" in told["detail"]
        assert [error["pointer"] for error in told["errors"]] == ["/without/brokers/0/broker"]

        with shell_of(watched.database.url, tmp_path) as shell:
            words = (
                "switch",
                "plan",
                "--from",
                "east",
                "--to",
                "west",
                "--emergency",
                "--without-broker",
                "east/3",
            )
            shown = shell(*words)
            assert f"{streams}/one-0" in shown.stdout and "offline" in shown.stdout
            assert "east, streams that would move: If broker 3 died now" in shown.stderr
    finally:
        for future in brokers.admin.delete_topics(names).values():
            future.result(DEADLINE_SECONDS)
