"""Share groups (KIP-932), which no client in Python joins: Kafka's own consumer does, on a cluster of its own."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from backend.kafka.groups.group_states import GroupState, GroupStates
from backend.parent_exit import exit_with_parent
from tests.eventually import eventually
from tests.support.kafka import kafka_tools
from tests.support.kafka.three_brokers import NODES, Brokers
from tests.support.kafka.topics import create_topic, produce

_FEATURES = "org.apache.kafka.tools.FeatureCommand"
_SHARE_CONSUMER = "org.apache.kafka.tools.consumer.ConsoleShareConsumer"


@pytest.mark.nightly  # tests/unit/offsets/test_group_states.py has the answers of share groups
def test_a_share_group_with_its_member_and_its_offsets(tmp_path: Path) -> None:
    brokers = Brokers(tmp_path)
    brokers.start(*NODES)
    try:
        kafka_tools.tool(
            _FEATURES, "--bootstrap-server", brokers.servers, "upgrade", "--feature", "share.version=1"
        )
        create_topic(brokers.servers, "shared", 2)
        states = GroupStates(brokers.servers, {}, 20.0)
        words = kafka_tools.command(
            _SHARE_CONSUMER, "--bootstrap-server", brokers.servers, "--topic", "shared", "--group", "g"
        )
        consumer = subprocess.Popen(
            words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, preexec_fn=exit_with_parent
        )

        def group() -> GroupState | None:
            return states.observe(100).groups.get("g")

        def reads() -> GroupState | None:
            # A share group begins at the end that it finds, so records are written until it has read some.
            produce(brokers.servers, "shared", [{"value": b"v", "partition": number} for number in (0, 1)])
            found = group()
            return found if found is not None and found.members and len(found.committed) == 2 else None

        found = eventually(reads, "the share group has a member and offsets", 1.0)
        (member,) = found.members
        assert (found.protocol, found.state) == ("share", "Stable")
        assert sorted(member.partitions) == [("shared", 0), ("shared", 1)]
        consumer.terminate()
        consumer.wait()
        eventually(lambda: (left := group()) is not None and left.state == "Empty", "it is empty", 1.0)
        states.close()
    finally:
        brokers.kill(*NODES)
