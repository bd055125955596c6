"""Replication health of a real cluster: a worker observes, the API reports, an operator elects leaders."""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType
from fastapi.testclient import TestClient

from backend.api.app import create_app
from backend.kafka.admin.replica_admin import ReplicaAdmin
from tests.eventually import eventually
from tests.support.api.rest import Rest, problem, rest_settings
from tests.support.api.shell import shell_of
from tests.support.console.consoles import serve_here
from tests.support.console.visitors import Visitor, hidden, said
from tests.support.database.postgres import Database
from tests.support.kafka.three_brokers import NODES, RACKS, Brokers
from tests.support.kafka.topics import DEADLINE_SECONDS, produce, suppress_unknown
from workers.replication import ReplicationHost

ELECT = "/clusters/east/elect-preferred-leaders"
WHAT_IF = "/clusters/east/replication/what-if"
PAGE = "/clusters/east/replication"


@dataclass
class Watched:
    """A control plane that knows the cluster as `east`, with its worker."""

    rest: Rest
    host: ReplicationHost
    brokers: Brokers
    database: Database

    def told(self, cluster: str = "east") -> dict[str, Any]:
        self.host.tick()
        found: dict[str, Any] = self.rest("GET", f"/clusters/{cluster}/replication").json()
        return found

    def alert(self, name: str, example: str) -> dict[str, Any]:
        """Wait until an alert lists this example, and return the alert."""

        def look() -> dict[str, Any] | None:
            alerts = {each["alert"]: each for each in self.told()["alerts"]}
            return alerts[name] if example in alerts.get(name, {"examples": []})["examples"] else None

        return eventually(look, f"{name} is told of {example}", 0.1)

    def calm(self, name: str, example: str) -> None:
        """Wait until the alert no longer lists this example."""

        def look() -> bool:
            found = self.told()
            alerts = {each["alert"]: each["examples"] for each in found["alerts"]}
            return found["health"] is not None and example not in alerts.get(name, [])

        eventually(look, f"{name} is no longer told of {example}", 0.1)

    def elected(self, **body: Any) -> dict[str, Any]:
        answer = self.rest("POST", ELECT, body)
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()
        return found

    def elections(self) -> list[dict[str, Any]]:
        """Return the elections in the event log."""
        items = self.rest("GET", "/events?stream=replication-east").json()["items"]
        return [each["data"] for each in items]


@pytest.fixture
def watched(brokers: Brokers, database: Database) -> Iterator[Watched]:
    settings = rest_settings(
        database.url,
        probe_timeout_seconds=20.0,
        replication_look_seconds=0.1,
        replication_settings_seconds=0.1,
    )
    app = create_app(settings)
    rest = Rest(TestClient(app, raise_server_exceptions=False))
    added = rest("POST", "/clusters", {"name": "east", "bootstrap_servers": brokers.servers})
    assert added.status_code == 201, added.text
    host = ReplicationHost(database.engine, settings)
    yield Watched(rest, host, brokers, database)
    for watch in host._watches.values():
        watch.end()
    app.state.services.engine.dispose()


@pytest.fixture
def topic(brokers: Brokers) -> Iterator[str]:
    """Provide a topic name that sorts first and so is among the examples; delete its topics afterwards."""
    name = f"0.{secrets.token_hex(4)}"
    yield name
    brokers.start(*NODES)
    mine = [each for each in brokers.admin.list_topics(timeout=DEADLINE_SECONDS).topics if each.startswith(name)]
    for future in brokers.admin.delete_topics(mine).values():
        with suppress_unknown():
            future.result(DEADLINE_SECONDS)


def test_what_nobody_has_looked_at_is_told_to_be_so(watched: Watched) -> None:
    found = watched.rest("GET", "/clusters/east/replication").json()
    assert found == {
        "cluster": "east",
        "state": "online",
        "age_seconds": None,
        "reason": None,
        "alerts": [],
        "health": None,
    }


def test_brokers_and_partitions_are_told_and_a_sound_topic_is_no_alert(watched: Watched, topic: str) -> None:
    watched.brokers.create(topic, [[1, 2, 3], [2, 3, 1], [3, 1, 2]], min_insync_replicas="2")
    found = eventually(lambda: _with_health(watched.told()), "it was looked at", 0.1)
    health = found["health"]
    assert [(each["id"], each["rack"], each["is_here"]) for each in health["brokers"]] == [
        (node, rack, True) for node, rack in zip(NODES, RACKS, strict=True)
    ]
    assert {each["lag_time_max_ms"] for each in health["brokers"]} == {30_000}
    assert health["partitions"] >= 3 and health["away"]["count"] == 0
    assert health["conditions"]["without_leader"]["count"] == 0
    assert found["age_seconds"] >= 0 and found["reason"] is None
    examples = [name for each in found["alerts"] for name in each["examples"]]
    assert not [name for name in examples if name.startswith(topic)]


def _with_health(found: dict[str, Any]) -> dict[str, Any] | None:
    return found if found["health"] else None


@pytest.mark.nightly  # the prediction: test_what_if; a broker that stops stays
def test_what_would_be_lost_if_a_broker_died_is_what_is_lost_when_it_does(watched: Watched, topic: str) -> None:
    brokers, pair, lone = watched.brokers, f"{topic}.pair", f"{topic}.single"
    brokers.create(topic, [[3, 1, 2], [1, 2, 3]], min_insync_replicas="2")
    brokers.create(pair, [[1, 3]], min_insync_replicas="2")
    brokers.create(lone, [[3]])

    found = watched.rest("GET", f"{WHAT_IF}?broker=3").json()
    outcomes = {each["what"]: each["examples"] for each in found["outcomes"]}
    assert f"{lone}-0" in outcomes["offline"] and "could not be led until it is back" in found["sentence"]
    assert f"{pair}-0" in outcomes["refusing"]
    assert f"{topic}-0" in outcomes["moved"] and f"{topic}-0" in outcomes["uncopied"]
    assert not [name for names in outcomes.values() for name in names if name == f"{topic}-1"]
    assert (
        "has no broker 9; it has 1, 2, 3"
        in problem(watched.rest("GET", f"{WHAT_IF}?broker=9"), 404, "not-found")["detail"]
    )

    brokers.kill(3)

    for name, example in (
        ("partition-without-leader", f"{lone}-0"),
        ("under-min-isr", f"{pair}-0"),
        ("not-preferred-leader", f"{topic}-0"),
    ):
        watched.alert(name, example)
    again = watched.rest("GET", f"{WHAT_IF}?broker=3").json()
    assert f"{lone}-0" in {each["what"]: each["examples"] for each in again["outcomes"]}["offline_already"]


def test_a_broker_that_stops_is_told_with_what_it_leaves_and_leads_again_when_it_is_back(
    watched: Watched, topic: str
) -> None:
    brokers, pair, lone = watched.brokers, f"{topic}.pair", f"{topic}.single"
    brokers.create(topic, [[3, 1, 2], [1, 2, 3]], min_insync_replicas="2")
    brokers.create(pair, [[3, 1]], min_insync_replicas="2")
    brokers.create(lone, [[3]])
    # For two replicas that both must be in sync, the alert is raised while all is well.
    assert watched.alert("min-isr-not-below-factor", pair)["severity"] == "warning"

    brokers.kill(3)

    assert watched.alert("broker-away", "3")["severity"] == "warning"
    for name, example, severity in (
        ("under-replicated", f"{topic}-0", "warning"),
        ("under-replicated", f"{topic}-1", "warning"),
        ("down-to-min-isr", f"{topic}-0", "warning"),
        ("under-min-isr", f"{pair}-0", "critical"),
        ("partition-without-leader", f"{lone}-0", "critical"),
        ("not-preferred-leader", f"{topic}-0", "advice"),
    ):
        told = watched.alert(name, example)
        assert told["severity"] == severity and told["what_to_do"], told
    order = [each["severity"] for each in watched.told()["alerts"]]
    assert order == sorted(order, key=["critical", "warning", "advice"].index)
    (away,) = [each for each in watched.told()["health"]["brokers"] if not each["is_here"]]
    assert (away["id"], away["rack"], away["leaders"]) == (3, "az3", 0)

    left = watched.elected(topics=[topic, lone])
    assert (left["elected"], left["already"]) == (0, 1)
    assert [(each["reason"], each["examples"]) for each in left["refused"]] == [
        ("it has no leader", [f"{lone}-0"]),
        ("the preferred broker has no replica that is in sync", [f"{topic}-0"]),
    ]
    assert watched.elections() == []

    brokers.start(3)

    for name, example in (
        ("broker-away", "3"),
        ("under-replicated", f"{topic}-0"),
        ("under-min-isr", f"{pair}-0"),
        ("partition-without-leader", f"{lone}-0"),
    ):
        watched.calm(name, example)
    watched.elected(topics=[topic, pair, lone])
    watched.calm("not-preferred-leader", f"{topic}-0")
    watched.calm("not-preferred-leader", f"{pair}-0")


def test_leaders_that_were_moved_are_brought_back_by_an_election(
    watched: Watched, admin: ReplicaAdmin, topic: str
) -> None:
    watched.brokers.create(topic, [[1, 2], [2, 3], [3, 1]])
    _prefer_others(admin, topic)
    assert watched.alert("not-preferred-leader", f"{topic}-0")["count"] >= 2
    wish = {"topics": [topic]}
    rehearsed = watched.rest("POST", f"{ELECT}?dry_run=true", wish).json()
    expected = {
        "cluster": "east",
        "elected": 2,
        "examples": [f"{topic}-0", f"{topic}-1"],
        "already": 1,
        "refused": [],
    }
    assert rehearsed == expected and watched.elections() == []
    done = watched.rest("POST", ELECT, wish, Idempotency_Key="once")
    assert (done.status_code, done.json()) == (200, expected)
    watched.calm("not-preferred-leader", f"{topic}-0")
    assert admin.observe().partitions[topic, 0].leader == 2
    event = {"cluster": "east", "topics": [topic], "elected": 2, "refused": {}}
    assert watched.elections() == [event]
    # A repeat with the same key returns the same response and does nothing; without a key nothing is left to do.
    assert watched.rest("POST", ELECT, wish, Idempotency_Key="once").json() == expected
    assert (watched.elected(**wish)["elected"], watched.elected(**wish)["already"]) == (0, 3)
    assert watched.elections() == [event]


def _prefer_others(admin: ReplicaAdmin, topic: str) -> None:
    """Reorder the replicas of two partitions without changing their leaders."""
    assert admin.alter({(topic, 0): [2, 1], (topic, 1): [3, 2]}) == {}
    eventually(lambda: not admin.ongoing(), "the order has changed")
    eventually(lambda: admin.observe().partitions[topic, 1].replicas == (3, 2), "brokers have heard of it")


def test_the_page_shows_what_an_election_does_and_elects_once(
    watched: Watched, admin: ReplicaAdmin, topic: str
) -> None:
    watched.brokers.create(topic, [[1, 2], [2, 3], [3, 1]])
    _prefer_others(admin, topic)
    watched.alert("not-preferred-leader", f"{topic}-0")
    with serve_here(watched.database.url, probe_timeout_seconds=20.0) as console:
        operator = Visitor(console, "op", "operator")
        page = operator.get(PAGE)
        assert "Elect preferred leaders (" in said(page) and f"{PAGE}/what-if?broker=3" in page.text
        assert "If broker 3 died now, " in said(operator.get(f"{PAGE}/what-if?broker=3"))
        assert operator.client.get(f"{PAGE}/what-if?broker=x").status_code == 404
        everywhere = operator.client.post(f"{PAGE}/-elect", data={**hidden(page), "step": "preview"})
        assert "The preferred replica will lead " in said(everywhere)

        preview = operator.preview(f"{PAGE}/-elect", topics=topic)
        assert "The preferred replica will lead 2 partitions; 1 partition of east is already led" in said(preview)
        assert "1 broker will lead more partitions, 1 broker fewer" in said(preview)
        assert re.findall('data-field="([^"]*)"', preview.text) == ["Broker 1 leads", "Broker 3 leads"]
        assert watched.elections() == [] and admin.observe().partitions[topic, 0].leader == 1

        # Another operator is faster with one of them.
        assert admin.elect_preferred([(topic, 0)]) == {}
        eventually(lambda: admin.observe().partitions[topic, 0].leader == 2, "brokers have heard of it")
        late = operator.client.post(f"{PAGE}/-elect", data={**hidden(preview), "step": "confirm"})
        assert late.status_code == 409 and "Nothing was elected" in said(late), said(late)
        assert "1 partition would change leaders, previously 2" in said(late)
        assert "Broker 1 would keep its leaders" in said(late)
        assert watched.elections() == [] and admin.observe().partitions[topic, 1].leader == 2

        form = {**hidden(operator.preview(f"{PAGE}/-elect", topics=topic)), "step": "confirm"}
        done = operator.client.post(f"{PAGE}/-elect", data=form)
        assert (done.status_code, done.headers["Location"]) == (303, PAGE), said(done)
        eventually(lambda: admin.observe().partitions[topic, 1].leader == 3, "it leads")
        assert watched.elections() == [{"cluster": "east", "topics": [topic], "elected": 1, "refused": {}}]
        assert re.search(r"Last election on .* UTC by op: 1 partition\.", said(operator.get(PAGE)))

        # The form was rendered for the present state: sent again, it still elects no leader.
        _order(admin, (topic, 1), [2, 3])
        assert admin.elect_preferred([(topic, 1)]) == {}
        _order(admin, (topic, 1), [3, 2])
        eventually(lambda: admin.observe().partitions[topic, 1].leader == 2, "it does not lead")
        assert operator.client.post(f"{PAGE}/-elect", data=form).status_code == 303
        assert admin.observe().partitions[topic, 1].leader == 2 and len(watched.elections()) == 1
        assert operator.confirm(f"{PAGE}/-elect", topics=topic).status_code == 303
        watched.calm("not-preferred-leader", f"{topic}-1")
        nobody = operator.preview(f"{PAGE}/-elect", topics=topic)
        assert "There is nothing to elect: 3 partitions of east are already led by the preferred" in said(nobody)


def _order(admin: ReplicaAdmin, place: tuple[str, int], replicas: list[int]) -> None:
    assert admin.alter({place: replicas}) == {}
    wanted = tuple(replicas)
    eventually(
        lambda: admin.observe().partitions[place].replicas == wanted and not admin.ongoing(), "it is ordered so"
    )


def test_settings_are_judged_and_read_again(watched: Watched, topic: str) -> None:
    watched.brokers.create(topic, [[1, 2, 3]], min_insync_replicas="3", unclean_leader_election_enable="true")
    assert watched.alert("min-isr-not-below-factor", topic)["severity"] == "warning"
    assert watched.alert("unclean-election", topic)["severity"] == "warning"
    _set(watched.brokers, topic, {"min.insync.replicas": "1", "unclean.leader.election.enable": "false"})
    watched.calm("min-isr-not-below-factor", topic)
    watched.calm("unclean-election", topic)
    assert watched.alert("one-copy-acknowledged", topic)["severity"] == "advice"


def _set(brokers: Brokers, topic: str, values: dict[str, str]) -> None:
    entries = [
        ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET) for key, value in values.items()
    ]
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=entries)
    (answer,) = brokers.admin.incremental_alter_configs([resource]).values()
    answer.result(DEADLINE_SECONDS)


def test_a_replica_that_is_being_copied_is_not_missing(watched: Watched, admin: ReplicaAdmin, topic: str) -> None:
    brokers = watched.brokers
    brokers.create(topic, [[1, 2]], min_insync_replicas="1")
    values = ({"value": secrets.token_bytes(10_000), "partition": 0} for _ in range(400))
    produce(brokers.servers, topic, values, acks="all")
    throttle = admin.intended_throttle(10_000, {(topic, 0): ((1, 2), (3,))})
    assert admin.throttle(throttle) == {}
    try:
        assert admin.alter({(topic, 0): [1, 3]}) == {}
        found = eventually(lambda: _moving(watched.told(), f"{topic}-0"), "it is told to be moved", 0.1)
        assert f"{topic}-0" not in found["under_replicated"]["examples"]
    finally:
        assert admin.unthrottle(throttle) == {}
    eventually(lambda: not admin.ongoing(), "it has moved")
    watched.calm("under-replicated", f"{topic}-0")


def _moving(found: dict[str, Any], name: str) -> dict[str, Any] | None:
    conditions: dict[str, Any] = found["health"]["conditions"] if found["health"] else {}
    return conditions if conditions and name in conditions["moving"]["examples"] else None


def test_topics_that_are_not_there_are_named(watched: Watched, topic: str) -> None:
    watched.brokers.create(topic, [[1]])

    def named() -> dict[str, Any] | None:
        answer = watched.rest("POST", ELECT, {"topics": [topic, "nothing", "nor.this"]})
        found = problem(answer, 422, "value-invalid")
        return found if topic not in found["detail"] else None

    # Brokers learn of a new topic one after another, and any of them may be asked.
    told = eventually(named, "the broker that is asked has heard of the topic", 0.1)
    assert told["detail"].startswith("there is no topic 'nothing' on east, nor 1 more")
    assert [each["pointer"] for each in told["errors"]] == ["/topics/1", "/topics/2"]


def test_a_cluster_that_is_removed_is_forgotten(watched: Watched) -> None:
    eventually(lambda: _with_health(watched.told()), "it was looked at", 0.1)
    assert watched.rest("DELETE", "/clusters/east").status_code == 204
    problem(watched.rest("GET", "/clusters/east/replication"), 404, "not-found")
    watched.host.tick()
    body = {"name": "west", "bootstrap_servers": watched.brokers.servers}
    assert watched.rest("POST", "/clusters", body).status_code == 201
    found = eventually(lambda: _with_health(watched.told("west")), "it was looked at under its new name", 0.1)
    assert found["cluster"] == "west"


def test_commands_tell_and_elect(watched: Watched, admin: ReplicaAdmin, topic: str, tmp_path: Path) -> None:
    watched.brokers.create(topic, [[1, 2], [2, 3], [3, 1]])
    _prefer_others(admin, topic)
    watched.alert("not-preferred-leader", f"{topic}-0")
    with shell_of(watched.database.url, tmp_path) as shell:
        shown = shell("replication", "show", "east")
        assert shown.exit_code == 0 and "3 brokers" in shown.stderr, shown.stderr
        assert "not-preferred-leader" in shown.stdout and f"{topic}-0" in shown.stdout
        assert "az2" in shell("replication", "show", "east", "--brokers").stdout
        assert shell.json("replication", "show", "east")["health"]["away"]["count"] == 0
        rehearsed = shell("replication", "elect-leaders", "east", "--topic", topic, "--dry-run")
        assert "2 partitions would be led" in rehearsed.stderr
        assert shell.json("replication", "elect-leaders", "east", "--topic", topic)["elected"] == 2
        refused = shell("replication", "elect-leaders", "east", "--topic", "nothing")
        assert refused.exit_code == 2 and "there is no topic 'nothing' on east" in refused.stderr
        assert shell("replication", "show", "nowhere").exit_code == 1
        died = shell("drill", "broker", "east", "1")
        assert "If broker 1 died now, " in died.stderr, died.stderr
        assert "acknowledged with acks=1" in died.stdout
