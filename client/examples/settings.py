"""Settings of all examples, from the environment: TREELINE_URL, TREELINE_TOKEN, and names of tenant and others."""

from __future__ import annotations

import os
import sys


def here(**more: str | bool) -> dict[str, str | bool]:
    """Return a client's configuration; `more` has keys of librdkafka with underscores for dots."""
    return {
        "treeline.url": os.environ.get("TREELINE_URL", "http://127.0.0.1:8000"),
        "treeline.token": os.environ["TREELINE_TOKEN"],
        "treeline.tenant": os.environ.get("TREELINE_TENANT", "acme"),
        "treeline.instance": os.environ.get("TREELINE_INSTANCE", "retail"),
        "treeline.environment": os.environ.get("TREELINE_ENVIRONMENT", "prod"),
        **{key.replace("_", "."): value for key, value in more.items()},
    }


def words(usage: str | None, count: int) -> list[str]:
    """Return the command line's arguments; show the usage if their number is wrong."""
    if len(sys.argv) != count + 1:
        sys.exit(usage)
    return sys.argv[1:]
