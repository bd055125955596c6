"""Programs of an older PostgreSQL are found wherever a machine may have them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from backend.estate.programs.embedded import major_version, old_postgres_programs


def test_programs_in_the_search_path_are_found_by_their_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "of-homebrew" / "postgres"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\necho 'postgres (PostgreSQL) 9.4.1'\n")
    program.chmod(0o755)
    in_path = tmp_path / "bin"
    in_path.mkdir()
    (in_path / "postgres").symlink_to(program)
    assert old_postgres_programs(9) is None
    monkeypatch.setenv("PATH", f"{in_path}{os.pathsep}{os.environ['PATH']}")
    assert old_postgres_programs(9) == program.parent
    assert old_postgres_programs(8) is None


def test_a_folder_without_a_server_has_no_version(tmp_path: Path) -> None:
    assert major_version(tmp_path) is None
