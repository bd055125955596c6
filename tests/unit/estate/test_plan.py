"""An estate's processes: ports, secrets, brokers' settings; services are left out if external ones are set."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pydantic import SecretStr
from sqlalchemy import make_url

from backend.estate.document import Estate, EstateInvalid, read_estate
from backend.estate.document_sections import MOST_BROKERS
from backend.estate.home import Home
from backend.estate.plan import (
    Kafka,
    Layout,
    control_plane_environment,
    inherited_environment,
    lay_out,
    make_plan,
)
from backend.estate.ports import Ports
from backend.estate.processes import MARKER, Plan, load_plan, save_plan
from backend.estate.programs.broker import Broker, BrokerPorts
from backend.estate.programs.database_login import LOGIN
from backend.estate.programs.jars import JavaMissing, ensure_jars, java_version
from backend.estate.programs.zone_router import as_document, from_document
from backend.queries.access.sealing import keys_of
from backend.settings import PROJECT_ROOT, settings
from tests.support.estate.running import SMALL_ESTATE
from workers.zone_router.router_file import read_router_file


@pytest.fixture(autouse=True)
def own_settings(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in ("TREELINE_DATABASE_URL", "TREELINE_CELERY_BROKER_URL", "TREELINE_SECRETS_KEY"):
        monkeypatch.delenv(name, raising=False)
    settings.cache_clear()
    yield
    settings.cache_clear()


def planned(home: Path, estate: Estate) -> tuple[Layout, Plan]:
    place = Home(home)
    place.make()
    place.data(estate.name).mkdir(parents=True)
    layout = lay_out(place, estate, Ports(home / "ports.json", prefer_defaults=False))
    return layout, make_plan(layout, Kafka(jars=home, archive=None), while_pid=None)


def test_processes_are_named_and_wait_for_what_they_need(tmp_path: Path) -> None:
    _, plan = planned(tmp_path, read_estate(SMALL_ESTATE))
    after = {spec.name: spec.after for spec in plan.processes}
    first = ["postgres", "valkey", "proxy", "kafka:cluster-1:1", "kafka:cluster-2:1"]
    workers = [f"worker:{name}" for name in ("control", "shifts", "offsets", "schemas")]
    assert list(after) == [*first, "migrate", "api", *workers, "beat"]
    assert after["kafka:cluster-1:1"] == []
    assert "migrate" in after["api"]
    assert "postgres" in after["migrate"]


def test_with_a_zone_router_there_is_a_node_for_each_zone(tmp_path: Path) -> None:
    estate = read_estate(PROJECT_ROOT / "estates" / "zones.yaml")
    layout, plan = planned(tmp_path, estate)
    nodes = {spec.name: spec for spec in plan.processes if spec.name.startswith("zr-")}
    mains = [
        f"zr-main:{main}" for main in ("cluster-1:1", "cluster-1:2", "cluster-1:3", "cluster-2:1", "cluster-3:1")
    ]
    assert list(nodes) == [*mains, "zr-proxy:az1", "zr-proxy:az2", "zr-proxy:az3"]
    given = nodes["zr-proxy:az2"].argv
    file = read_router_file(Path(given[given.index("--file") + 1]))
    assert list(file.zones) == ["az1", "az2", "az3"] and list(file.clusters) == [c.name for c in estate.clusters]
    node = file.node(given[given.index("--node") + 1])
    assert file.control is not None and file.control.url == layout.url
    assert file.control.token == f"${{file:{layout.home.secret_path('admin-token')}}}"
    assert layout.home.secret("admin-token") not in Path(given[given.index("--file") + 1]).read_text()
    assert {main: at.zone for main, at in file.mains().items()} == {
        ("cluster-1", 1): "az1", ("cluster-1", 2): "az2", ("cluster-1", 3): "az3",
        ("cluster-2", 1): "az1", ("cluster-3", 1): "az2",
    }  # fmt: skip
    assert node.zone == "az2" and set(node.listeners) == set(file.clusters)
    # Also for brokers that may be added to the estate later.
    assert set(node.listeners["cluster-2"].brokers) == set(range(1, MOST_BROKERS + 1))
    assert from_document(json.loads(json.dumps(as_document(layout.router)))) == layout.router


def test_a_zone_s_name_becomes_a_setting_and_has_to_fit(tmp_path: Path) -> None:
    file = tmp_path / "estate.yaml"
    text = (PROJECT_ROOT / "estates" / "zones.yaml").read_text()
    file.write_text(text.replace("[az1, az2, az3]", "['a z', az2, 'az/3']"))
    with pytest.raises(EstateInvalid) as refused:
        read_estate(file)
    assert [place for place, _ in refused.value.places] == ["clusters.cluster-1.zones"] * 2


def test_given_services_are_used_instead_of_embedded_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TREELINE_DATABASE_URL", "postgresql+psycopg://elsewhere/treeline")
    monkeypatch.setenv("TREELINE_CELERY_BROKER_URL", "redis://elsewhere/0")
    settings.cache_clear()
    layout, plan = planned(tmp_path, read_estate(SMALL_ESTATE))
    assert not {"postgres", "valkey"} & {spec.name for spec in plan.processes}
    # They reach the processes unchanged.
    assert not {"TREELINE_DATABASE_URL", "TREELINE_CELERY_BROKER_URL"} & set(control_plane_environment(layout))


def test_only_migrations_get_the_address_of_the_database_s_owner(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TREELINE_DATABASE_URL", "postgresql+psycopg://application@elsewhere/treeline")
    monkeypatch.setenv("TREELINE_MIGRATION_DATABASE_URL", "postgresql+psycopg://owner@elsewhere/treeline")
    settings.cache_clear()
    _, plan = planned(tmp_path, read_estate(SMALL_ESTATE))
    told = {spec.name: spec.environment.get("TREELINE_MIGRATION_DATABASE_URL") for spec in plan.processes}
    assert told.pop("migrate") == "postgresql+psycopg://owner@elsewhere/treeline"
    # Set to empty: otherwise processes inherit the environment of `up`.
    assert {told[name] for name in ("api", "beat", "worker:control", "worker:shifts")} == {""}
    assert not any("owner@" in str(spec.environment) for spec in plan.processes if spec.name != "migrate")


def test_of_the_embedded_database_too_only_migrations_get_the_owner(tmp_path: Path) -> None:
    layout, plan = planned(tmp_path, read_estate(SMALL_ESTATE))
    owner = layout.home.secret("postgres-password")
    assert [spec.name for spec in plan.processes if owner in f"{spec.argv} {spec.environment}"] == ["migrate"]
    told = {spec.name: spec.environment.get("TREELINE_DATABASE_URL", "") for spec in plan.processes}
    logins = {
        make_url(told[name]).username for name in ("migrate", "api", "beat", "worker:control", "worker:shifts")
    }
    assert logins == {LOGIN}


def test_the_processes_share_a_key_of_the_homes_for_passwords_unless_one_is_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.cache_clear()
    layout, plan = planned(tmp_path, read_estate(SMALL_ESTATE))
    key = layout.home.secret("secrets-key")
    assert keys_of(SecretStr(key)) == (key,)
    assert layout.home.secret_path("secrets-key").stat().st_mode & 0o077 == 0
    started = {spec.name: spec.environment.get("TREELINE_SECRETS_KEY") for spec in plan.processes}
    assert {started[name] for name in ("api", "worker:control")} == {key}
    assert {started[name] for name in ("postgres", "valkey", "kafka:cluster-1:1")} == {None}
    monkeypatch.setenv("TREELINE_SECRETS_KEY", "g" * 40)
    settings.cache_clear()
    assert "TREELINE_SECRETS_KEY" not in control_plane_environment(layout)


def test_processes_run_in_the_home_where_nothing_hides_our_packages(tmp_path: Path) -> None:
    _, plan = planned(tmp_path, read_estate(PROJECT_ROOT / "estates" / "zones.yaml"))
    ours = [spec for spec in plan.processes if spec.argv[:2] == [sys.executable, "-m"]]
    assert len(ours) > 10
    assert {spec.directory for spec in ours} == {str(tmp_path)}


def test_what_the_callers_settings_say_of_its_folder_counts_for_the_processes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TREELINE_CACHE", "jars")
    (tmp_path / "treeline.toml").write_text('verify_partitions = 3\noidc_ca_file = "certificates/ca.pem"\n')
    settings.cache_clear()
    environment = inherited_environment()
    assert environment["TREELINE_CACHE"] == str(tmp_path / "jars")
    (tmp_path / "elsewhere").mkdir()
    program = "from backend.settings import settings as s; print(s().verify_partitions, s().oidc_ca_file)"
    told = subprocess.run(
        [sys.executable, "-P", "-c", program],
        cwd=tmp_path / "elsewhere",
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert told.stdout.split() == ["3", str(tmp_path / "certificates" / "ca.pem")]


def test_every_process_carries_the_homes_mark_and_the_plan_survives_its_file(tmp_path: Path) -> None:
    _, plan = planned(tmp_path, read_estate(SMALL_ESTATE))
    assert {spec.environment[MARKER] for spec in plan.processes} == {str(tmp_path)}
    save_plan(plan, tmp_path / "plan.json")
    assert load_plan(tmp_path / "plan.json") == plan
    assert (tmp_path / "plan.json").stat().st_mode & 0o077 == 0


def test_clients_are_told_the_proxys_port_and_brokers_speak_beside_it(tmp_path: Path) -> None:
    layout, _ = planned(tmp_path, read_estate(SMALL_ESTATE))
    (ports,) = layout.brokers["cluster-1"]
    assert len({ports.client, ports.advertised, ports.internal, ports.controller}) == 4
    assert layout.bootstrap_servers("cluster-1") == f"127.0.0.1:{ports.advertised}"
    text = (layout.data / "cluster-1" / "broker-1" / "server.properties").read_text()
    assert f"advertised.listeners=CLIENT://127.0.0.1:{ports.advertised},INTERNAL" in text


def broker_settings(tmp_path: Path, file: str | Path, cluster: str, node: int) -> dict[str, str]:
    estate = read_estate(PROJECT_ROOT / "estates" / file)
    spec = next(spec for spec in estate.clusters if spec.name == cluster)
    ports = tuple(
        BrokerPorts(client=n * 10, advertised=n * 10, internal=n * 10 + 1, controller=n * 10 + 2)
        for n in range(1, spec.brokers + 1)
    )
    broker = Broker(cluster=spec, node=node, ports=ports, folder=tmp_path, password="secret")
    return dict(line.split("=", 1) for line in broker.properties().splitlines())


def test_how_long_followers_may_be_behind_is_for_the_estate_file_to_say(tmp_path: Path) -> None:
    file, document = tmp_path / "estate.yaml", SMALL_ESTATE.read_text()
    file.write_text(document.replace("zone: az2", "zone: az2, replica_lag_time_max_ms: 10000"))
    lags = [
        broker_settings(tmp_path, file, name, 1)["replica.lag.time.max.ms"] for name in ("cluster-1", "cluster-2")
    ]
    assert lags == ["30000", "10000"]
    file.write_text(document.replace("zone: az2", "zone: az2, replica_lag_time_max_ms: 10"))
    with pytest.raises(EstateInvalid, match="replica_lag_time_max_ms"):
        read_estate(file)


def test_several_brokers_are_one_quorum_with_their_zones_as_racks(tmp_path: Path) -> None:
    found = [broker_settings(tmp_path, "replicated.yaml", "cluster-1", node) for node in (1, 2, 3)]
    assert [one["broker.rack"] for one in found] == ["az1", "az2", "az3"]
    assert {one["controller.quorum.voters"] for one in found} == {"1@127.0.0.1:12,2@127.0.0.1:22,3@127.0.0.1:32"}
    assert {one["offsets.topic.replication.factor"] for one in found} == {"3"}


def test_a_secured_cluster_lets_nobody_in_by_default(tmp_path: Path) -> None:
    found = broker_settings(tmp_path, "secured.yaml", "cluster-1", 1)
    assert "PLAINTEXT" not in found["listener.security.protocol.map"].replace("SASL_PLAINTEXT", "")
    assert found["allow.everyone.if.no.acl.found"] == "false"
    assert found["super.users"] == "User:treeline"


def test_the_control_plane_gets_a_reference_to_the_password_not_the_password(tmp_path: Path) -> None:
    layout, _ = planned(tmp_path, read_estate(PROJECT_ROOT / "estates" / "secured.yaml"))
    properties = layout.properties(layout.estate.clusters[0])
    reference = properties["sasl.password"]
    assert reference == f"${{file:{tmp_path}/secrets/kafka-password}}"
    assert layout.properties(layout.estate.clusters[2]) == {}


@pytest.mark.parametrize("absent", ["java", "mvn"])
def test_a_missing_program_is_named_with_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, absent: str
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    with pytest.raises(JavaMissing, match="apt-get install"):
        if absent == "java":
            java_version()
        else:
            ensure_jars(tmp_path / "cache", lambda _: None)


def test_a_java_that_is_too_old_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = tmp_path / "java"
    old.write_text("#!/bin/sh\necho 'openjdk version \"11.0.2\" 2019-01-15' >&2\n")
    old.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    with pytest.raises(JavaMissing, match=r"11\.0\.2"):
        java_version()
