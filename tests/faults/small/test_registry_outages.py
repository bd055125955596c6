"""A registry whose cluster, topic or process fails: known schemas are answered, and nothing is made up."""

from __future__ import annotations

import os
import signal

import pytest
from confluent_kafka.admin import AdminClient
from sqlalchemy import text

from backend.estate import faults
from backend.estate.home import Home
from backend.estate.processes import load_plan
from backend.eventlog.engine import create_engine
from tests.eventually import eventually
from tests.support.estate.running import RunningEstate
from tests.support.kafka.topics import DEADLINE_SECONDS, configure
from tests.support.schemas.addresses import TOPIC, Address, settled
from tests.support.schemas.written_log import avro


@pytest.fixture
def path(request: pytest.FixtureRequest) -> str:
    """Return the path of the versions of a subject of this test."""
    return f"/subjects/{request.node.name}/versions"


@pytest.fixture
def registry(small: RunningEstate) -> Address:
    return Address(f"{small.url}/registries/cluster-1")


def register(registry: Address, path: str, *fields: str) -> int:
    answer = registry("POST", path, {"schema": avro(*fields)})
    assert answer.status_code == 200, answer.text
    found: int = answer.json()["id"]
    return found


def kill_api(small: RunningEstate) -> None:
    pid = small.process("api")["pid"]
    os.kill(pid, signal.SIGKILL)

    def is_another() -> bool:
        row = small.process("api")
        return bool(row["state"] == "running" and row["pid"] != pid)

    eventually(is_another, "the API is started again")


def code(registry: Address, method: str, path: str, body: object = None) -> tuple[int, int] | None:
    """Return the status and error code of a refusal."""
    answer = registry(method, path, body)
    return None if answer.is_success else (answer.status_code, answer.json()["error_code"])


def test_while_a_cluster_is_away_reads_are_answered_and_writes_are_refused(small, registry, path):
    schema_id = register(registry, path, "a")
    faults.order(Home(small.home), "cut", "cluster-1", direction="both")
    assert registry.get(f"/schemas/ids/{schema_id}") == {"schema": avro("a")}
    answer = registry("POST", path, {"schema": avro("a", "b?")})
    assert (answer.status_code, answer.json()["error_code"]) in ((503, 50001), (503, 50002))
    assert int(answer.headers["Retry-After"]) > 0
    assert registry("POST", path, {"schema": avro("a")}).json() == {"id": schema_id}

    # A process that has never read the topic has nothing to answer, and reports that.
    kill_api(small)
    eventually(lambda: code(registry, "GET", f"/schemas/ids/{schema_id}") == (503, 50002), "it is told")
    faults.order(Home(small.home), "heal", "cluster-1")
    found = settled(lambda: registry("GET", f"/schemas/ids/{schema_id}"), "the topic is read again")
    assert found == {"schema": avro("a")}
    answer = settled(lambda: registry("POST", path, {"schema": avro("a", "b?")}), "schemas are written again")
    assert answer["id"] > schema_id


def test_a_topic_that_was_made_anew_is_read_from_its_beginning(small, registry, path):
    register(registry, path, "a")
    register(registry, path, "a", "b?")
    admin = AdminClient({"bootstrap.servers": small.bootstrap_servers("cluster-1")})
    admin.delete_topics([TOPIC])[TOPIC].result(DEADLINE_SECONDS)
    # The first write creates the topic again; ids start over, since no process knows the old ones.
    answer = settled(lambda: registry("POST", "/subjects/new/versions", {"schema": avro("n")}), "it is written")
    assert answer == {"id": 1}
    assert registry.get("/subjects") == ["new"]


def test_a_topic_that_loses_records_is_not_written_to(small, registry, path):
    register(registry, path, "a")
    servers = small.bootstrap_servers("cluster-1")
    configure(servers, TOPIC, {"cleanup.policy": "delete"})
    kill_api(small)
    settled(lambda: registry("GET", "/subjects"), "the API has read the topic")
    answer = registry("POST", path, {"schema": avro("a", "b?")})
    assert (answer.status_code, answer.json()["error_code"]) == (500, 50001)
    assert "cleanup.policy" in answer.json()["message"]
    configure(servers, TOPIC, {"cleanup.policy": "compact"})
    register(registry, path, "a", "b?")


@pytest.mark.nightly  # who waits and was overtaken: test_writing
def test_a_writer_waits_for_the_one_that_writes_and_gives_up_at_last(small, registry, path):
    register(registry, path, "a")
    spec = next(each for each in load_plan(Home(small.home).plan).processes if each.name == "api")
    engine = create_engine(spec.environment["TREELINE_DATABASE_URL"])
    with engine.connect() as connection:
        name = "hashtextextended('treeline.registry cluster-1', 0)"
        connection.execute(text(f"SELECT pg_advisory_xact_lock({name})"))
        assert code(registry, "POST", path, {"schema": avro("a", "b?")}) == (503, 50002)
    engine.dispose()
    register(registry, path, "a", "b?")
