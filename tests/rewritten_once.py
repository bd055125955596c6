"""Each process of a parallel run rewrites the assertions of its part of the test files and reads the other parts.

Every process collects every file. In a new checkout each would rewrite all of them at the same time, which takes
longer than what is left of the collection.
"""

from __future__ import annotations

import contextlib
import importlib
from pathlib import Path

import pytest

_ROOT = Path(__file__).parent.parent


@pytest.hookimpl(tryfirst=True)
def pytest_collection(session: pytest.Session) -> None:
    """Import this process's part first: what it rewrites is stored beside the files (PEP 3147)."""
    process: dict[str, object] | None = getattr(session.config, "workerinput", None)
    if process is None:
        return
    number, processes = int(str(process["workerid"]).removeprefix("gw")), int(str(process["workercount"]))
    for file in sorted((_ROOT / "tests").rglob("test_*.py"))[number::processes]:
        # Whoever collects the file reports what is wrong with it.
        with contextlib.suppress(Exception, pytest.skip.Exception):
            importlib.import_module(".".join(file.relative_to(_ROOT).with_suffix("").parts))
