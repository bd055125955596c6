"""The ASGI application: the REST API, the console's pages, and before both the schema registries."""

from __future__ import annotations

import gc

from backend import logs, web
from backend.api.app import create_app
from backend.front import Front
from backend.registry.app import with_registries

logs.configure()
api = create_app()
web.add_pages(api)
# Pages of schemas read what the registries have read, and show it by the registries' rules.
api.state.registries = with_registries(api, api.state.services)
app = Front(api.state.registries, api.state.services.config)

# What is there now stays as long as the process does. To look through it for cycles, again and again, takes a
# tenth of a second each time, for which whoever asks for a large page waits.
gc.collect()
gc.freeze()
gc.set_threshold(50_000, 20, 20)
