"""Real Chromium in front of a console that is served on a thread of this process."""

from __future__ import annotations

from tests.support.api.quick_passwords import quick_passwords
from tests.support.console.chromium import browser, open_page
from tests.support.console.fixtures import acme, console, database_content, owner, provider, sso

__all__ = [
    "acme",
    "browser",
    "console",
    "database_content",
    "open_page",
    "owner",
    "provider",
    "quick_passwords",
    "sso",
]
