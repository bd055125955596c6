"""Which control plane the CLI speaks to, and with which secrets: given by settings, else the local estate's."""

from __future__ import annotations

import typer

from backend.settings import settings


def control_plane() -> tuple[str, str]:
    """(url, token). Exits with 2 and a sentence if there is none."""
    config = settings()
    if config.url is not None:
        if config.token is None:
            raise _refused("TREELINE_URL is set but TREELINE_TOKEN is not; set it to a bearer token.")
        return config.url, config.token.get_secret_value()
    from backend.estate.home import Home
    from backend.estate.running import is_running, read_layout

    home = Home(config.home)
    if not is_running(home):
        raise _refused(
            f"No estate runs in {config.home}. Run `treeline up`, or set TREELINE_URL and TREELINE_TOKEN."
        )
    return read_layout(home)["url"], home.secret("admin-token")


def kafka_secret(cluster: str, key: str) -> str:
    """A secret that the API masks, as a reference that Kafka clients resolve."""
    config = settings()
    if config.kafka_password is not None:
        return config.kafka_password.get_secret_value()
    from backend.estate.home import Home
    from backend.estate.running import is_running, read_layout

    home = Home(config.home)
    if config.url is not None and not (is_running(home) and read_layout(home)["url"] == config.url):
        raise _refused(f"{cluster} needs {key}: set TREELINE_KAFKA_PASSWORD.")
    return f"${{file:{home.secret_path('kafka-password')}}}"


def _refused(sentence: str) -> typer.Exit:
    typer.echo(sentence, err=True)
    return typer.Exit(2)
