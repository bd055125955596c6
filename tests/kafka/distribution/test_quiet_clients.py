"""Clients that are kept ask nothing by themselves: each would ask its cluster once a second while it lives."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient

from backend.kafka.admin.topics import TopicAdmin
from backend.kafka.base import client_config, identity
from backend.kafka.base.probe import ConnectionReasons, describe
from backend.kafka.copy import clients as copy_clients
from backend.kafka.copy.session import CopySession
from tests.kafka.distribution.test_copy_session import Pair, drain
from tests.support.estate.running import RunningEstate
from tests.support.kafka.clients_left import left_by_strangers

SECONDS = 10.0
PROTOCOL = {"debug": "protocol"}
LOOKED_AT_SECONDS = 5.0
SETTLED_SECONDS = 2.0


class Requests:
    """Counts the metadata requests of all clients of this process, from librdkafka's log."""

    def __init__(self) -> None:
        self.metadata = 0

    def log(self, level: int, message: str, *args: object, **_: object) -> None:
        self.metadata += "Sent MetadataRequest" in (message % args if args else message)

    def while_polled(self, poll: Callable[[float], Any], seconds: float) -> int:
        """Return the requests in this time. A client's log is emitted while it is polled."""
        before, deadline = self.metadata, time.monotonic() + seconds
        while time.monotonic() < deadline:
            poll(0.1)
        return self.metadata - before


@pytest.fixture
def requests(monkeypatch: pytest.MonkeyPatch) -> Requests:
    found = Requests()
    monkeypatch.setattr(client_config, "LibrdkafkaLog", lambda: found)
    return found


@pytest.mark.nightly  # it shows that the other test would find a request
def test_a_client_that_was_asked_for_what_is_not_there_is_not(estate: RunningEstate, requests: Requests) -> None:
    """A topic that is created by a metadata request is what `probe.ask_of_no_topic` avoids."""
    admin = AdminClient(client_config.client_config(estate.bootstrap_servers("cluster-1"), PROTOCOL))
    describe(admin, ConnectionReasons(), SECONDS)
    requests.while_polled(admin.poll, SETTLED_SECONDS)
    assert requests.while_polled(admin.poll, LOOKED_AT_SECONDS) > 1


def test_who_answers_is_asked_by_a_client_that_is_gone_then(estate: RunningEstate) -> None:
    """A client has a thread for each broker, and asks on: it must not wait for a garbage collection."""
    servers = estate.bootstrap_servers("cluster-1")
    known = TopicAdmin(servers, {}, SECONDS).observe(()).facts.kafka_cluster_id
    answers, left = left_by_strangers(servers, ((known, SECONDS), (None, SECONDS), ("another", SECONDS)))
    assert answers == [None, None, f"{known} instead of another"]
    assert left == 0


def test_one_that_got_no_answer_is_gone_though_its_error_is_kept() -> None:
    """An exception refers to the frames that it came through, and they refer to the client."""
    answers, left = left_by_strangers("127.0.0.1:9", ((None, 0.5),) * 3)
    assert answers == ["_TRANSPORT"] * 3
    assert left == 0


def copied_for(session: CopySession, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        session.copy_batch(0.1)


def test_an_idle_copy_session_asks_nothing_by_itself(
    estate: RunningEstate, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """None of its four clients, those that nobody polls either: librdkafka writes their log where it likes to."""

    def loud(*servers_and_properties: Any, **settings: Any) -> dict[str, Any]:
        config = client_config.client_config(*servers_and_properties, **settings)
        del config["logger"]
        return config | PROTOCOL

    monkeypatch.setattr(copy_clients, "client_config", loud)
    monkeypatch.setattr(identity, "client_config", loud)
    pair = Pair(estate, record_loop="python")
    session = pair.session()
    try:
        drain(session)
        copied_for(session, SETTLED_SECONDS)
        assert "Sent MetadataRequest" in capfd.readouterr().err
        copied_for(session, LOOKED_AT_SECONDS)
        idle = capfd.readouterr().err
    finally:
        session.close()
    assert "Sent FetchRequest" in idle
    assert idle.count("Sent MetadataRequest") < LOOKED_AT_SECONDS - 1
