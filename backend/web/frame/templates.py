"""Pages from templates: whole, or one named block of one, so that both always look the same."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any
from urllib.parse import quote

from fastapi.responses import HTMLResponse
from jinja2 import Environment, FileSystemLoader, StrictUndefined, nodes
from jinja2_fragments import render_block
from markupsafe import Markup

from backend.locations import FRONTEND
from backend.web.frame.rest_links import with_links
from backend.web.frame.static import address
from backend.web.frame.travel import Travel
from backend.web.words import figures
from backend.web.words.capitals import as_sentence
from backend.web.words.instants import when
from backend.web.words.long_names import wrapping

_AFTER_TITLE = " · Treeline"
# The macros of fields.html that take a label and a name.
_FIELDS = frozenset({"text", "area", "choice", "check", "moment"})


def _quoted(text: str) -> str:
    """Quote a text as one part of a path, or as the value of one parameter."""
    return quote(text, safe="")


_environment = Environment(
    loader=FileSystemLoader([FRONTEND / "templates", FRONTEND / "components"]),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
_environment.filters.update(
    compact=figures.compact,
    full=figures.full,
    counted=figures.counted,
    shortened=figures.shortened,
    unbroken=figures.unbroken,
    clock=figures.clock,
    when=when,
    quoted=_quoted,
    with_links=with_links,
    as_sentence=as_sentence,
)
_environment.globals.update(static=address, after_title=_AFTER_TITLE)


def page(template: str, context: Mapping[str, Any], status: int = 200) -> HTMLResponse:
    """Render a whole page."""
    text = wrapping(_environment.get_template(template).render(context))
    here = context.get("travel")
    return HTMLResponse(here.kept_by_links(text) if isinstance(here, Travel) else text, status)


def part(template: str, context: Mapping[str, Any]) -> Markup:
    """Render a part of pages that has a template of its own, once for all pages that show it."""
    return Markup(wrapping(_environment.get_template(template).render(context)))


def block(template: str, name: str, context: Mapping[str, Any]) -> str:
    """Render one named block of a page."""
    return wrapping(render_block(_environment, template, name, context))


@cache
def labels(template: str) -> Mapping[str, str]:
    """Return the labels of a form's fields by name, as in its template, so that error messages use them, too."""
    assert _environment.loader is not None
    source = _environment.loader.get_source(_environment, template)[0]
    found: dict[str, str] = {}
    for call in _environment.parse(source).find_all(nodes.Call):
        if isinstance(call.node, nodes.Name) and call.node.name in _FIELDS:
            label, name = call.args[:2]
            if isinstance(label, nodes.Const) and isinstance(name, nodes.Const):
                found.setdefault(name.value, label.value)
    return found


def titled_block(template: str, name: str, context: Mapping[str, Any]) -> str:
    """Render a block with the page's title before it: htmx sets that as the window's title."""
    title = block(template, "title", context)
    return f"<title>{title}{_AFTER_TITLE}</title>{block(template, name, context)}"
