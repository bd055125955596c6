"""The hold of a switch is rehearsed before clients are told to hold, and changes nothing."""

from __future__ import annotations

import pytest

from backend import deciders
from backend.domain.switch.cluster_switch import Phase
from backend.domain.switch.switch_commands import Advance
from tests.postgres.switch.test_discovery import start, switched
from tests.support.api.rest import Rest
from workers import context


def test_a_hold_that_is_rehearsed_changes_nothing(tenant: Rest, monkeypatch: pytest.MonkeyPatch) -> None:
    switched(tenant, start())
    before, app = tenant.head(), tenant.client.app  # type: ignore[attr-defined]
    monkeypatch.setattr(context, "dispatcher", lambda: app.state.services.dispatcher)
    hold = Advance(phase=Phase.HOLDING, measured={})
    context.dispatch(deciders.SWITCH, "switch-s1", hold, "worker:switches", "s1", dry_run=True)
    assert tenant.head() == before
    assert tenant("GET", "/switches/s1").json()["state"] == "planned"
