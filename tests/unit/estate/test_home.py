"""The folder of a local estate: secrets that only the user can read, and files that `down --wipe` leaves alone."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from backend.estate.home import Home


@pytest.fixture
def home(tmp_path: Path) -> Home:
    made = Home(tmp_path / "home")
    made.make()
    return made


def test_a_secret_is_a_file_that_only_its_user_reads_and_stays_what_it_is(home: Home) -> None:
    secret = home.secret("admin-token")
    path = home.secret_path("admin-token")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert (home.secret("admin-token"), len(secret) >= 32) == (secret, True)
    assert home.secret("kafka-password") != secret


def test_wiping_takes_what_is_the_estates_and_nothing_beside_it(home: Home) -> None:
    home.secret("admin-token")
    home.data("unbalanced").mkdir(parents=True)
    (home.path / "notes.txt").write_text("mine")
    home.wipe()
    assert [each.name for each in home.path.iterdir()] == ["notes.txt"]
