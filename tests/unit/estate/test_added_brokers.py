"""Brokers that are added and removed while the estate runs: numbers, zones, settings, records, refusals."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from backend.estate.added_brokers import (
    AddedDoNotFit,
    BrokerHoldsReplicas,
    BrokerRefused,
    cluster_named,
    next_node,
    read_added,
    removable,
    save_added,
    zone_for,
)
from backend.estate.document import ClusterSpec, Estate, read_estate
from backend.estate.home import Home
from backend.estate.plan import (
    Kafka,
    Layout,
    broker_ports,
    broker_process,
    lay_out,
    make_plan,
    with_process,
    without_process,
)
from backend.estate.ports import Ports
from backend.estate.processes import MARKER
from backend.estate.programs.broker import AddedBroker, BrokerPorts
from backend.estate.saved_layout import restore_layout, save_layout
from backend.settings import PROJECT_ROOT, settings
from tests.support.estate.running import SMALL_ESTATE, treeline

SECURED = """\
name: secured-replicated
primary: cluster-1
clusters:
  cluster-1:
    zones: [az1, az2, az3]
    brokers: 3
    listeners_via_proxy: true
    security: {sasl: SCRAM-SHA-512, acls: true}
  cluster-2: {}
tree: {level: 1, children: [{cluster: cluster-1}, {cluster: cluster-2}]}
"""


@pytest.fixture(autouse=True)
def own_settings(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    # Configured, so that a plan creates no database of its own.
    monkeypatch.setenv("TREELINE_DATABASE_URL", "postgresql+psycopg://elsewhere/treeline")
    monkeypatch.setenv("TREELINE_CELERY_BROKER_URL", "redis://elsewhere/0")
    settings.cache_clear()
    yield
    settings.cache_clear()


def replicated() -> Estate:
    return read_estate(PROJECT_ROOT / "estates" / "replicated.yaml")


def cluster_1() -> ClusterSpec:
    return cluster_named(replicated(), "cluster-1")


def secured(tmp_path: Path) -> Estate:
    (tmp_path / "secured.yaml").write_text(SECURED)
    return read_estate(tmp_path / "secured.yaml")


def added(node: int, zone: str = "az1", cluster: str = "cluster-1") -> AddedBroker:
    ports = BrokerPorts(client=node * 10, advertised=node * 10, internal=node * 10 + 1, controller=None)
    return AddedBroker(cluster=cluster, node=node, zone=zone, ports=ports)


def laid_out(tmp_path: Path, estate: Estate, *brokers: AddedBroker) -> Layout:
    home = Home(tmp_path / "home")
    home.make()
    home.data(estate.name).mkdir(parents=True, exist_ok=True)
    ports = Ports(home.data(estate.name) / "ports.json", prefer_defaults=False)
    layout = lay_out(home, estate, ports, brokers)
    ports.remember()
    return layout


def lines(text: str) -> dict[str, str]:
    return dict(line.split("=", 1) for line in text.splitlines())


@pytest.mark.parametrize(
    ("there", "used", "given"), [((), (), 4), ((4,), (), 5), ((5,), (), 4), ((4, 5), (6,), 7), ((), (1, 4), 5)]
)
def test_a_new_broker_gets_the_lowest_number_that_nobody_has_or_had(
    there: tuple[int, ...], used: tuple[int, ...], given: int
) -> None:
    assert next_node(cluster_1(), [added(node) for node in there], used) == given


def test_a_cluster_gets_no_more_brokers_than_an_estate_file_can_give_it() -> None:
    with pytest.raises(BrokerRefused, match="cluster-1 has 9 brokers"):
        next_node(cluster_1(), [added(node) for node in range(4, 10)])


@pytest.mark.parametrize(
    ("there", "zone"),
    [([], "az1"), (["az1"], "az2"), (["az1", "az2"], "az3"), (["az3"], "az1"), (["az4", "az4"], "az1")],
)
def test_without_a_zone_it_is_the_one_with_the_fewest_brokers(there: list[str], zone: str) -> None:
    assert zone_for(cluster_1(), [added(node, name) for node, name in enumerate(there, 4)], None) == zone


def test_a_zone_may_be_new() -> None:
    assert zone_for(cluster_1(), [], "az4") == "az4"


@pytest.mark.parametrize("zone", ["", " ", "a b", "a\\b", "az\n1", "größe", "a" * 101])
def test_a_zone_that_is_no_name_is_refused(zone: str) -> None:
    with pytest.raises(BrokerRefused, match="zone"):
        zone_for(cluster_1(), [], zone)


@pytest.mark.parametrize(
    ("node", "why"),
    [(2, "controller"), (5, "no broker 5; those that were added: 4"), (0, "no broker 0"), (-1, "-1")],
)
def test_only_added_brokers_can_be_taken_away(node: int, why: str) -> None:
    assert removable(cluster_1(), [added(4)], 4) == added(4)
    with pytest.raises(BrokerRefused, match=why):
        removable(cluster_1(), [added(4)], node)


def test_an_unknown_cluster_is_refused_with_those_that_there_are() -> None:
    with pytest.raises(BrokerRefused, match="cluster-1, cluster-2, cluster-3"):
        cluster_named(replicated(), "cluster-9")


def test_a_broker_with_replicas_is_refused_with_their_number_and_the_command_that_moves_them() -> None:
    error = BrokerHoldsReplicas("cluster-1", 4, {"orders": 6, "a": 1, "b": 1, "c": 2})
    assert error.replicas["orders"] == 6
    assert "broker 4 of cluster-1 holds 10 replicas (a, b, c and 1 more)" in str(error)
    assert "`treeline placement plan`" in str(error)
    assert "holds 1 replica (orders)." in str(BrokerHoldsReplicas("cluster-1", 4, {"orders": 1}))


def test_what_was_added_is_there_again_after_down_and_up(tmp_path: Path) -> None:
    estate = replicated()
    before = laid_out(tmp_path, estate, added(4), added(5, "az2"))
    save_added(before.home, estate, before.added)
    again = laid_out(tmp_path, estate, *read_added(before.home, estate))
    assert again.added == before.added, "numbers, zones and ports"
    assert [broker.zone for broker in again.added] == ["az1", "az2"]
    assert read_added(Home(tmp_path / "elsewhere"), estate) == ()


@pytest.mark.parametrize(
    ("given", "why"), [(added(3), "broker of this number"), (added(4, cluster="cluster-9"), "no such cluster")]
)
def test_an_estate_file_that_contradicts_what_was_added_is_refused(
    tmp_path: Path, given: AddedBroker, why: str
) -> None:
    estate, home = replicated(), Home(tmp_path)
    home.data(estate.name).mkdir(parents=True)
    save_added(home, estate, [given])
    with pytest.raises(AddedDoNotFit, match=why):
        read_added(home, estate)


def test_the_running_layout_is_read_back_as_it_was_without_the_estate_file(tmp_path: Path) -> None:
    estate = secured(tmp_path)
    layout = laid_out(tmp_path, estate, added(4))
    save_layout(layout)
    (tmp_path / "secured.yaml").unlink()
    assert restore_layout(layout.home) == layout


def test_an_added_broker_follows_the_quorum_and_is_none_of_it(tmp_path: Path) -> None:
    layout = laid_out(tmp_path, replicated(), added(4, "az2"))
    make_plan(layout, Kafka(jars=tmp_path, archive=None), while_pid=None)
    texts = [
        lines((layout.broker_folder("cluster-1", node) / "server.properties").read_text()) for node in (1, 2, 3, 4)
    ]
    voters, fourth = texts[0]["controller.quorum.voters"], texts[3]
    assert voters.count("@") == 3
    assert {text["controller.quorum.voters"] for text in texts} == {voters}
    assert [text["process.roles"] for text in texts] == ["broker,controller"] * 3 + ["broker"]
    assert (fourth["node.id"], fourth["broker.rack"]) == ("4", "az2")
    ports = layout.added[0].ports
    assert fourth["listeners"] == f"CLIENT://127.0.0.1:{ports.client},INTERNAL://127.0.0.1:{ports.internal}"
    # Kafka's own topics must stay the same, whichever broker is asked.
    assert len({text["offsets.topic.replication.factor"] for text in texts}) == 1


def test_a_client_is_sent_to_the_brokers_that_are_always_there(tmp_path: Path) -> None:
    layout = laid_out(tmp_path, replicated(), added(4))
    assert layout.bootstrap_servers("cluster-1").count(",") == 2
    assert str(layout.added[0].ports.advertised) not in layout.bootstrap_servers("cluster-1")


def test_on_a_secured_cluster_it_logs_in_like_the_others_and_lets_nobody_else_in(tmp_path: Path) -> None:
    layout = laid_out(tmp_path, secured(tmp_path), added(4))
    make_plan(layout, Kafka(jars=tmp_path, archive=None), while_pid=None)
    first, fourth = (layout.broker_folder("cluster-1", node) for node in (1, 4))
    theirs, its = (lines((folder / "server.properties").read_text()) for folder in (first, fourth))
    security = [key for key in theirs if "sasl" in key or key in ("super.users", "authorizer.class.name")]
    assert len(security) > 5
    assert {key: its[key] for key in security} == {key: theirs[key] for key in security}
    assert "SASL_PLAINTEXT" in its["listener.security.protocol.map"]
    # Credentials are in the metadata since the first broker was formatted.
    assert "--add-scram" in (first / "format.arguments").read_text()
    assert "--add-scram" not in (fourth / "format.arguments").read_text()
    assert (first.parent / "kafka-cluster-id").read_text() in (fourth / "format.arguments").read_text()


def test_behind_the_proxy_it_has_a_way_of_its_own(tmp_path: Path) -> None:
    layout = laid_out(tmp_path, secured(tmp_path), added(4))
    plan = make_plan(layout, Kafka(jars=tmp_path, archive=None), while_pid=None)
    ports = layout.added[0].ports
    assert len({ports.client, ports.advertised, ports.internal}) == 3
    (proxy,) = (spec for spec in plan.processes if spec.name == "proxy")
    assert f"cluster-1={ports.advertised}:{ports.client}" in proxy.argv


def test_a_plan_gets_a_broker_and_loses_it_and_is_what_it_was(tmp_path: Path) -> None:
    layout = laid_out(tmp_path, replicated())
    kafka = Kafka(jars=tmp_path, archive=None)
    plan = make_plan(layout, kafka, while_pid=7)
    spec = broker_process(layout, kafka, cluster_1(), 4, added(4))
    more = with_process(plan, spec, layout.home)
    names = [process.name for process in more.processes]
    assert names.index("kafka:cluster-3:1") + 1 == names.index("kafka:cluster-1:4") == names.index("migrate") - 1
    assert more.processes[names.index("kafka:cluster-1:4")].environment[MARKER] == str(layout.home.path)
    assert with_process(more, spec, layout.home) == more, "once, however often it is put there"
    assert without_process(more, "kafka:cluster-1:4") == plan


def test_ports_for_one_more_are_none_of_those_that_run_and_are_given_back(tmp_path: Path) -> None:
    layout = laid_out(tmp_path, replicated())
    path = layout.data / "ports.json"
    before = path.read_text()
    ports = Ports(path, keep=True)
    given = broker_ports(ports, cluster_1(), 4)
    ports.remember()
    assert given.controller is None
    running = {port for ports in layout.brokers["cluster-1"] for port in vars(ports).values()}
    assert not {given.client, given.internal} & running
    again = Ports(path, keep=True)
    again.forget(":cluster-1:4")
    again.remember()
    assert path.read_text() == before


def test_up_refuses_a_contradiction_before_anything_is_started(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    home.data("small").mkdir(parents=True)
    save_added(home, read_estate(SMALL_ESTATE), [added(1)])
    refused = treeline(home.path, "up", "--estate", str(SMALL_ESTATE))
    assert (refused.returncode, refused.stdout) == (3, "")
    assert "Broker 1 was added to cluster-1" in refused.stderr
    assert not home.plan.exists()


@pytest.mark.parametrize("words", [("add-broker", "cluster-1"), ("remove-broker", "cluster-1", "4")])
def test_without_a_running_estate_nothing_is_done(tmp_path: Path, words: tuple[str, ...]) -> None:
    refused = treeline(tmp_path / "home", "estate", *words)
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "No estate runs" in refused.stderr
    assert not (tmp_path / "home").exists()
