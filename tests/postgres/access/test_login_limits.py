"""Callers that are blocked after failed logins, and the influence of many other callers."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from backend import login_limits
from backend.login_limits import ATTEMPTS, LoginLimits, RateLimit, network_of
from tests.browser.access.test_users_page import client_of, new_user, try_password
from tests.support.console.consoles import Console

NETWORKS = (
    ("2001:db8:1:2::1", "2001:db8:1:2:ffff::9", True),
    ("2001:db8:1:2::1", "2001:db8:1:3::1", False),
    ("::ffff:10.0.0.1", "10.0.0.1", True),
    ("::ffff:10.0.0.1", "::ffff:10.0.0.2", False),
    ("fe80::1%eth0", "fe80::2%eth1", True),
    ("10.0.0.1", "10.0.0.2", False),
    ("testclient", "", False),
)


@pytest.mark.parametrize(("one", "other", "same"), NETWORKS)
def test_an_address_is_counted_by_what_its_owner_has(one: str, other: str, same: bool) -> None:
    assert (network_of(one) == network_of(other)) is same


def test_nobody_gets_free_by_the_failures_of_many_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(login_limits, "MOST_CALLERS", 50)
    limit = RateLimit(3, 3600.0)
    for _ in range(3):
        limit.failed("ada")
    for n in range(500):
        limit.failed(f"junk-{n}")
    assert limit.blocked("ada")
    # Who failed less often is forgotten first; memory has an end.
    assert len(limit._counted) == 50
    limit.failed("junk-499")
    limit.failed("junk-499")
    assert limit.blocked("junk-499")


def test_who_is_stopped_gets_free_after_the_time_and_is_let_go_of(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = SimpleNamespace(now=0.0)
    monkeypatch.setattr(login_limits, "time", SimpleNamespace(monotonic=lambda: clock.now))
    limit = RateLimit(3, 60.0)
    for clock.now in (1.0, 2.0, 3.0):
        limit.failed("ada")
    clock.now = 60.0
    assert limit.blocked("ada")
    clock.now = 61.5
    assert not limit.blocked("ada")
    clock.now = 64.0
    limit.failed("bob")
    assert list(limit._stopped) == []


def test_one_address_and_one_user_leave_room_for_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(login_limits, "KEPT_OF_EACH", 2)
    monkeypatch.setattr(login_limits, "KEPT_OF_ADDRESSES", 3)
    limits = LoginLimits()
    assert [limits.keeps("10.0.0.1", "") for _ in range(3)] == [True, True, False]
    assert [limits.keeps("10.0.0.2", "") for _ in range(2)] == [True, False]
    assert [limits.keeps("10.0.0.1", "ada") for _ in range(3)] == [True, True, False]
    assert limits.keeps("10.0.0.1", "bob")


@pytest.mark.nightly
def test_names_of_nobody_let_go_of_no_user(console: Console, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(login_limits, "MOST_CALLERS", 3)
    new_user(console, "ada")
    for _ in range(ATTEMPTS - 1):
        try_password(client_of(console), "ada", "wrong")
    for n in range(5):
        try_password(client_of(console, "127.0.0.2"), f"nobody-{n}", "wrong")
    assert try_password(client_of(console, "127.0.0.3"), "ada", "wrong").status_code == 403
    assert try_password(client_of(console, "127.0.0.3"), "ada").status_code == 429
