"""Bulks are deleted once their epoch is committed, even if unread; acknowledged data is in the WAL."""

from __future__ import annotations

import contextlib
import secrets
from pathlib import Path

import pytest
from confluent_kafka import Producer

from tests.eventually import eventually
from tests.kafka.zones.consuming import Slow
from tests.kafka.zones.control import Control
from tests.kafka.zones.test_gateway import everything, produce
from tests.kafka.zones.test_reads import cold, crossed
from tests.support.kafka.topics import DEADLINE_SECONDS
from tests.support.zones.nodes import client
from workers.zone_router.formats.bulk import HEAD_BYTES

pytestmark = [pytest.mark.parametrize("router", ["passed"], indirect=True), pytest.mark.usefixtures("ticking")]


def bulks(folder: Path) -> set[Path]:
    """Return the objects that hold something, of a folder from which objects are deleted meanwhile."""
    found = set()
    for path in folder.rglob("*"):
        with contextlib.suppress(FileNotFoundError):
            if path.is_file() and path.stat().st_size > HEAD_BYTES:
                found.add(path)
    return found


def test_who_reads_when_bulks_have_gone_reads_blocks(control: Control, topic: str) -> None:
    router = control.router
    assert router.channel is not None
    for zone in router.nodes:
        values = [f"{zone}-{number}-{secrets.token_hex(500)}" for number in range(1_500)]
        produce(client(router.nodes[zone], linger_ms=5), topic, values)
    written = bulks(router.channel / "channel")
    assert written

    def gone() -> bool:
        # Each node's newest object stays.
        return len(written & bulks(router.channel / "channel")) <= len(router.nodes)

    eventually(gone, "bulks go when their epochs are committed")
    node = router.nodes["az2"]
    before = crossed(node, "fetch"), cold(node)
    found = everything(node.servers, topic, "zone=az2")
    assert len(found) == 4_500 and found == everything(router.brokers.servers, topic)
    assert (crossed(node, "fetch"), cold(node)) == before


@pytest.mark.nightly
def test_one_that_reads_slowly_goes_from_bulks_to_blocks_and_misses_nothing(control: Control, topic: str) -> None:
    """The reader's first records come from bulks, which are deleted while it is paused."""
    router, node = control.router, control.router.nodes["az3"]
    before = crossed(node, "fetch"), cold(node)
    produce(client(router.nodes["az1"]), topic, [f"{n}-{secrets.token_hex(2_000)}" for n in range(1_200)])
    epoch = control.get("/route-epochs")["current"]
    with Slow(node, topic) as slow:
        eventually(lambda: slow.read(100), "it has begun")
        eventually(lambda: control.get("/route-epochs")["committed"] > epoch, "what it reads is committed")
        produce(client(router.nodes["az1"]), topic, [f"{n}-{secrets.token_hex(2_000)}" for n in range(600)])
        eventually(lambda: slow.read(1_800), "it reads all")
        log = everything(router.brokers.servers, topic)
        assert sorted(slow.found) == [(partition, offset, value) for partition, offset, _, _, value, _, _ in log]
    assert (crossed(node, "fetch"), cold(node)) == before


@pytest.mark.nightly  # test_confirmer, with a mutant
def test_what_is_acknowledged_is_in_the_wal(control: Control, topic: str) -> None:
    router = control.router
    assert router.channel is not None
    produce(client(router.nodes["az1"]), topic, ["first"] * 6)
    place, aside = router.channel / "wal", router.channel.with_name("wal-aside")
    place.rename(aside)
    place.write_text("no folder")
    delivered: list[str] = []
    producer = Producer(client(router.nodes["az1"], enable_idempotence=True))
    producer.produce(topic, "later", partition=0, on_delivery=lambda error, _: delivered.append(str(error)))
    eventually(
        lambda: producer.poll(0.1) >= 0 and len(everything(router.brokers.servers, topic)) == 7,
        "it is there",
    )
    assert producer.flush(1) == 1 and delivered == []
    place.unlink()
    aside.rename(place)
    assert producer.flush(DEADLINE_SECONDS) == 0 and delivered == ["None"]
    assert len(everything(router.brokers.servers, topic)) == 7
