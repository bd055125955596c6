"""Precedence of the sources of settings, and values that are refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import SecretStr, ValidationError

from backend.domain.base.errors import StateConflict
from backend.locations import SETTINGS_FILE_VARIABLE
from backend.queries.access.sealing import keys_of
from backend.settings import Settings


def test_the_environment_comes_before_the_file_and_flags_before_both(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "production.toml"
    file.write_text("verify_partitions = 3\noffsets_partitions = 5\n")
    monkeypatch.setenv(SETTINGS_FILE_VARIABLE, str(file))
    monkeypatch.setenv("TREELINE_OFFSETS_PARTITIONS", "6")
    found = Settings()
    assert (found.verify_partitions, found.offsets_partitions) == (3, 6)
    assert Settings(offsets_partitions=7).offsets_partitions == 7


def test_a_file_in_the_working_folder_is_read_unless_another_one_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "treeline.toml").write_text("verify_partitions = 3\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv(SETTINGS_FILE_VARIABLE, raising=False)
    assert Settings().verify_partitions == 3
    monkeypatch.setenv(SETTINGS_FILE_VARIABLE, str(tmp_path / "none.toml"))
    assert Settings().verify_partitions == Settings.model_fields["verify_partitions"].default


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("spark_heap_megabytes", "471"),
        ("offsets_partitions", "0"),
        ("webhook_attempts", "0"),
        ("webhook_allowed_networks", "10.0.0.0/40"),
        ("metrics_port", "70000"),
    ],
)
def test_what_cannot_work_is_refused_by_its_name(name: str, value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(f"TREELINE_{name.upper()}", value)
    with pytest.raises(ValidationError) as refused:
        Settings()
    assert [error["loc"] for error in refused.value.errors()] == [(name,)]


@pytest.mark.parametrize("keys", ["x" * 31, f"{'x' * 32},{'y' * 31}"])
def test_each_key_that_seals_has_32_characters_or_more(keys: str) -> None:
    with pytest.raises(StateConflict, match="32 characters or more"):
        keys_of(SecretStr(keys))
