"""The end of a topic that is just being created."""

from __future__ import annotations

import uuid
from concurrent.futures import ThreadPoolExecutor

import pytest

from backend.kafka.admin.topics import TopicAdmin
from backend.kafka.base.errors import KafkaCallFailed
from tests.support.estate.running import RunningEstate
from tests.support.kafka.topics import create_topic


@pytest.fixture
def servers(estate: RunningEstate) -> str:
    return estate.bootstrap_servers("cluster-1")


def test_a_topic_that_brokers_do_not_know_of_yet_is_waited_for(servers: str) -> None:
    """Check a topic that was just created: brokers learn of it and of its leader one after the other."""
    name = f"t{uuid.uuid4().hex}"
    with ThreadPoolExecutor(1) as pool:
        found = pool.submit(TopicAdmin(servers, {}, 60.0).end, name)
        # The first request is sent before the topic exists.
        with pytest.raises(KafkaCallFailed):
            TopicAdmin(servers, {}, 0.5).end(name)
        create_topic(servers, name)
        assert found.result() == 0


@pytest.mark.nightly  # waits for timeouts of a cluster that does not answer
def test_where_it_cannot_be_asked_for_the_reason_is_told(servers: str) -> None:
    with pytest.raises(KafkaCallFailed, match=r"end of nowhere/3 cannot be read: .*[Nn]o leader"):
        TopicAdmin(servers, {}, 5.0).end("nowhere", 3)
