"""The ASGI application: the REST API and the console's pages."""

from __future__ import annotations

from backend import logs, web
from backend.api.app import create_app

logs.configure()
app = create_app()
for router in web.routes():
    app.include_router(router)
