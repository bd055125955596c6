"""Workers die, the primary is moved and goes away: no schema is lost and no id is given twice."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import httpx2
import psutil
import pytest
from confluent_kafka.schema_registry import Schema, SchemaRegistryError

from backend.domain.tree.primary_move import SKIPPED_IDS
from backend.registry.records import Content, SchemaVersion
from tests.eventually import eventually
from tests.faults.runs import Place
from tests.support.estate.running import RunningEstate, boot, treeline
from tests.support.kafka.topics import produce, read_all
from tests.support.schemas.registries import Registries
from tests.support.schemas.written_log import avro

ESTATE = Path(__file__).parent / "two_formats.yaml"
CLUSTERS = ("cluster-1", "cluster-2", "cluster-3")
# An estate of its own, and minutes of killing and moving.
pytestmark = pytest.mark.nightly


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningEstate]:
    home = tmp_path_factory.mktemp("schemas") / "home"
    yield boot(home, ESTATE)
    treeline(home, "down", "--wipe")


@pytest.fixture(scope="module")
def place(own: RunningEstate) -> Place:
    return Place(own)


@pytest.fixture(scope="module")
def registries(own: RunningEstate) -> Registries:
    return Registries.of(own)


def suffixes(number: int) -> list[str]:
    mark = secrets.token_hex(4)
    return [f"com.acme.R{mark}x{each}" for each in range(number)]


def text_of(suffix: str) -> str:
    return avro("a", name=suffix.rpartition(".")[2])


def same_everywhere(registries: Registries, ids: dict[str, int]) -> None:
    """Each suffix of orders is on every cluster under its id."""
    for cluster in CLUSTERS:

        def all_there(cluster: str = cluster) -> bool:
            there = registries.everything(cluster)
            return all(
                there.get((registries.subject(cluster, "orders", suffix), 1)) == schema_id
                for suffix, schema_id in ids.items()
            )

        eventually(all_there, f"all schemas are on {cluster}", every_seconds=0.5)


def move(registries: Registries, cluster: str, *, take_over: bool = False) -> None:
    body = {"cluster": cluster, "take_over": take_over}
    answer = registries.rest.ok("PUT", "/trees/main/primary", body)

    def done() -> bool:
        return bool(registries.rest.ok("GET", f"/operations/{answer['operation']}")["state"] == "succeeded")

    eventually(done, f"{cluster} is the primary")
    assert registries.primary == cluster


def test_a_worker_that_is_killed_again_and_again_loses_nothing(registries: Registries, place: Place) -> None:
    ids = {}
    for number, suffix in enumerate(suffixes(200)):
        ids[suffix] = registries.register(
            registries.subject(registries.primary, "orders", suffix), text_of(suffix)
        )
        if number in (50, 120):
            place.kill("worker:schemas")
    assert len(set(ids.values())) == 200
    same_everywhere(registries, ids)


def test_workers_die_while_records_wait_for_their_schema(
    registries: Registries, place: Place, own: RunningEstate
) -> None:
    of, there = "cluster-1", "cluster-3"
    assert registries.primary == of
    (suffix,) = suffixes(1)
    topics = registries.rest.ok("GET", "/tenants/acme/instances/retail/environments/prod/streams/orders")
    names = topics["technical_names"]
    worker = psutil.Process(place.pid("worker:schemas"))
    stopped = [each.pid for each in (worker, *worker.children(recursive=True))]
    for pid in stopped:
        place.stop(pid)
    try:
        schema_id = registries.register(registries.subject(of, "orders", suffix), text_of(suffix))
        sent = [b"\0" + schema_id.to_bytes(4, "big") + b"%d" % number for number in range(50)]
        produce(own.bootstrap_servers(of), names[of], [{"value": each, "partition": 0} for each in sent])

        def waits() -> bool:
            rows = registries.rest.ok("GET", "/trees/main/distributors")
            return any(f"schema {schema_id}" in (row["reason"] or "") for row in rows)

        eventually(waits, "records wait for their schema")
        place.kill("worker:shifts")
    finally:
        for pid in stopped:
            place.go_on(pid)
    servers = own.bootstrap_servers(there)
    eventually(lambda: len(read_all(servers, names[there])) >= len(sent), "all are there", every_seconds=1)
    registries.wait_for_id(there, registries.subject(there, "orders", suffix), schema_id)
    assert [message.value() for message in read_all(servers, names[there])] == sent


class Registering(threading.Thread):
    """Registers on whoever is the primary, as a producer that follows what it is told would, until it is ended."""

    def __init__(self, registries: Registries) -> None:
        super().__init__(daemon=True)
        self.registries, self.ids = registries, dict[str, int]()
        self.refused = 0
        self.ending = threading.Event()

    def run(self) -> None:
        at, mark = self.registries.primary, secrets.token_hex(4)
        for number in count():
            if self.ending.is_set():
                return
            suffix = f"com.acme.R{mark}x{number}"
            while suffix not in self.ids:
                subject = self.registries.subject(at, "orders", suffix)
                try:
                    client = self.registries.client(at)
                    self.ids[suffix] = client.register_schema(subject, Schema(text_of(suffix), "AVRO"))
                except (SchemaRegistryError, httpx2.TransportError):
                    self.refused += 1
                    at = self.registries.primary


def test_the_primary_is_moved_while_schemas_are_registered(registries: Registries) -> None:
    before = registries.primary
    registering = Registering(registries)
    registering.start()
    eventually(lambda: len(registering.ids) > 20, "some are registered")
    move(registries, "cluster-3")
    known = len(registering.ids)
    eventually(lambda: len(registering.ids) > known + 20, "more are registered")
    registering.ending.set()
    registering.join()
    assert len(set(registering.ids.values())) == len(registering.ids)
    assert registering.refused
    same_everywhere(registries, registering.ids)
    refused = registries.addresses[before]("POST", "/subjects/late-value/versions", {"schema": '"string"'})
    assert refused.status_code == 403
    move(registries, before)
    same_everywhere(registries, registering.ids)


def test_a_dead_primary_is_taken_over_and_comes_back_as_a_target(registries: Registries, place: Place) -> None:
    old, new = "cluster-1", "cluster-2"
    assert registries.primary == old
    known = suffixes(3)
    ids = {
        suffix: registries.register(registries.subject(old, "orders", suffix), text_of(suffix)) for suffix in known
    }
    same_everywhere(registries, ids)
    place.link("cut", old)
    try:
        waits = registries.rest.ok("PUT", "/trees/main/primary", {"cluster": new})
        state = registries.rest.ok("GET", f"/operations/{waits['operation']}")["state"]
        assert state == "running"
        move(registries, new, take_over=True)
        suffix = suffixes(1)[0]
        ids[suffix] = registries.register(registries.subject(new, "orders", suffix), text_of(suffix))
        assert ids[suffix] > max(ids[each] for each in known) + SKIPPED_IDS
        registries.wait_for_id("cluster-3", registries.subject("cluster-3", "orders", suffix), ids[suffix])
    finally:
        place.heal()
    same_everywhere(registries, ids)
    # What the old one had given out unseen.
    late = f"late-{secrets.token_hex(4)}-value"
    content = Content(text=avro("x", name="Late"))
    registries.strangers(old, SchemaVersion(subject=late, version=1, id=ids[known[-1]] + 1, content=content))
    found = [("SchemaConflictFound", "only-there")]
    eventually(lambda: registries.conflicts(old, late) == found, "what only the old one has is told")
    assert registries.versions(old, late) == [1]
