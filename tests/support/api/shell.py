"""Commands of `treeline` against a control plane that runs, in the test's own process."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import typer.testing
import yaml
from pydantic import SecretStr
from typer.testing import CliRunner, Result

from backend.cli import app
from backend.settings import settings
from tests.support.api.rest import SECRETS_KEY, TOKEN
from tests.support.console.consoles import serve_here

# Made once: building all commands of the program takes a tenth of a second, and a test runs a dozen of them.
typer.testing._get_command = cache(typer.testing._get_command)


class Shell:
    """Runs commands against one control plane."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / "declared.yaml"

    def __call__(self, *words: str) -> Result:
        return CliRunner().invoke(app, list(words))

    def json(self, *words: str) -> Any:
        result = self(*words, "--json")
        assert result.exit_code == 0, result.stderr
        return json.loads(result.stdout)

    def file(self, content: Any) -> str:
        self._file.write_text(content if isinstance(content, str) else yaml.safe_dump(content, sort_keys=False))
        return str(self._file)


@contextmanager
def shell_of(database_url: str, folder: Path, token: str = TOKEN) -> Iterator[Shell]:
    """Yield commands that find a control plane on this database, in a thread of this process, by environment."""
    with (
        serve_here(database_url, secrets_key=SecretStr(SECRETS_KEY)) as console,
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.delenv("COLUMNS", raising=False)  # set by pytest's parallel processes
        patch.setenv("TREELINE_URL", console.url)
        patch.setenv("TREELINE_TOKEN", token)
        settings.cache_clear()
        yield Shell(folder)
    settings.cache_clear()
