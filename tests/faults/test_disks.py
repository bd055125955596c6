"""A broker's disk is full for a while."""

from __future__ import annotations

import pytest

from tests.eventually import eventually
from tests.faults.runs import Place, Run, passed
from tests.support.estate.running import SMALL_ESTATE, boot, treeline
from tests.support.machine.disks import full, needs_root, small_disk

DISK_MEGABYTES = 64


@needs_root
@pytest.mark.nightly
def test_a_brokers_disk_is_full_for_a_while(tmp_path):
    home = tmp_path / "home"
    with small_disk(home / "data" / "small" / "cluster-2" / "broker-1", DISK_MEGABYTES) as disk:
        try:
            place = Place(boot(home, SMALL_ESTATE))
            with Run(place) as run:
                run.flow(2)
                with full(disk):
                    eventually(lambda: place.restarts("kafka:cluster-2:1") > 0, "the broker gives up")
                    run.flow(3)
                run.flow(1)
            passed(run)
        finally:
            treeline(home, "down", "--wipe")
