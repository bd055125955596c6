"""The ASGI application: the REST API, the console's pages, and before both the schema registries."""

from __future__ import annotations

from backend import logs, web
from backend.api.app import create_app
from backend.registry.app import with_registries

logs.configure()
api = create_app()
api.router.routes.extend(web.routes())
app = with_registries(api, api.state.services)
# Pages of schemas read what the registries have read, and show it by the registries' rules.
api.state.registries = app
