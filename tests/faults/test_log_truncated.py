"""A log loses its tail, as after an unclean start, and has grown again before the next poll."""

from __future__ import annotations

from pathlib import Path

import pytest

from backend.kafka.copy.source import Source, SourcePartition
from tests.eventually import eventually
from tests.support.api.rest_client import RestClient
from tests.support.estate.running import SMALL_ESTATE
from tests.support.kafka.topics import produce, read_all

STREAM = "acme/retail/prod/orders"
ORDERS = "/tenants/acme/instances/retail/environments/prod/streams/orders"
TOPIC = "acme-retail-prod-orders"


class Small:
    """Two clusters that are stopped and started again."""

    def __init__(self, start):
        self._start = start
        self.up()

    def up(self):
        self.estate = self._start(SMALL_ESTATE)
        assert self.estate.booted.returncode == 0, self.estate.booted.stderr
        self.rest = RestClient(self.estate.url, self.estate.token)
        eventually(lambda: set(self.rest.ok("GET", ORDERS)["applied"].values()) == {"applied"}, "applied", 0.3)

    def down(self):
        stopped = self.estate.treeline("down")
        assert stopped.returncode == 0, stopped.stderr

    def send(self, cluster, values):
        produce(self.estate.bootstrap_servers(cluster), TOPIC, [{"value": v, "partition": 0} for v in values])

    def values(self, cluster):
        return [message.value() for message in read_all(self.estate.bootstrap_servers(cluster), TOPIC)]

    def truncate(self, cluster, size):
        """Truncate the partition's log at this size, and remove its broker's record of a clean shutdown."""
        (log,) = Path(self.estate.home).glob(f"data/*/**/*{cluster}*/**/{TOPIC}-0/*.log")
        with log.open("r+b") as file:
            file.truncate(size)
        for other in log.parent.iterdir():
            if other.suffix in (".index", ".timeindex", ".txnindex", ".snapshot"):
                other.unlink()
        (log.parent.parent / ".kafka_cleanshutdown").unlink(missing_ok=True)

    def what_a_reader_finds(self, cluster, position):
        """Return what a reader finds from a position on; it knew the newest leader epoch before."""
        place, found = (TOPIC, 0), []
        config = {"bootstrap.servers": self.estate.bootstrap_servers(cluster), "group.id": "test"}
        source = Source(cluster, config, lambda *loss: None, lambda *cut: found.append(("truncated", *cut)))

        def read():
            source.take_up_parked()
            for message in source.read(1000, 0.2):
                if message.error() is None:
                    found.append(message.value().split()[0].decode())
                else:
                    source.failed(place, message.offset(), message.error())
            return found

        source.add({place: SourcePartition(119)})
        eventually(read, "the last record is read", 0)
        source.remove([place])
        found.clear()
        source.add({place: position})
        eventually(lambda: read() and (found[0][0] == "truncated" or len(found) == 80), "the rest is read", 0)
        source.close()
        return found

    def log_bytes(self, cluster):
        (log,) = Path(self.estate.home).glob(f"data/*/**/*{cluster}*/**/{TOPIC}-0/*.log")
        return log.stat().st_size


@pytest.fixture
def small(boot_estate):
    return Small(boot_estate)


@pytest.mark.nightly
def test_records_that_took_the_place_of_lost_ones_are_copied(small):
    kept, lost, new = ([b"%s %03d" % (kind, n) for n in range(40)] for kind in (b"kept", b"lost", b"new"))
    small.send("cluster-1", kept)
    eventually(lambda: small.values("cluster-2") == kept, "copied", 0.3)
    size = small.log_bytes("cluster-1")
    small.send("cluster-1", lost)
    eventually(lambda: small.values("cluster-2") == kept + lost, "copied", 0.3)
    small.rest.ok("PATCH", "/trees/main/distributors/cluster-1/1", {"paused": True})
    small.down()
    small.truncate("cluster-1", size)
    small.up()
    assert small.values("cluster-1") == kept
    # Beyond the position, before the distributor polls again.
    small.send("cluster-1", new + new)
    assert small.what_a_reader_finds("cluster-1", SourcePartition(80, 0)) == [("truncated", (TOPIC, 0), 40, 79)]
    assert small.what_a_reader_finds("cluster-1", SourcePartition(40, 0)) == ["new"] * 80
    small.rest.ok("PATCH", "/trees/main/distributors/cluster-1/1", {"paused": False})
    eventually(lambda: len(small.values("cluster-2")) >= 160, "what is new arrived", 0.5)
    assert small.values("cluster-2") == kept + lost + new + new
    assert small.values("cluster-1") == kept + new + new
    (event,) = [
        row for row in small.rest.ok("GET", "/events?limit=1000")["items"] if row["name"] == "StreamTailLost"
    ]
    assert (event["data"]["cluster"], event["data"]["partition"]) == ("cluster-1", 0)
    assert (event["data"]["first_offset"], event["data"]["last_offset"]) == (40, 79)
    row = small.rest.ok("GET", "/trees/main/distributors/cluster-1/1")
    assert row["state"] == "degraded", row
    (loss,) = small.rest.ok("GET", "/losses")["items"]
    assert "truncated at 40" in loss["reason"], loss
    # Offset 45 was assigned twice; the request is for the record that has it now.
    traced = small.rest.ok("GET", f"/trace?cluster=cluster-1&stream={STREAM}&partition=0&offset=45")
    assert (traced["origin"]["cluster"], traced["origin"]["offset"]) == ("cluster-1", 45), traced
    copies = read_all(small.estate.bootstrap_servers("cluster-2"), TOPIC)
    first = next(message.offset() for message in copies if message.value() == new[5])
    assert [(copy["cluster"], copy["offset"]) for copy in traced["copies"]] == [("cluster-2", first)], traced
    back = [b"back %03d" % n for n in range(10)]
    small.send("cluster-2", back)
    eventually(lambda: small.values("cluster-1") == kept + new + new + back, "and the other way", 0.3)
