"""References of clusters' properties: what is read where a client is made, and what never is."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from backend.domain.base.errors import AddressForbidden, ClusterUnreachable, PropertiesInvalid
from backend.domain.clusters.client_properties import LOCATION_KEYS
from backend.kafka.base.client_config import client_config
from backend.kafka.base.destinations import check_destinations
from backend.kafka.base.protocol_client import ProtocolClient
from backend.kafka.base.references import MOST_BYTES, MOST_CERTIFICATE_BYTES, check_references, resolve

HERE = "127.0.0.1:9"
TOKENS = "sasl.oauthbearer.token.endpoint.url"
SetTo = Callable[..., None]


@pytest.fixture
def folder(tmp_path: Path, set_to: SetTo) -> Path:
    """Return the only folder that is allowed for files of clusters."""
    folder = tmp_path / "allowed"
    folder.mkdir()
    set_to(secret_folders=[str(folder)], home=tmp_path / "home")
    return folder


def _password(reference: str, servers: str = HERE) -> str:
    return str(client_config(servers, {"sasl.password": reference})["sasl.password"])


def _naming(key: str, path: object) -> dict[str, str]:
    return {key: str(path) if key in LOCATION_KEYS else f"${{file:{path}}}"}


EVERY_PATH = pytest.mark.parametrize("key", [*sorted(LOCATION_KEYS), "sasl.password", "ssl.ca.pem"])


@pytest.mark.parametrize("key", ["client.id", "sasl.username", TOKENS])
def test_a_reference_within_a_value_is_not_read_even_if_it_was_recorded(key: str, monkeypatch) -> None:
    monkeypatch.setenv("OF_ANOTHER", "the-secret")
    assert resolve("x${env:OF_ANOTHER}") == "x${env:OF_ANOTHER}"
    assert resolve("${env:OF_ANOTHER}") == "the-secret"
    with pytest.raises(ClusterUnreachable, match="whole value") as refused:
        client_config(HERE, {key: "https://evil/${env:OF_ANOTHER}"})
    assert "the-secret" not in refused.value.detail


@EVERY_PATH
def test_files_of_clusters_are_regular_and_small(key: str, folder: Path) -> None:
    os.mkfifo(folder / "pipe")
    (folder / "folder").mkdir()
    most = MOST_CERTIFICATE_BYTES if key in LOCATION_KEYS else MOST_BYTES
    (folder / "large").write_text("x" * (most + 1))
    for name, says in {"pipe": "no regular file", "folder": "no regular file", "large": "more than"}.items():
        named = _naming(key, folder / name)
        # Refused by whoever asks first, and again where a client is made of what was recorded.
        with pytest.raises(PropertiesInvalid, match=says) as refused:
            check_references(named, HERE)
        assert refused.value.errors[0].pointer == f"/properties/{key}"
        with pytest.raises(ClusterUnreachable, match=says):
            client_config(HERE, named)
        with pytest.raises(ClusterUnreachable, match=says):
            ProtocolClient(HERE, named, 1.0)


@EVERY_PATH
@pytest.mark.parametrize("how", ["there", "not-there", "pipe", "link", "device", "relative"])
def test_outside_of_the_folders_the_answer_does_not_tell_what_is_there(
    key: str, how: str, folder: Path, tmp_path: Path
) -> None:
    (tmp_path / "there").write_text("s3")
    os.mkfifo(tmp_path / "pipe")
    (folder / "link").symlink_to(tmp_path / "there")
    paths = {
        "link": folder / "link",
        "device": Path("/dev/stdout"),
        "relative": f"{folder}/../there",
    }
    named = _naming(key, paths.get(how, tmp_path / how))
    for check in (check_references, lambda properties, servers: client_config(servers, properties)):
        with pytest.raises((PropertiesInvalid, ClusterUnreachable)) as refused:
            check(named, HERE)
        assert refused.value.detail.endswith(
            " is not allowed: it is in none of the folders for files of clusters (TREELINE_SECRET_FOLDERS)"
        )


def test_no_file_and_no_variable_is_allowed_before_settings_allow_it(
    tmp_path: Path, set_to: SetTo, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_to(secret_folders=[], secret_variables=[])
    (tmp_path / "secret").write_text("s3")
    monkeypatch.setenv("C6", "s3")
    for reference, setting in (
        (f"${{file:{tmp_path}/secret}}", "TREELINE_SECRET_FOLDERS"),
        ("${env:C6}", "TREELINE_SECRET_VARIABLES"),
        ("${env:NOT_SET}", "TREELINE_SECRET_VARIABLES"),
    ):
        with pytest.raises(ClusterUnreachable, match=setting):
            _password(reference)
        with pytest.raises(PropertiesInvalid, match=setting):
            check_references({"sasl.password": reference}, HERE)


def test_variables_are_those_that_a_pattern_allows_and_never_treeline_s(
    set_to: SetTo, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_to(secret_variables=["C6", "CLUSTER_*"])
    for name in ("C6", "CLUSTER_7", "C66", "XCLUSTER_7", "c6"):
        monkeypatch.setenv(name, "s3")
    assert _password("${env:C6}") == _password("${env:CLUSTER_7}") == "s3"
    for name in ("C66", "XCLUSTER_7", "c6"):
        with pytest.raises(ClusterUnreachable, match="TREELINE_SECRET_VARIABLES"):
            _password(f"${{env:{name}}}")
    set_to(secret_variables=["*"])
    with pytest.raises(ClusterUnreachable, match="Treeline's own"):
        _password("${env:TREELINE_ADMIN_TOKEN}")


def test_links_within_a_folder_are_followed_as_kubernetes_makes_them(folder: Path) -> None:
    (folder / "..2026").mkdir()
    (folder / "..2026" / "password").write_text("s3\n")
    (folder / "..data").symlink_to("..2026")
    (folder / "password").symlink_to("..data/password")
    assert _password(f"${{file:{folder}/password}}") == "s3"


def test_files_of_treeline_itself_and_of_the_system_are_never_read(tmp_path: Path, set_to: SetTo) -> None:
    (tmp_path / "home" / "secrets").mkdir(parents=True)
    for name in ("admin-token", "kafka-password"):
        (tmp_path / "home" / "secrets" / name).write_text(name)
    (tmp_path / "treeline.toml").write_text("admin_token = 's3'")
    (tmp_path / "link").symlink_to(tmp_path / "treeline.toml")
    set_to(home=tmp_path / "home", secret_folders=["/", str(tmp_path), str(tmp_path / "home")])
    own = ("home/secrets/admin-token", "home/secrets/kafka-password", "treeline.toml", "link")
    for path in (*(f"{tmp_path}/{name}" for name in own), "/proc/self/environ", "/dev/null", "/sys/kernel/notes"):
        with pytest.raises(ClusterUnreachable, match="TREELINE_SECRET_FOLDERS"):
            _password(f"${{file:{path}}}", "broker.example:9092")


def test_a_settings_file_that_the_environment_names_is_never_read(
    tmp_path: Path, set_to: SetTo, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "production.toml").write_text("admin_token = 's3'")
    monkeypatch.setenv("TREELINE_SETTINGS_FILE", str(tmp_path / "production.toml"))
    set_to(secret_folders=[str(tmp_path)])
    with pytest.raises(ClusterUnreachable, match="TREELINE_SECRET_FOLDERS"):
        _password(f"${{file:{tmp_path}/production.toml}}", "broker.example:9092")


def test_the_local_estate_s_password_goes_to_brokers_of_this_machine_only(tmp_path: Path, set_to: SetTo) -> None:
    (tmp_path / "secrets").mkdir()
    (tmp_path / "secrets" / "kafka-password").write_text("of the brokers")
    set_to(home=tmp_path)
    reference = f"${{file:{tmp_path}/secrets/kafka-password}}"
    assert _password(reference, "127.0.0.1:9,[::1]:9") == "of the brokers"
    for servers in ("broker.example:9092", "127.0.0.1:9,10.0.0.1:9", ""):
        with pytest.raises(ClusterUnreachable, match="TREELINE_SECRET_FOLDERS"):
            _password(reference, servers)
    with pytest.raises(ClusterUnreachable, match="TREELINE_SECRET_FOLDERS"):
        client_config(HERE, {"sasl.oauthbearer.client.secret": reference})


def test_contents_of_files_are_read_once_and_clients_see_no_path(folder: Path) -> None:
    pem = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"
    (folder / "ca").write_text(f"an authority\n{pem}{pem}")
    (folder / "none").write_text("root:x:0:0")
    config = client_config(HERE, {"ssl.ca.location": f"{folder}/ca"})
    assert config["ssl.ca.pem"] == 2 * pem
    assert not LOCATION_KEYS & config.keys()
    assert client_config(HERE, {"ssl.ca.location": "probe"})["ssl.ca.location"] == "probe"
    with pytest.raises(ClusterUnreachable, match="no certificate or key in PEM form") as refused:
        client_config(HERE, {"ssl.ca.location": f"{folder}/none"})
    assert "x:0:0" not in refused.value.detail


def test_references_of_the_process_s_owner_may_be_anywhere_and_are_regular_files(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "large").write_text("x" * (MOST_BYTES + 1))
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    (tmp_path / "secret").write_text("s3\n")
    assert resolve(f"${{file:{tmp_path}/secret}}") == "s3"
    for name, says in {"pipe": "regular", "large": "more than", "binary": "UTF-8", "": "regular"}.items():
        with pytest.raises(ClusterUnreachable, match=says):
            resolve(f"${{file:{tmp_path}/{name}}}")
    with pytest.raises(ClusterUnreachable, match="regular"):
        resolve("${file:/dev/zero}")


def test_client_secrets_go_to_token_endpoints_by_https_or_stay_on_this_machine(set_to: SetTo) -> None:
    check_destinations(HERE, {TOKENS: "https://127.0.0.1/token"})
    for address in ("http://127.0.0.1:1/token", "http://localhost/token", "http://127.0.0.1.example.org/"):
        with pytest.raises(AddressForbidden, match="https") as refused:
            check_destinations(HERE, {TOKENS: address})
        assert refused.value.errors[0].pointer == f"/properties/{TOKENS}"
    set_to(loopback_token_endpoints=True)
    check_destinations(HERE, {TOKENS: "http://127.0.0.1:1/token"})
    check_destinations(HERE, {TOKENS: "http://[::1]:1/token"})
    with pytest.raises(AddressForbidden, match="https"):
        check_destinations(HERE, {TOKENS: "http://127.0.0.1.example.org/"})
