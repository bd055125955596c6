"""A running estate: its answers, faults on its links, and kills of every process."""

from __future__ import annotations

import json
import os
import signal
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from psycopg.errors import InsufficientPrivilege

from backend.estate import faults
from backend.estate.children import marked
from backend.estate.home import Home
from backend.estate.programs.database_login import LOGIN
from tests.eventually import eventually
from tests.faults.runs import Place
from tests.nightly import some_now
from tests.support.estate.running import SMALL_ESTATE, RunningEstate, boot

LOOK_SECONDS = 1.0  # a cut link answers nothing at all, so that the look has to end it
PROCESSES = ["postgres", "valkey", "proxy", "kafka:cluster-1:1", "kafka:cluster-2:1", "api", "worker:control",
             "worker:shifts", "worker:offsets", "worker:schemas", "beat"]  # fmt: skip
ALONE = ["postgres", "kafka:cluster-1:1", "api"]
"""Processes that all others depend on are killed one by one, the rest all at once."""
KILLED = [*([name] for name in ALONE), [name for name in PROCESSES if name not in ALONE]]


@pytest.fixture(autouse=True)
def healed(small: RunningEstate) -> Iterator[None]:
    yield
    for cluster in ("cluster-1", "cluster-2"):
        faults.order(Home(small.home), "heal", cluster)


def answers(small: RunningEstate, cluster: str) -> bool:
    """Return whether a client can reach this cluster."""
    admin = AdminClient({"bootstrap.servers": small.bootstrap_servers(cluster), "log_level": 0})
    try:
        return bool(admin.list_topics(timeout=LOOK_SECONDS).brokers)
    except KafkaException:
        return False


def pids(small: RunningEstate) -> dict[str, int]:
    return {row["name"]: row["pid"] for row in small.status()["processes"]}


def test_up_reaches_a_ready_estate(small: RunningEstate) -> None:
    assert small.booted.returncode == 0, small.booted.stderr
    assert small.status()["ready"] is True


def test_status_is_as_the_contract_has_it(small: RunningEstate) -> None:
    status = json.loads(small.treeline("status", "--json").stdout)
    assert status["estate"] == "small"
    assert status["control_plane"].startswith("http://127.0.0.1:")
    assert status["admin_token"]
    assert list(status["clusters"]) == ["cluster-1", "cluster-2"]
    cluster = status["clusters"]["cluster-1"]
    assert cluster["bootstrap_servers"].startswith("127.0.0.1:")
    assert cluster["registry"] == status["control_plane"] + "/registries/cluster-1"
    assert [row["name"] for row in status["processes"] if row["state"] == "running"] == PROCESSES
    assert all(row["pid"] for row in status["processes"] if row["state"] == "running")


def test_replication_is_looked_after(small: RunningEstate) -> None:
    def health() -> dict[str, Any] | None:
        shown = small.treeline("replication", "show", "cluster-1", "--json")
        found: dict[str, Any] | None = json.loads(shown.stdout)["health"]
        return found

    found = eventually(health, "a worker has looked at the cluster")
    assert [(each["id"], each["is_here"]) for each in found["brokers"]] == [(1, True)]
    assert found["conditions"]["without_leader"]["count"] == 0


def test_applications_of_an_estate_get_passwords(small: RunningEstate, tmp_path: Path) -> None:
    file = tmp_path / "applications.yaml"
    place = "{acme: {instances: {retail: {environments: {prod: {applications: {billing: {}}}}}}}}"
    file.write_text(f"tenants: {place}")
    applied = small.treeline("apply", "-f", str(file))
    assert applied.returncode == 0, applied.stderr
    issued = small.treeline("credentials", "issue", "acme/retail/prod/billing")
    assert issued.returncode == 0, issued.stderr
    password, key = issued.stdout.strip(), Home(small.home).secret("secrets-key")
    assert len(password) == 43
    logs = "".join(log.read_text(errors="replace") for log in (small.home / "logs").iterdir())
    assert not [secret for secret in (password, key) if secret in logs + issued.stderr]
    assert small.treeline("delete", "application", "acme/retail/prod/billing").returncode == 0


def test_up_again_answers_and_changes_nothing(small: RunningEstate) -> None:
    before = pids(small)
    again = boot(small.home, SMALL_ESTATE)
    assert again.booted.returncode == 0, again.booted.stderr
    assert "runs already" in again.booted.stderr
    assert "nothing to change" in again.booted.stderr
    assert pids(small) == before


def test_up_with_another_estate_is_refused(small: RunningEstate, tmp_path: Path) -> None:
    before = pids(small)
    other = tmp_path / "other.yaml"
    other.write_text(SMALL_ESTATE.read_text().replace("name: small", "name: other"))
    changed = tmp_path / "changed.yaml"
    changed.write_text(SMALL_ESTATE.read_text().replace("partitions: 2", "partitions: 3"))
    for file in (other, changed):
        refused = boot(small.home, file).booted
        assert refused.returncode == 3
        assert "estate small runs" in refused.stderr
    assert pids(small) == before


def test_a_broken_estate_file_is_refused_and_changes_nothing(small: RunningEstate, tmp_path: Path) -> None:
    before = pids(small)
    broken = tmp_path / "broken.yaml"
    broken.write_text(SMALL_ESTATE.read_text().replace("level: 1", "level: 0"))
    refused = boot(small.home, broken).booted
    assert refused.returncode == 2
    assert "tree.level: " in refused.stderr
    assert pids(small) == before


def test_logs_prints_a_process_and_names_what_there_is(small: RunningEstate) -> None:
    assert "Kafka Server started" in small.treeline("logs", "kafka:cluster-1:1").stdout
    unknown = small.treeline("logs", "../secrets/admin-token")
    assert unknown.returncode == 2
    assert "kafka:cluster-1:1" in unknown.stderr


def test_secrets_are_private_files_and_in_no_command_line(small: RunningEstate) -> None:
    secrets = list((small.home / "secrets").iterdir())
    assert secrets
    words = {file.read_text().encode() for file in secrets}
    assert {stat.S_IMODE(file.stat().st_mode) for file in secrets} == {0o600}
    for pid in marked(Home(small.home)):
        arguments = Path(f"/proc/{pid}/cmdline").read_bytes()
        assert not [word for word in words if word in arguments]


def test_api_and_workers_are_at_the_database_by_the_login_without_rights(small: RunningEstate) -> None:
    """Check that their environment, as the system shows it, does not contain the owner's URL."""
    place, owner = Place(small), Home(small.home).secret("postgres-password")
    with psycopg.connect(place.owner_url().replace("+psycopg", "")) as connection:
        seen = connection.execute("SELECT usename FROM pg_stat_activity WHERE application_name = 'treeline'")
        assert set(seen) == {(LOGIN,)}
    running = [pid for name, pid in pids(small).items() if name in ("api", "beat") or name.startswith("worker:")]
    assert len(running) == 6
    assert not [pid for pid in running if owner.encode() in Path(f"/proc/{pid}/environ").read_bytes()]
    with psycopg.connect(place.database_url().replace("+psycopg", "")) as connection:
        for statement in ("DROP TABLE events", "DELETE FROM events", "UPDATE events SET data = '{}'"):
            with pytest.raises(InsufficientPrivilege):
                connection.execute(statement)
            connection.rollback()


def test_memory_of_the_database_is_with_its_data(small: RunningEstate) -> None:
    """Check that a kill and a wipe leave nothing behind: PostgreSQL's files in /dev/shm would otherwise remain."""
    files = Path(f"/proc/{small.process('postgres')['pid']}/maps").read_text()
    assert f"{small.home}/data/small/postgres/pg_dynshmem/" in files
    assert "/dev/shm/" not in files


def test_a_cut_link_answers_nothing_until_it_heals(small: RunningEstate) -> None:
    eventually(lambda: answers(small, "cluster-1"), "cluster-1 answers")
    small.treeline("estate", "cut", "cluster-1")
    assert not answers(small, "cluster-1")
    eventually(lambda: answers(small, "cluster-2"), "cluster-2 answers")
    small.treeline("estate", "heal", "cluster-1")
    eventually(lambda: answers(small, "cluster-1"), "cluster-1 answers again")


@pytest.mark.parametrize("direction", ["to-broker", "to-client"])
@pytest.mark.nightly  # a link that is cut both ways stays; docs/faults.md: other ways
def test_a_link_cut_one_way_answers_nothing_either(small: RunningEstate, direction: str) -> None:
    small.treeline("estate", "cut", "cluster-2", "--direction", direction)
    assert not answers(small, "cluster-2")


@pytest.mark.nightly  # other states of the same link
def test_delay_flap_and_refuse_show_on_the_link(small: RunningEstate) -> None:
    links = [json.loads(line) for line in small.treeline("estate", "delay", "cluster-1", "5").stdout.splitlines()]
    assert [link["delay_ms"] for link in links] == [5, 0]
    eventually(lambda: answers(small, "cluster-1"), "cluster-1 answers")
    small.treeline("estate", "refuse", "cluster-1")
    assert not answers(small, "cluster-1")
    small.treeline("estate", "flap", "cluster-1", "--up-ms", "300", "--down-ms", "100")
    eventually(lambda: answers(small, "cluster-1"), "a client gets through a flapping link")


def test_a_fault_for_an_unknown_cluster_is_refused(small: RunningEstate) -> None:
    refused = small.treeline("estate", "cut", "cluster-9")
    assert refused.returncode == 2
    assert "cluster-1, cluster-2" in refused.stderr


@some_now("names", KILLED, now=(2,), ids=lambda names: names[0])
def test_whatever_is_killed_runs_again(small: RunningEstate, names: list[str]) -> None:
    before = {name: small.process(name) for name in names}
    for name in names:
        os.kill(before[name]["pid"], signal.SIGKILL)
    for name in names:
        eventually(
            lambda name=name: small.process(name)["restarts"] > before[name]["restarts"],
            f"the death of {name} was seen",
        )
    eventually(lambda: small.status()["ready"], f"ready again after the death of {names}", every_seconds=0.3)
    assert all(small.process(name)["pid"] != before[name]["pid"] for name in names)
    eventually(lambda: answers(small, "cluster-1"), "cluster-1 answers")
