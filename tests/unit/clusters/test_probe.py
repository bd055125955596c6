"""Probes of a cluster's identity, whatever it answers; in a separate process, which one answer could crash."""

from __future__ import annotations

import subprocess
import sys

from backend.settings import PROJECT_ROOT
from tests.support.kafka.speaker import speaking

PROGRAM = """
import sys
from backend.kafka.base.errors import KafkaCallFailed
from backend.kafka.admin.topics import TopicAdmin
admin = TopicAdmin(sys.argv[1], {}, 5.0)
for _ in sys.stdin:
    try:
        print(admin.observe([]).facts, flush=True)
    except KafkaCallFailed as error:
        print(error.reason, flush=True)
"""


def test_a_cluster_without_brokers_is_a_reason_and_no_end_of_the_process() -> None:
    with speaking() as (broker, address):
        there = broker.brokers
        words = [sys.executable, "-c", PROGRAM, address]
        with subprocess.Popen(
            words, cwd=PROJECT_ROOT, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        ) as asking:
            assert asking.stdin is not None
            assert asking.stdout is not None

            def asked() -> str:
                asking.stdin.write("again\n")
                asking.stdin.flush()
                return asking.stdout.readline().strip()

            assert asked() == "ClusterFacts(kafka_cluster_id='abc', brokers=(7,))"
            # The answer of a cluster whose only broker is fenced for a moment.
            broker.brokers = ()
            assert "brokers=" not in asked()
            broker.brokers = there
            assert asked() == "ClusterFacts(kafka_cluster_id='abc', brokers=(7,))"
            asking.stdin.close()
    assert asking.returncode == 0
