"""Deliveries to webhooks, by real workers' parts to real receivers: at least once, signed, independent.

No receiver delays another.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
import sqlalchemy as sa
from fastapi.testclient import TestClient
from standardwebhooks import Webhook, WebhookVerificationError

from backend.api.app import create_app
from backend.deciders import EDGE
from backend.domain.distribution.edge_losses import Acknowledge, RecordDeadLetter, RecordLoss
from backend.queries.base.observed import leases
from backend.queries.webhooks.webhook_deliveries import webhook_deliveries
from backend.queries.webhooks.webhook_secrets import new_secret
from backend.settings import PROJECT_ROOT
from tests.eventually import eventually
from tests.support.api.receiver import Receiver, receiving
from tests.support.api.rest import SECRETS_KEY, Rest, problem, rest_settings
from tests.support.api.worker_records import record
from tests.support.database.postgres import Database
from workers.webhooks.host import WebhookHost

HERE = "127.0.0.0/8"
LONG_SECONDS = 600.0
LOSS = RecordLoss(
    cluster="c1",
    level=1,
    target="c2",
    stream="acme/retail/prod/orders",
    partition=0,
    first_offset=5,
    last_offset=9,
    reason="offsets 5 to 9 were gone before they were read",
    incarnation=1,
)
ASIDE = RecordDeadLetter(
    cluster="c1",
    level=1,
    target="c2",
    stream="acme/retail/prod/orders",
    partition=0,
    offset=17,
    origin=None,
    reason="too large",
)


@dataclass
class Hooks:
    """A control plane, and a worker of it that sends."""

    rest: Rest
    database: Database
    host: WebhookHost
    secrets: dict[str, str]

    def make(self, name: str, url: str, *events: str) -> None:
        body = {"name": name, "url": url, "events": events or ["switch", "gap", "quarantine"]}
        answer = self.rest("POST", "/webhooks", body)
        assert answer.status_code == 201, answer.text
        self.secrets[name] = answer.json()["secret"]

    def happens(self, command: Any) -> int:
        """Carry a command out; return the position of its event."""
        record(self.database.engine, command, EDGE, "edge-c1-1")
        return self.rest.head()

    def loss(self, offset: int) -> int:
        """Record another loss."""
        return self.happens(RecordLoss(**{**vars(LOSS), "first_offset": offset, "last_offset": offset}))

    def deliveries(self, name: str = "ops") -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.rest("GET", f"/webhooks/{name}/deliveries").json()["items"]
        return found

    def states(self, name: str = "ops") -> list[str]:
        """Return the deliveries' states, the oldest first."""
        return [each["state"] for each in reversed(self.deliveries(name))]

    def pass_time(self) -> None:
        """Make all pending deliveries due."""
        with self.database.engine.begin() as connection:
            connection.execute(sa.update(webhook_deliveries).values(due_at=sa.func.clock_timestamp()))

    def until(self, true: Callable[[], object], what: str) -> None:
        """The worker goes on until this is so."""

        def look() -> object:
            self.host.tick()
            return true()

        eventually(look, what)

    def settle(self) -> None:
        """The worker sends all that is due."""
        self.until(lambda: not self._is_due() and self.host.is_idle, "nothing is due")

    def _is_due(self) -> bool:
        d = webhook_deliveries.c
        query = sa.select(d.position).where(d.state == "pending", d.due_at <= sa.func.clock_timestamp()).limit(1)
        with self.database.engine.connect() as connection:
            return connection.execute(query).first() is not None


@pytest.fixture
def hooks(database: Database) -> Iterator[Hooks]:
    """Receivers on loopback are allowed."""
    changes = {"webhook_allowed_networks": HERE, "webhook_timeout_seconds": LONG_SECONDS, "webhook_attempts": 3}
    config = rest_settings(database.url, **changes)
    app = create_app(config)
    yield Hooks(Rest(TestClient(app)), database, WebhookHost(database.engine, config), {})
    app.state.services.engine.dispose()


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as running:
        yield running


def test_what_happened_comes_once_signed_and_in_order(hooks: Hooks, receiver: Receiver) -> None:
    hooks.loss(1)
    hooks.make("ops", receiver.url)
    positions = [hooks.loss(2), hooks.happens(ASIDE), hooks.happens(Acknowledge(cluster="c1", level=1))]
    hooks.rest("POST", "/tenants", {"name": "acme"})
    hooks.settle()
    assert receiver.ids == [f"event-{each}" for each in positions], "none from before, and of no other kind"
    assert hooks.states() == ["delivered"] * 3
    hooks.settle()
    assert len(receiver.got) == 3
    for got in receiver.got:
        signed = dict(part.split("=") for part in got.headers["Treeline-Signature"].split(","))
        wanted = hmac.new(hooks.secrets["ops"].encode(), f"{signed['t']}.".encode() + got.body, hashlib.sha256)
        assert signed["v1"] == wanted.hexdigest()
        assert got.path == "/hook" and got.headers["Content-Type"] == "application/json"
    told = json.loads(receiver.got[0].body)
    event = hooks.rest("GET", f"/events?after={positions[0] - 1}&limit=1").json()["items"][0]
    assert told["id"] == f"event-{positions[0]}" and told["kind"] == "gap" and told["webhook"] == "ops"
    for same in ("position", "stream", "name", "schema_version", "data", "hash"):
        assert told[same] == event[same]
    assert told["data"]["first_offset"] == 2
    assert [got.headers["Treeline-Kind"] for got in receiver.got] == ["gap", "quarantine", "gap"]


def test_a_receiver_checks_requests_as_the_docs_show(hooks: Hooks, receiver: Receiver) -> None:
    text = (PROJECT_ROOT / "docs" / "operations.md").read_text()
    [example] = re.findall(r"```python\n(.+?)```", text, re.DOTALL)
    names: dict[str, Any] = {}
    exec(example, names)
    is_ours, secret = names["is_ours"], hooks.secrets
    hooks.make("ops", receiver.url)
    hooks.loss(1)
    hooks.settle()
    [got] = receiver.got
    header = got.headers["Treeline-Signature"]
    sent = int(header[2:].partition(",")[0])
    assert is_ours(secret["ops"], header, got.body)
    assert not is_ours(secret["ops"], header, got.body + b" ")
    assert not is_ours("whsec_another", header, got.body)
    assert is_ours(secret["ops"], header, got.body, sent + 299) and not is_ours(
        secret["ops"], header, got.body, sent + 301
    )
    assert not is_ours(secret["ops"], header.replace(f"t={sent}", f"t={sent + 1}"), got.body)
    for nonsense in ("", "t=,v1=", "v1=00", "t=x,v1=y", f"t={sent}"):
        assert not is_ours(secret["ops"], nonsense, got.body)


def test_a_library_of_standard_webhooks_verifies_requests(hooks: Hooks, receiver: Receiver) -> None:
    hooks.make("ops", receiver.url)
    position = hooks.loss(1)
    hooks.settle()
    [got] = receiver.got
    headers = {name.lower(): value for name, value in got.headers.items()}
    assert headers["webhook-id"] == f"event-{position}"
    verifier = Webhook(hooks.secrets["ops"])
    assert verifier.verify(got.body, headers)["position"] == position
    with pytest.raises(WebhookVerificationError):
        verifier.verify(got.body + b" ", headers)
    with pytest.raises(WebhookVerificationError):
        Webhook(new_secret()).verify(got.body, headers)


def test_a_webhook_hears_of_its_kinds_while_it_is_enabled(hooks: Hooks, receiver: Receiver) -> None:
    hooks.make("ops", receiver.url, "quarantine")
    heard = hooks.happens(ASIDE)
    hooks.loss(1)
    # All before any worker looks: what holds is what it was when the event happened.
    hooks.rest("PATCH", "/webhooks/ops", {"events": ["gap"]})
    also = hooks.loss(2)
    hooks.rest("PATCH", "/webhooks/ops", {"enabled": False})
    hooks.loss(3)
    hooks.host.tick()
    assert receiver.got == [], "it is disabled, and what waits does"
    hooks.rest("PATCH", "/webhooks/ops", {"enabled": True})
    last = hooks.loss(4)
    hooks.settle()
    assert receiver.ids == [f"event-{each}" for each in (heard, also, last)]


@pytest.mark.parametrize(
    ("behaviour", "status", "problem_told"),
    [
        ({"status": 500}, 500, "it answered 500"),
        ({"status": 307, "headers": {"Location": "/elsewhere"}}, 307, "redirects are not followed"),
        ({"status": 302, "headers": {"Location": "http://169.254.169.254/"}}, 302, "redirects are not followed"),
    ],
)
def test_what_is_not_taken_is_sent_again_until_it_has_failed(
    hooks: Hooks, behaviour: dict[str, Any], status: int, problem_told: str
) -> None:
    with receiving(**behaviour) as bad:
        hooks.make("ops", bad.url)
        position = hooks.loss(1)
        for attempt in (1, 2, 3):
            hooks.settle()
            [row] = hooks.deliveries()
            assert (row["attempts"], row["status"]) == (attempt, status)
            assert problem_told in row["problem"]
            assert (row["state"], row["next_attempt_at"] is None) == (
                ("failed", True) if attempt == 3 else ("pending", False)
            )
            hooks.pass_time()
        hooks.settle()
        assert [got.headers["Treeline-Attempt"] for got in bad.got] == ["1", "2", "3"]
        assert len({got.body for got in bad.got}) == 1 and {got.path for got in bad.got} == {"/hook"}
        bad.status = 204
        assert hooks.rest("POST", f"/webhooks/ops/deliveries/{position}/retry").status_code == 202
        hooks.settle()
        assert hooks.states() == ["delivered"]
    problem(hooks.rest("POST", "/webhooks/ops/deliveries/1/retry"), 404, "not-found")
    assert hooks.rest("GET", "/events").json()["items"][-1]["name"] == "WebhookDeliveryRetried"


def test_attempts_are_twice_as_far_apart_each_time(hooks: Hooks) -> None:
    hooks.make("ops", "http://127.0.0.1:9/")
    hooks.loss(1)
    delays = []
    for _ in (1, 2):
        hooks.settle()
        with hooks.database.engine.connect() as connection:
            row = connection.execute(sa.select(webhook_deliveries)).one()
        delays.append((row.due_at - row.tried_at).total_seconds())
        hooks.pass_time()
    # Between the two times something was tried, which takes no negative time.
    assert delays[0] >= 10 and delays[1] >= 20
    assert "cannot be reached" in hooks.deliveries()[0]["problem"]


def test_a_receiver_that_is_dead_or_hangs_holds_up_no_other(hooks: Hooks, receiver: Receiver) -> None:
    with receiving() as stuck:
        stuck.hangs.set()
        hooks.make("a-stuck", stuck.url)
        hooks.make("b-down", "http://127.0.0.1:9/")
        hooks.make("ops", receiver.url)
        first = hooks.loss(1)
        hooks.until(lambda: len(stuck.got) == 1, "it was asked, and hangs")
        second = hooks.loss(2)
        hooks.until(lambda: hooks.states() == ["delivered"] * 2, "the other one has heard of both")
        assert receiver.ids == [f"event-{first}", f"event-{second}"]
        assert len(stuck.got) == 1 and hooks.states("a-stuck") == ["pending", "pending"]
        hooks.until(lambda: [each["attempts"] for each in hooks.deliveries("b-down")] == [1, 1], "both were tried")
        stuck.hangs.clear()
        stuck.freed.set()
        hooks.until(lambda: hooks.deliveries("a-stuck")[0]["state"] == "delivered", "the second went through")


def test_a_receiver_that_hangs_is_given_up(database: Database, hooks: Hooks) -> None:
    with receiving() as stuck:
        stuck.hangs.set()
        hooks.make("ops", stuck.url)
        hooks.loss(1)
        changes = {"webhook_allowed_networks": HERE, "webhook_timeout_seconds": 0.2}
        hooks.host = WebhookHost(database.engine, rest_settings(database.url, **changes))
        hooks.until(lambda: hooks.deliveries() and hooks.deliveries()[0]["problem"], "it was given up")
        assert hooks.deliveries()[0]["problem"] == "the receiver did not answer within 0.2 s"


def test_an_attempt_that_takes_longer_than_a_lease_keeps_it(
    database: Database, hooks: Hooks, receiver: Receiver
) -> None:
    """Otherwise another process would send the next event meanwhile."""
    receiver.hangs.set()
    hooks.make("ops", receiver.url)
    hooks.loss(1)
    brief = {"webhook_allowed_networks": HERE, "webhook_timeout_seconds": LONG_SECONDS, "lease_ttl_seconds": 1.0}
    hooks.host = WebhookHost(database.engine, rest_settings(database.url, **brief))
    hooks.until(lambda: receiver.got, "it was asked, and hangs")

    def lease() -> Any:
        query = sa.select(leases.c.expires_at).where(leases.c.unit == "webhook:ops")
        with database.engine.connect() as connection:
            return connection.execute(query).scalar_one()

    before = lease()
    eventually(lambda: lease() > before, "its lease was renewed meanwhile")
    assert hooks.states() == ["pending"]
    receiver.freed.set()
    eventually(lambda: hooks.host.is_idle, "nobody renews any more")


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "2130706433", "127.1"])
def test_nothing_is_sent_to_an_address_that_is_not_allowed(
    database: Database, hooks: Hooks, receiver: Receiver, host: str
) -> None:
    """The addresses of a name are checked when it is connected to."""
    hooks.make("ops", receiver.url.replace("127.0.0.1", host))
    hooks.loss(1)
    hooks.host = WebhookHost(database.engine, rest_settings(database.url))
    hooks.settle()
    assert receiver.got == []
    assert "the address is not allowed: " in hooks.deliveries()[0]["problem"]
    assert "webhook_allowed_networks" in hooks.deliveries()[0]["problem"]


def test_a_test_comes_and_only_to_the_webhook_that_was_meant(hooks: Hooks, receiver: Receiver) -> None:
    with receiving() as other:
        hooks.make("dev", other.url)
        hooks.make("ops", receiver.url, "gap")
        position = hooks.rest("POST", "/webhooks/ops/test").json()["position"]
        hooks.settle()
        assert receiver.ids == [f"event-{position}"] and other.got == []
        assert json.loads(receiver.got[0].body)["kind"] == "test"


def test_what_a_rotated_secret_signs(hooks: Hooks, receiver: Receiver) -> None:
    hooks.make("ops", receiver.url)
    rotated = hooks.rest("POST", "/webhooks/ops/secret").json()["secret"]
    hooks.loss(1)
    hooks.settle()
    [got] = receiver.got
    at, sent = (part.partition("=")[2] for part in got.headers["Treeline-Signature"].split(","))
    assert sent == hmac.new(rotated.encode(), f"{at}.".encode() + got.body, hashlib.sha256).hexdigest()


def test_a_webhook_that_is_deleted_and_made_again_is_sent_nothing_of_before(
    hooks: Hooks, receiver: Receiver
) -> None:
    hooks.make("ops", receiver.url)
    hooks.loss(1)
    hooks.rest("DELETE", "/webhooks/ops")
    hooks.make("ops", receiver.url)
    last = hooks.loss(2)
    hooks.settle()
    assert receiver.ids == [f"event-{last}"]


WORKER = """
import time
from backend.settings import settings
from workers import context
from workers.webhooks.host import WebhookHost
host = WebhookHost(context.engine(), settings())
while True:
    host.tick()
    time.sleep(0.05)
"""


def test_a_worker_that_is_killed_loses_nothing(hooks: Hooks, receiver: Receiver) -> None:
    receiver.hangs.set()
    hooks.make("ops", receiver.url)
    positions = [hooks.loss(offset) for offset in (1, 2, 3)]
    told = {
        "DATABASE_URL": hooks.database.url,
        "SECRETS_KEY": SECRETS_KEY,
        "WEBHOOK_ALLOWED_NETWORKS": HERE,
        "WEBHOOK_TIMEOUT_SECONDS": str(LONG_SECONDS),
        "LEASE_TTL_SECONDS": "1",
    }
    environment = os.environ | {f"TREELINE_{name}": value for name, value in told.items()}
    process = subprocess.Popen([sys.executable, "-c", WORKER], cwd=PROJECT_ROOT, env=environment)
    try:
        eventually(lambda: receiver.got, "the first is being sent")
        positions.append(hooks.loss(4))
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    receiver.hangs.clear()
    hooks.pass_time()
    hooks.until(lambda: hooks.states() == ["delivered"] * 4, "another worker has sent all of it")
    assert receiver.ids[0] == f"event-{positions[0]}"
    assert receiver.ids[1:] == [f"event-{each}" for each in positions], "what was being sent comes twice"
