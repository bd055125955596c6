"""Applications of a tenant, which follow discovery, and the check of their records."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from types import TracebackType
from typing import Any

from treeline_client import OutcomeUnknown, SwitchingConsumer, SwitchingProducer

from bench.switch.checker import Histories, anomalies, key_of
from tests.eventually import eventually
from tests.support.api import http
from tests.support.kafka.topics import DEADLINE_SECONDS, read_all

Ask = Callable[[str, str, Any], Any]
"""(method, path, body) -> the JSON of a success."""
ENDED = ("completed", "aborted", "failed")
STREAM = "orders"
_TICKS_PER_SECOND, _RECORDS_PER_TICK = 20, 5
_WRONG_SECONDS = 2.0


@dataclass(frozen=True)
class Tenant:
    """A tenant with one stream in shop/prod, and its control plane."""

    name: str
    ask: Ask
    url: str
    token: str
    servers: Mapping[str, str]

    @property
    def path(self) -> str:
        return f"/tenants/{self.name}/instances/shop/environments/prod"

    @property
    def place(self) -> dict[str, str]:
        return {"tenant": self.name, "instance": "shop", "environment": "prod"}

    def make(self, mode: str) -> Tenant:
        """Create the tenant and its stream, which `is_there` soon; `mode`: offset mode."""
        self.ask("POST", "/tenants", {"name": self.name})
        self.ask("POST", f"/tenants/{self.name}/instances", {"name": "shop", "tree": "main"})
        environments = f"/tenants/{self.name}/instances/shop/environments"
        self.ask("POST", environments, {"name": "prod", "offset_mode": mode})
        self.ask("POST", f"{self.path}/streams", {"name": STREAM, "partitions": 2})
        return self

    def is_there(self) -> bool:
        applied = self.ask("GET", f"{self.path}/streams/{STREAM}", None)["applied"]
        return set(applied.values()) == {"applied"} and set(applied) == set(self.servers)

    def delete(self) -> None:
        """Delete the stream with its topics."""
        stream = f"{self.name}/shop/prod/{STREAM}"
        self.ask("DELETE", f"{self.path}/streams/{STREAM}?confirm={stream}", None)

    def topic(self, cluster: str) -> str:
        name: str = self.ask("GET", f"{self.path}/streams/{STREAM}", None)["technical_names"][cluster]
        return name

    def active(self) -> tuple[str, int]:
        """Return (cluster, generation) that discovery sends clients to."""
        query = "&".join(f"{name}={value}" for name, value in self.place.items())
        told = self.ask("GET", f"/discovery?{query}", None)
        return told["cluster"], told["generation"]

    def log(self, cluster: str) -> list[list[str]]:
        """Return the values of each partition in log order."""
        found: dict[int, list[str]] = {}
        for message in read_all(self.servers[cluster], self.topic(cluster)):
            found.setdefault(message.partition(), []).append((message.value() or b"").decode())
        return [found[number] for number in sorted(found)]

    # --- switches

    def wish(self, source: str, target: str, **more: Any) -> dict[str, Any]:
        return {"from": source, "to": target, "tenant": self.name, **more}

    def start(self, source: str, target: str, **more: Any) -> dict[str, Any]:
        """Start a planned switch of this tenant with its plan's digest."""
        body = self.wish(source, target, **more)
        row: dict[str, Any] = self.ask("POST", "/switches", {**body, "plan_digest": self._free(body)})
        return row

    def reverse(self, row: dict[str, Any]) -> dict[str, Any]:
        """Start the reverse of a switch with its plan's digest."""
        wish = {"from": row["to"], "to": row["from"], "reverses": row["id"]}
        back: dict[str, Any] = self.ask(
            "POST", f"/switches/{row['id']}/reverse", {"plan_digest": self._free(wish)}
        )
        return back

    def _free(self, wish: dict[str, Any]) -> str:
        """Return the digest of a plan without blockers."""

        def free() -> str | None:
            plan: dict[str, Any] = self.ask("POST", "/switches/plan", wish)
            return None if plan["blockers"] else plan["digest"]

        # An earlier fault may still be recovering: distributors that had lost a cluster start over.
        return eventually(free, "nothing stands against the switch", 0.5)

    def until(self, switch: str, what: str, so: Callable[[dict[str, Any]], Any]) -> dict[str, Any]:
        """Return the switch as soon as a condition holds; fail at once if the switch has ended by then."""

        def look() -> dict[str, Any] | None:
            row: dict[str, Any] = self.ask("GET", f"/switches/{switch}", None)
            if so(row):
                return row
            assert row["state"] not in ENDED, row
            return None

        return eventually(look, what, 0.1)

    def in_phase(self, switch: str, phase: str, *waiting_for: str) -> dict[str, Any]:
        """Wait until the switch is in a phase and waits for exactly these clients."""

        def so(row: dict[str, Any]) -> bool:
            now = [each["client_id"] for each in (row["now"] or {}).get("waiting_for", [])]
            return row["state"] == phase and sorted(now) == sorted(waiting_for)

        return self.until(switch, f"it is {phase} and waits for {waiting_for}", so)

    def about_to_hold(self, switch: str) -> dict[str, Any]:
        """Wait until the switch would tell clients to hold, and only waits for a batch."""

        def so(row: dict[str, Any]) -> bool:
            return row["state"] == "planned" and bool((row["now"] or {}).get("about_to_hold"))

        return self.until(switch, "it is about to hold", so)

    def over(self, switch: str) -> dict[str, Any]:
        """Return the switch once it has ended."""
        return self.until(switch, "the switch ends", lambda row: row["state"] in ENDED)


class ByHand:
    """A client that reports what the test says and obeys nothing; it retries without an answer, until silent."""

    def __init__(self, tenant: Tenant, name: str, role: str = "producer", zone: str | None = None) -> None:
        self.name = name
        self.answer: dict[str, Any] = {}
        self._tenant, self._role = tenant, role
        self._told: dict[str, Any] = {"phase": "active", "generation": tenant.active()[1]}
        if zone is not None:
            self._told["zone"] = zone
        self._silent = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        self.tell()

    def tell(self, **changes: Any) -> dict[str, Any]:
        """Report another phase or generation; return the answer."""
        wanted = {**self._told, **changes}
        self.answer, self._told = {}, wanted
        return eventually(
            lambda: found if (found := self.answer).get("_of") is wanted else None, f"{self.name} is heard"
        )

    def be_silent(self) -> None:
        """Stop reporting, as a killed client does."""
        self._silent.set()
        self._thread.join()

    def _run(self) -> None:
        import httpx2

        headers = {"Authorization": f"Bearer {self._tenant.token}"}
        with http.client(base_url=self._tenant.url, headers=headers, timeout=5) as client:
            while not self._silent.is_set():
                told = self._told
                query = {**self._tenant.place, "client_id": self.name, "role": self._role, **told}
                try:
                    found = client.get("/api/v1/discovery", params=query)
                except httpx2.TransportError:
                    found = None
                if found is not None and found.is_success:
                    self.answer = {**found.json(), "_of": told}
                self._silent.wait(0.2)

    def __enter__(self) -> ByHand:
        return self

    def __exit__(self, *_: object) -> None:
        self.be_silent()


class Applications:
    """Producers and groups of `treeline_client`, which run from `with` to `finish`."""

    def __init__(self, tenant: Tenant, producers: int = 2, groups: int = 2) -> None:
        self.tenant = tenant
        self.histories = Histories()
        self.switches: list[int] = []
        """Number of moves that each client has seen, once it is closed."""
        self._stop, self._end = threading.Event(), threading.Event()
        self._threads = ThreadPoolExecutor(producers + groups)
        self._producers, self._groups = producers, [f"g{number}" for number in range(groups)]
        self._running: list[Future[None]] = []

    def __enter__(self) -> Applications:
        self.histories.read = {group: [] for group in self._groups}
        self._running = [self._threads.submit(self._produce, number) for number in range(self._producers)]
        self._running += [self._threads.submit(self._consume, group) for group in self._groups]
        self.all_read(since=0)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._end.set()
        self._threads.shutdown()

    @property
    def conf(self) -> dict[str, Any]:
        place = {f"treeline.{name}": value for name, value in self.tenant.place.items()}
        where = {"treeline.url": self.tenant.url, "treeline.token": self.tenant.token}
        return {**where, **place, "treeline.cache.directory": ""}

    def all_read(self, since: int | None = None) -> None:
        """Wait until each group has read another record, or more than `since`."""
        before = {group: len(ids) if since is None else since for group, ids in self.histories.read.items()}

        def look() -> bool:
            self._raise()
            return all(len(ids) > before[group] for group, ids in self.histories.read.items())

        eventually(look, "each group reads")

    def acknowledged(self, one: str) -> None:
        """Add an acknowledged record of another client, which is checked like theirs."""
        self.histories.acknowledged[one] = key_of(one)[0]

    def finish(self, *active: str, emergency: bool = False, again: int = 0) -> int:
        """Stop all, check all records and return how many were re-read.

        `active`: clusters that clients were sent to; `emergency`: the checker then skips what is not guaranteed,
        and producers may report unknown outcomes; `again`: allowed number of re-read records.
        """
        self._stop.set()
        for each in self._running[: self._producers]:
            each.result()
        known = self.histories.acknowledged.keys()
        clusters = list(self.tenant.servers)

        def read() -> bool:
            self._raise()
            return all(known <= set(ids) for ids in self.histories.read.values())

        eventually(read, "each group has read everything", 0.2)
        for cluster in clusters:
            eventually(lambda c=cluster: known <= _ids(self.tenant.log(c)), f"{cluster} has everything", 0.5)
        time.sleep(_WRONG_SECONDS)  # time for a wrong result to appear
        self._end.set()
        for each in self._running:
            each.result()
        failed = {one: why for one, why in self.histories.failed.items() if one not in self.histories.unknown}
        assert not failed and (emergency or not self.histories.unknown), list(self.histories.failed.items())[:5]
        assert len(known) > _TICKS_PER_SECOND
        logs = {cluster: self.tenant.log(cluster) for cluster in clusters}
        found, counted = anomalies(self.histories, logs, active, emergency=emergency)
        repeated: int = counted["read_again"]
        if not emergency and repeated <= again:
            found = [each for each in found if not each.startswith("read again")]
        assert found == [], (len(found), found[:20])
        return repeated

    def _raise(self) -> None:
        for each in self._running:
            if each.done():
                each.result()

    def _produce(self, number: int) -> None:
        sent = 0
        with SwitchingProducer({**self.conf, "client.id": f"producer-{number}", "linger.ms": 5}) as producer:
            while not self._stop.wait(1 / _TICKS_PER_SECOND):
                for one in (f"{number}:{sequence}" for sequence in range(sent, sent + _RECORDS_PER_TICK)):
                    producer.produce(STREAM, key=key_of(one)[0], value=one, on_delivery=self._report(one))
                sent += _RECORDS_PER_TICK
                producer.poll(0)
                self._stands(producer)
            assert producer.flush(DEADLINE_SECONDS) == 0
            self._stands(producer)
            self.switches.append(producer.metrics().switches)

    def _report(self, one: str) -> Callable[[Any, Any], None]:
        def report(error: Any, _: Any) -> None:
            if error is None:
                self.acknowledged(one)
            else:
                self.histories.failed[one] = str(error)
                self.histories.unknown |= {one} if isinstance(error, OutcomeUnknown) else set()

        return report

    def _consume(self, group: str) -> None:
        conf = {**self.conf, "client.id": group, "group.id": group, "auto.offset.reset": "earliest"}
        with SwitchingConsumer({**conf, "auto.commit.interval.ms": 500}) as consumer:
            consumer.subscribe([STREAM])
            while not self._end.is_set():
                for message in consumer.consume(500, 0.1):
                    if message.error() is None:
                        self.histories.read[group].append((message.value() or b"").decode())
                self._stands(consumer)
            self.switches.append(consumer.metrics().switches)

    def _stands(self, client: SwitchingProducer | SwitchingConsumer) -> None:
        now = client.metrics()
        self.histories.stood.setdefault(now.generation, set()).add(now.cluster)


def _ids(log: Iterable[Sequence[str]]) -> set[str]:
    return {one for partition in log for one in partition}
