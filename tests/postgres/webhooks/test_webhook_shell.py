"""`treeline webhook test` waits for its own delivery, and not for ever."""

from __future__ import annotations

import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from backend.commands.webhooks import webhooks
from tests.postgres.webhooks.test_webhook_deliveries import Hooks
from tests.postgres.webhooks.test_webhook_deliveries import hooks as hooks
from tests.postgres.webhooks.test_webhook_deliveries import receiver as receiver
from tests.support.api.receiver import Receiver
from tests.support.api.rest import problem
from tests.support.api.shell import shell_of


def test_the_shell_finds_its_test_among_many_and_does_not_wait_without_an_end(
    hooks: Hooks, receiver: Receiver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def meanwhile(_: float) -> None:
        for number in range(51):
            hooks.loss(number * 10)
        hooks.settle()

    hooks.make("ops", receiver.url)
    with shell_of(hooks.database.url, tmp_path) as shell:
        unsent = shell("webhook", "test", "ops", "--timeout", "0", "--json")
        assert (unsent.exit_code, unsent.stdout) == (1, "")
        assert f"Event {hooks.rest.head()} was not sent within 0 s" in unsent.stderr
        monkeypatch.setattr(webhooks, "time", SimpleNamespace(sleep=meanwhile, monotonic=time.monotonic))
        found = shell.json("webhook", "test", "ops", "--timeout", "3600")
    assert (found["kind"], found["state"]) == ("test", "delivered")
    assert found["position"] == hooks.rest.head() - 51
    only = hooks.rest("GET", f"/webhooks/ops/deliveries?position={found['position']}").json()["items"]
    assert [each["position"] for each in only] == [found["position"]]
    problem(hooks.rest("GET", "/webhooks/ops/deliveries?position=0"), 422, "invalid")
