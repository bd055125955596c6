"""One run: a stream of its own on an estate, producers on every cluster, faults, recovery, and the verdict.

```
with Run(place, seed=7) as run:      # producers send from here on
    place.kill("postgres")           # whatever is to be survived
assert run.verdict.anomalies == []   # the block's end healed, waited for rest, and judged
```
"""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import time
from collections import Counter
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any

import httpx2
import psutil
import pytest
from redis import Redis

from backend.domain.tree.tree import clusters_of
from backend.estate import faults
from backend.estate.home import Home
from backend.estate.processes import load_plan
from backend.estate.running import read_state
from backend.verification.fleet import FleetReader, FleetUnknown
from tests.eventually import eventually
from tests.faults.history import History
from tests.faults.judge import Verdict, judge, kinds, not_idle, wait_until_at_rest
from tests.faults.load import Load
from tests.support.api.rest_client import RestClient
from tests.support.estate.running import RunningEstate

PROD = "/tenants/acme/instances/retail/environments/prod"
CLUSTERS = [f"cluster-{number}" for number in range(1, 6)]

Undo = Callable[[], None]
Flags = Mapping[str, Mapping[str, int]]
"""`flags[origin][cluster]`, implied by a tree and its targets."""


def nothing() -> None:
    """Undo nothing: killed processes are started again by the supervisor."""


class Place:
    """A running estate whose parts can be broken and restored."""

    def __init__(self, estate: RunningEstate) -> None:
        status = estate.status()
        self.estate = estate
        self.home = Home(estate.home)
        self.rest = RestClient(status["control_plane"], status["admin_token"])
        self.reader = FleetReader(status["control_plane"], status["admin_token"], lambda cluster, key: "")
        self.servers = {name: row["bootstrap_servers"] for name, row in status["clusters"].items()}
        self._stopped: set[int] = set()
        self._links: set[str] = set()
        self.routes: list[Flags] = []
        """Flags of every tree with its targets since the run began."""

    def pid(self, name: str) -> int:
        """Return the pid of a process that runs or will run again."""
        return eventually(lambda: self._pid(name), f"{name} runs")

    def _pid(self, name: str) -> int | None:
        state = read_state(self.home)
        rows = state["processes"] if state else []
        return next(row["pid"] for row in rows if row["name"] == name)

    def restarts(self, name: str) -> int:
        """Return how often the process died."""
        state = read_state(self.home)
        assert state is not None
        return next(row["restarts"] for row in state["processes"] if row["name"] == name)

    def kill(self, name: str) -> None:
        """Send kill -9; the estate's supervisor starts the process again."""
        before = self.restarts(name)
        # PostgreSQL's other processes end on SIGQUIT; after SIGKILL they would keep its memory in use.
        os.kill(self.pid(name), signal.SIGQUIT if name == "postgres" else signal.SIGKILL)
        eventually(lambda: self.restarts(name) > before, f"{name} died")

    def pool(self) -> list[int]:
        """Return the pool processes of the worker that runs tasks; none while it is starting."""
        pid = self._pid("worker:shifts")
        try:
            return [child.pid for child in psutil.Process(pid).children()] if pid else []
        except psutil.NoSuchProcess:
            return []

    def holders(self) -> dict[int, int]:
        """Return the processes that run tasks: pid -> number of distributors with tasks there."""
        holders = [row["holder"] or "" for row in self.reader.distributors()]
        return Counter(int(each.rpartition(":")[2]) for row in holders for each in row.split(", ") if each)

    def signal(self, pid: int, number: signal.Signals) -> None:
        """Send a signal to a process that may have ended in the meantime."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)

    def stop(self, pid: int) -> None:
        """Send SIGSTOP: the process exists, but does nothing."""
        self.signal(pid, signal.SIGSTOP)
        self._stopped.add(pid)

    def go_on(self, pid: int) -> None:
        """Send SIGCONT."""
        self._stopped.discard(pid)
        self.signal(pid, signal.SIGCONT)

    def valkey(self) -> Redis:
        """Return a client of the estate's Valkey."""
        return Redis.from_url(self._environment("TREELINE_CELERY_BROKER_URL"))

    def database_url(self) -> str:
        """Return the URL of the control plane's database, with the login of API and workers."""
        return self._environment("TREELINE_DATABASE_URL")

    def owner_url(self) -> str:
        """Return the URL of the control plane's database, with the login of its owner."""
        return self._environment("TREELINE_MIGRATION_DATABASE_URL", of="migrate")

    def _environment(self, name: str, of: str = "api") -> str:
        """Return a variable of the environment of an estate's process."""
        return next(spec.environment[name] for spec in load_plan(self.home.plan).processes if spec.name == of)

    def link(self, action: str, cluster: str, **details: Any) -> None:
        """Send a command to the proxy before a cluster: cut, refuse, delay, flap, heal."""
        self._links.add(cluster)
        faults.order(self.home, action, cluster, **details)

    def heal(self) -> None:
        """Undo the faults that do not end by themselves."""
        for pid in list(self._stopped):
            self.go_on(pid)
        for cluster in list(self._links):
            self.link("heal", cluster)
        self._links.clear()

    def distributors(self) -> list[dict[str, Any]]:
        """Return the distributors from the API, as soon as it answers."""
        rows: list[dict[str, Any]] = self._ask("GET", "/trees/main/distributors")
        return rows

    def tree(self) -> dict[str, Any]:
        """Return the tree's root."""
        root: dict[str, Any] = self._ask("GET", "/trees/main")["root"]
        return root

    def replace_tree(self, root: dict[str, Any]) -> None:
        """Set another tree, with its default targets. The primary stays, if it is one of its leaves."""
        leaves, primary = clusters_of(root), self._ask("GET", "/trees/main")["primary_cluster"]
        self._ask("PUT", f"/trees/main?primary={primary if primary in leaves else min(leaves)}", root)
        self.note_routes()

    def switch_target(self, cluster: str, level: int, target: str) -> None:
        """Switch a distributor to another leaf."""
        self._ask("PUT", f"/trees/main/targets/{cluster}/{level}", {"target": target})
        self.note_routes()

    def leaves(self) -> frozenset[str]:
        """Return the clusters of the tree."""
        return clusters_of(self.tree())

    def pause(self, cluster: str, level: int) -> None:
        """Pause a distributor."""
        self._ask("PATCH", f"/trees/main/distributors/{cluster}/{level}", {"paused": True})

    def resume(self, cluster: str, level: int) -> None:
        """Resume a distributor."""
        self._ask("PATCH", f"/trees/main/distributors/{cluster}/{level}", {"paused": False})

    def note_routes(self) -> None:
        """Accept the flags of the current tree on copies from now on."""

        def flags() -> Flags | None:
            try:
                return self.reader.read(None, "", 0).flags
            except FleetUnknown:
                return None

        self.routes.append(eventually(flags, "the API answers"))

    def _ask(self, method: str, path: str, body: Any = None) -> Any:
        """Request from the API until it answers: it or its database may be restarting."""

        def answer() -> httpx2.Response | None:
            try:
                found = self.rest(method, path, body)
            except httpx2.TransportError:
                return None
            return None if found.status_code >= 500 else found

        found = eventually(answer, f"{method} {path} is answered", 0.2)
        assert found.is_success, f"{method} {path}: {found.status_code} {found.text}"
        return found.json() if found.content else None

    def epochs(self) -> dict[tuple[str, int], int]:
        """Return the fencing epoch of every distributor; it rises when a task changes hands."""
        rows = self.reader.distributors()
        return {(row["cluster"], row["level"]): row["fencing_epoch"] or 0 for row in rows}


class Run:
    """A run (see above). `rate` is records per second over all clusters."""

    def __init__(
        self,
        place: Place,
        seed: int | None = None,
        rate: float = 500,
        partitions: int = 4,
        name: str | None = None,
        **stream: Any,
    ) -> None:
        self.seed = secrets.randbits(32) if seed is None else seed
        self.place = place
        self.verdict = Verdict()
        self.name = name or f"s{secrets.token_hex(4)}"
        self.stream = f"acme/retail/prod/{self.name}"
        self._partitions, self._rate, self._settings = partitions, rate, stream

    def __enter__(self) -> Run:
        self.tell(f"seed {self.seed}")
        place = self.place
        body = {"name": self.name, "partitions": self._partitions, "replication_factor": 3, **self._settings}
        body.setdefault("min_insync_replicas", min(2, body["replication_factor"]))
        place.rest.ok("POST", f"{PROD}/streams", body)
        eventually(self.is_everywhere, "the stream is on every cluster")
        eventually(lambda: self._all_run(), "all distributors run")
        self.fleet = place.reader.read(self.stream, "", 0)
        place.routes = [self.fleet.flags]
        self.history = History(self.seed, [member.name for member in self.fleet.members])
        topics = {member.name: member.topic for member in self.fleet.members}
        self.load = Load(self.history, place.servers, topics, self._partitions, self._rate)
        self.load.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.place.heal()
        self.load.__exit__(kind, error, trace)
        if error is None:
            healed = time.monotonic()
            restless = wait_until_at_rest(self.fleet, lambda: not_idle(self.place.reader))
            rested = time.monotonic() - healed
            numbers = {row["name"]: row["number"] for row in self.place.rest.ok("GET", "/clusters")["items"]}
            self.verdict = judge(self.history, self.fleet, numbers, self.stream, self.place.routes)
            # First, since all other failures may follow from it.
            self.verdict.anomalies[:0] = restless
            self.tell(
                f"{self.verdict.counts()}; at rest {rested:.0f} s after healing; {dict(kinds(self.verdict))}"
            )

    def tell(self, words: str) -> None:
        """Add a line to the output of a failure, from which the run can be repeated."""
        print(words)  # noqa: T201

    def flow(self, seconds: float) -> None:
        """Let records flow. This only gives a fault its time: nothing is judged by the clock."""
        time.sleep(seconds)

    def grow(self, partitions: int) -> None:
        """Add partitions while records flow; the producers use them once they exist everywhere."""
        self.place.rest.ok("PATCH", f"{PROD}/streams/{self.name}", {"partitions": partitions})
        eventually(self.is_everywhere, "the new partitions are everywhere")
        self.load.partitions = partitions

    def is_everywhere(self) -> bool:
        """Return whether the stream is on every cluster as declared."""
        applied = self.place.rest.ok("GET", f"{PROD}/streams/{self.name}")["applied"]
        return set(applied.values()) == {"applied"}

    def _all_run(self) -> bool:
        rows = self.place.reader.distributors()
        # Losses that another run caused on purpose leave its distributor degraded until they are acknowledged.
        return all(row["state"] in ("running", "degraded") and row["lag_records"] is not None for row in rows)


def passed(run: Run) -> None:
    """Fail with the seed unless there is no anomaly, and there were records to check."""
    assert run.verdict.sends["ok"] > 100, f"seed {run.seed}: hardly anything was sent: {run.verdict.sends}"
    if run.verdict.anomalies:
        listed = "\n".join(run.verdict.anomalies[:20])
        pytest.fail(f"seed {run.seed}: {dict(kinds(run.verdict))} {run.verdict.counts()}\n{listed}")
