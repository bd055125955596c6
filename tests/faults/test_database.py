"""The control plane's database is unreachable, or its disk is full: copying continues, and no answer is false."""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from backend.estate.faults import FaultRefused, order_at
from backend.estate.ports import free_ports
from backend.estate.programs.postgres import OWNER
from backend.estate.proxy import TOKEN_VARIABLE
from backend.settings import PROJECT_ROOT
from tests.eventually import eventually
from tests.faults.runs import PROD, Place, Run, passed
from tests.support.database.postgres import RunningPostgres
from tests.support.estate.running import SMALL_ESTATE, boot, treeline
from tests.support.kafka.topics import read_from_zero
from tests.support.machine.disks import full, needs_root, small_disk

DISK_MEGABYTES = 192
STEADY_SECONDS = 3.0


@dataclass
class Apart:
    """An estate of two clusters with a separate database, behind its own proxy and on its own disk."""

    place: Place
    disk: Path
    control_port: int
    token: str

    def link(self, action: str, **details: object) -> None:
        """Send a command to the proxy before the database."""
        order_at(self.control_port, self.token, action, "database", **details)

    def arrived(self, run: Run) -> int:
        """Return the number of cluster-1's records on cluster-2."""
        member = next(member for member in run.fleet.members if member.name == "cluster-2")
        marks = map(run.history.mark, read_from_zero(member.bootstrap_servers, member.topic))
        return sum(mark is not None and mark.cluster == "cluster-1" for mark in marks)

    def steady(self) -> None:
        """Wait until no task has changed hands for a while: opening a session needs the database."""
        before = {}

        def unchanged() -> bool:
            nonlocal before
            earlier, before = before, self.place.epochs()
            return earlier == before

        eventually(unchanged, "units stay where they are", every_seconds=STEADY_SECONDS)

    def copying_goes_on(self, run: Run) -> None:
        """Wait until more records have arrived than now."""
        before = self.arrived(run)
        eventually(lambda: self.arrived(run) > before, "records arrive without the database", 0.5)


@pytest.fixture(scope="module")
def apart(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Apart]:
    folder, token = tmp_path_factory.mktemp("apart"), secrets.token_urlsafe(8)
    control_port, behind = free_ports(2)
    with small_disk(folder / "disk", DISK_MEGABYTES) as disk:
        postgres = RunningPostgres(disk / "data", {"max_wal_size": "64MB", "min_wal_size": "32MB"})
        postgres.start()
        proxy = subprocess.Popen(
            [sys.executable, "-m", "backend.estate.proxy", str(control_port),
             f"database={behind}:{postgres.server.port}"],
            cwd=PROJECT_ROOT, env={**os.environ, TOKEN_VARIABLE: token},
        )  # fmt: skip
        home = folder / "home"
        try:
            eventually(lambda: _answers(control_port, token), "the proxy answers")
            url = replace(postgres.server, port=behind).url(OWNER)
            yield Apart(Place(boot(home, SMALL_ESTATE, database_url=url)), disk, control_port, token)
        finally:
            treeline(home, "down", "--wipe")
            proxy.terminate()
            proxy.wait()
            postgres.kill()


def _answers(port: int, token: str) -> bool:
    try:
        return bool(order_at(port, token, "show", None))
    except FaultRefused:
        return False


@needs_root
@pytest.mark.nightly  # that the database is killed is in five/test_processes
@pytest.mark.parametrize("direction", ["both", "to_client"])
def test_the_network_to_the_database_is_cut(apart, direction):
    with Run(apart.place, replication_factor=1) as run:
        apart.steady()
        apart.link("cut", direction=direction)
        run.flow(8)
        apart.copying_goes_on(run)
        apart.link("heal")
    passed(run)


@needs_root
@pytest.mark.nightly
def test_the_databases_disk_is_full(apart):
    rest = apart.place.rest
    with Run(apart.place, replication_factor=1) as run:
        apart.steady()
        answers: dict[str, int] = {}
        with full(apart.disk):

            def refused() -> bool:
                name = f"x{secrets.token_hex(4)}"
                answers[name] = rest("POST", f"{PROD}/streams", {"name": name}).status_code
                return answers[name] == 503

            eventually(refused, "a full disk is told")
            apart.copying_goes_on(run)
    passed(run)
    assert set(answers.values()) <= {201, 503}
    there = {row["name"] for row in rest.ok("GET", f"{PROD}/streams?limit=1000")["items"]}
    assert {name for name, status in answers.items() if status == 201} == there & set(answers)
