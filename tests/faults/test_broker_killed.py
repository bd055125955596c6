"""kill -9 of a broker during a stream of records: it restarts, and every record is everywhere exactly once."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys

import pytest

from backend.settings import PROJECT_ROOT
from tests.faults.test_cluster_away import THREE_CLUSTERS

RECORDS = 20_000
ARRIVALS = re.compile(r"([1-9]\d*) of \d+ arrivals")


@pytest.mark.nightly
@pytest.mark.parametrize("cluster", ["cluster-1", "cluster-2"])
def test_every_record_arrives_once_although_a_broker_is_killed(boot_estate, cluster):
    estate = boot_estate(THREE_CLUSTERS)
    verify = subprocess.Popen(
        [sys.executable, "-m", "backend.cli", "verify", "--records", str(RECORDS), "--json"],
        cwd=PROJECT_ROOT,
        env={**os.environ, "TREELINE_HOME": str(estate.home)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    killed = False
    for line in verify.stderr:
        if not killed and ARRIVALS.search(line):
            os.kill(estate.process(f"kafka:{cluster}:1")["pid"], signal.SIGKILL)
            killed = True
    answer = json.loads(verify.stdout.read())
    assert killed, "the kill came too late to prove anything"
    assert verify.wait() == 0, answer["problems"][:10]
    # An edge that was idle at the kill shows only now whether it still copies.
    again = estate.treeline("verify", "--records", "100", "--json")
    assert json.loads(again.stdout)["ok"], again.stdout
