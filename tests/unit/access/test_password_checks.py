"""The number of concurrent password checks is limited: each takes a processor and 32 MiB."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from backend.domain.base.errors import PasswordsBusy
from backend.queries.access import secrets
from tests.eventually import eventually


def test_two_are_checked_at_a_time_eight_wait_and_others_are_sent_away(monkeypatch: pytest.MonkeyPatch) -> None:
    checked: list[str] = []
    goes_on = threading.Event()

    def slow(password: bytes, **_: object) -> bytes:
        checked.append(password.decode())
        assert goes_on.wait(60)
        return b""

    monkeypatch.setattr("backend.queries.access.secrets.hashlib.scrypt", slow)
    with ThreadPoolExecutor(10) as threads:
        try:
            first = [threads.submit(secrets.is_password, "first", None) for _ in range(2)]
            eventually(lambda: len(checked) == 2, "two are checked")
            later = [threads.submit(secrets.is_password, "later", None) for _ in range(8)]
            eventually(lambda: secrets._waiting._value == 0, "the others wait")
            assert checked == ["first", "first"]
            with pytest.raises(PasswordsBusy):
                secrets.is_password("too many", None)
        finally:
            goes_on.set()
        assert [each.result() for each in [*first, *later]] == [False] * 10


def test_a_hash_has_the_cost_of_owasps_sheet() -> None:
    assert secrets.hash_password("correct horse battery").startswith("scrypt$32768$8$3$")


def test_where_there_is_no_password_as_much_is_done_as_where_there_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise the duration of a login would reveal which users exist."""
    kept = secrets.hash_password("correct horse battery")
    done: list[dict[str, object]] = []

    def noting(password: bytes, *, salt: bytes, **cost: object) -> bytes:
        done.append({"password": password, "salt": len(salt), **cost})
        return b""

    monkeypatch.setattr("backend.queries.access.secrets.hashlib.scrypt", noting)
    for hashed in (kept, None):
        assert not secrets.is_password("another", hashed)
    assert len(done) == 2 and done[0] == done[1]
