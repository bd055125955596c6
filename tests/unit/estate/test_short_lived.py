"""Folder of temporary test files: in memory if there is room, and deleted completely."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.support.machine.short_lived import MEMORY, short_lived

ALL_THAT_THERE_IS = 1 << 62


def test_a_folder_in_memory_goes_away(tmp_path: Path) -> None:
    memory, usual = tmp_path / "memory", tmp_path / "usual"
    memory.mkdir()
    with short_lived(usual, memory, 0) as folder:
        assert folder.parent == memory
        (folder / "data").write_text("x")
    assert list(memory.iterdir()) == []


@pytest.mark.parametrize(("memory", "room"), [(MEMORY, ALL_THAT_THERE_IS), (Path("/nowhere"), 0)])
def test_without_room_it_is_the_usual_one(tmp_path: Path, memory: Path, room: int) -> None:
    with short_lived(tmp_path, memory, room) as folder:
        assert folder == tmp_path


def test_what_a_killed_run_has_left_goes_away_and_what_another_one_uses_stays(tmp_path: Path) -> None:
    never = int(Path("/proc/sys/kernel/pid_max").read_text()) + 1
    killed, running = tmp_path / f"treeline-tests-{never}-a", tmp_path / f"treeline-tests-{os.getpid()}-b"
    others = tmp_path / "something else"
    for each in (killed, running, others):
        each.mkdir()
    with short_lived(tmp_path, tmp_path, 0):
        assert not killed.exists() and running.exists() and others.exists()
