"""The ASGI application: the schema registries, the REST API and the console's pages."""

from __future__ import annotations

import gc

from backend import logs, web
from backend.api.app import create_app
from backend.host_check import HostCheck
from backend.registry.app import with_registries

logs.configure()
api = create_app()
web.add_pages(api)
# The schema pages use the compatibility rules and the cached reads of the registries.
api.state.registries = with_registries(api, api.state.services)
app = HostCheck(api.state.registries, api.state.services.config)

# Everything allocated so far lives as long as the process. Freezing it spares the garbage collector a tenth of a
# second per full collection, a delay that would hit requests for large pages.
gc.collect()
gc.freeze()
gc.set_threshold(50_000, 20, 20)
