"""From `up` to `down` and back: what stays, what moves, what must not be left behind."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from backend.estate.children import marked
from backend.estate.home import Home
from backend.estate.running import is_running, read_layout, read_state
from tests.eventually import eventually
from tests.support.estate.running import SMALL_ESTATE, RunningEstate, boot, treeline
from tests.support.kafka.topics import DEADLINE_SECONDS

Boot = Callable[..., RunningEstate]


def admin(estate: RunningEstate, cluster: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": estate.bootstrap_servers(cluster)})


def supervisor(estate: RunningEstate) -> int:
    state = read_state(Home(estate.home))
    assert state is not None
    return int(state["supervisor"])


def brokers_of(status: dict[str, Any]) -> dict[str, Any]:
    """Return where clients reach each cluster, and its state."""
    return {name: {**row, "registry": None} for name, row in status["clusters"].items()}


def test_down_leaves_no_process_and_up_resumes_the_data(small: RunningEstate) -> None:
    before = small.status()
    client = admin(small, "cluster-1")
    cluster_id = client.list_topics(timeout=DEADLINE_SECONDS).cluster_id
    client.create_topics([NewTopic("kept", 1, 1)])["kept"].result(DEADLINE_SECONDS)

    assert small.treeline("down").returncode == 0
    assert marked(Home(small.home)) == []
    stopped = small.status()
    assert (stopped["ready"], stopped["estate"], stopped["processes"]) == (False, None, [])
    assert small.treeline("down").returncode == 0, "a second down has nothing to do and says so by 0"

    again = boot(small.home, SMALL_ESTATE)
    assert again.booted.returncode == 0, again.booted.stderr
    assert "nothing to change" in again.booted.stderr
    # Without registries: their port is the API's, which another test may have been given while this one was down.
    assert brokers_of(again.status()) == brokers_of(before)
    metadata = admin(again, "cluster-1").list_topics(timeout=DEADLINE_SECONDS)
    assert metadata.cluster_id == cluster_id
    assert "kept" in metadata.topics

    again.treeline("down", "--wipe")
    assert marked(Home(small.home)) == []
    assert list(small.home.iterdir()) == []


@pytest.mark.nightly
def test_a_killed_supervisor_leaves_nothing_and_up_starts_anew(boot_estate: Boot) -> None:
    estate = boot_estate(SMALL_ESTATE)
    os.kill(supervisor(estate), signal.SIGKILL)
    eventually(lambda: not is_running(Home(estate.home)), "the guardian has ended everything")
    assert marked(Home(estate.home)) == []

    again = boot_estate(SMALL_ESTATE)
    assert again.booted.returncode == 0, again.booted.stderr
    assert again.status()["ready"] is True


@pytest.mark.nightly
def test_a_port_that_a_stranger_took_meanwhile_is_left_to_it(boot_estate: Boot) -> None:
    estate = boot_estate(SMALL_ESTATE)
    layout = read_layout(Home(estate.home))
    estate.treeline("down")
    api, broker = layout["api_port"], layout["brokers"]["cluster-1"][0]["advertised"]
    with socket.create_server(("127.0.0.1", api)), socket.create_server(("127.0.0.1", broker)):
        again = boot_estate(SMALL_ESTATE)
        assert again.booted.returncode == 0, again.booted.stderr
        assert f"api from {api} to " in again.booted.stderr
        assert "addresses of cluster-1" in again.booted.stderr
        moved = again.bootstrap_servers("cluster-1")
        assert moved != f"127.0.0.1:{broker}"
        assert admin(again, "cluster-1").list_topics(timeout=DEADLINE_SECONDS).brokers


@pytest.mark.nightly
def test_a_cluster_that_is_down_at_start_is_named_and_joins_when_it_comes(boot_estate: Boot) -> None:
    estate = boot_estate(SMALL_ESTATE)
    storage = estate.home / "data" / "small" / "cluster-2" / "broker-1" / "data" / "meta.properties"
    estate.treeline("down")
    whole = storage.read_text()
    storage.write_text("broken")

    again = boot_estate(SMALL_ESTATE)
    assert again.booted.returncode == 1
    assert "kafka:cluster-2:1 is not ready" in again.booted.stderr
    assert "kafka.cluster-2.1.log" in again.booted.stderr
    assert admin(again, "cluster-1").list_topics(timeout=DEADLINE_SECONDS).brokers
    states = {row["name"]: row["state"] for row in again.status()["processes"]}
    assert states["kafka:cluster-1:1"] == states["api"] == "running"

    storage.write_text(whole)
    eventually(lambda: again.status()["ready"], "ready without help", every_seconds=0.5)
    eventually(lambda: again.status()["clusters"]["cluster-2"]["state"] == "online", "cluster-2 is online", 0.5)


@pytest.mark.nightly
def test_a_cluster_that_never_came_is_registered_offline(boot_estate: Boot, tmp_path: Path) -> None:
    # Its data folder is a file, so the broker cannot start at all.
    folder = tmp_path / "home" / "data" / "small" / "cluster-2" / "broker-1"
    folder.mkdir(parents=True)
    (folder / "data").write_text("in the way")
    estate = boot_estate(SMALL_ESTATE)
    assert estate.booted.returncode == 1
    assert "kafka:cluster-2:1 is not ready" in estate.booted.stderr
    states = {name: row["state"] for name, row in estate.status()["clusters"].items()}
    assert states == {"cluster-1": "online", "cluster-2": "offline"}


def test_a_broken_file_in_an_empty_home_starts_nothing(boot_estate: Boot, tmp_path: Path) -> None:
    broken = tmp_path / "broken.yaml"
    broken.write_text(SMALL_ESTATE.read_text().replace("primary: cluster-1", "primary: cluster-7"))
    refused = boot_estate(broken).booted
    assert refused.returncode == 2
    assert "primary: 'cluster-7'" in refused.stderr
    assert not (tmp_path / "home").exists()


def test_status_logs_and_down_without_an_estate_say_so(tmp_path: Path) -> None:
    assert "No estate runs" in treeline(tmp_path / "home", "status").stdout
    assert treeline(tmp_path / "home", "logs", "api").returncode == 2
    assert treeline(tmp_path / "home", "down").returncode == 0
    assert not (tmp_path / "home").exists()
