"""Filters of lists: one word for each of their buttons, and no other actions among them."""

from __future__ import annotations

import re

import pytest

from backend.settings import PROJECT_ROOT

TEMPLATES = PROJECT_ROOT / "frontend" / "templates"
FORM = re.compile(r'<form class="(?:panel )?form row filter".*?</form>', re.DOTALL)
# These ask for one thing, not for fewer rows of a list.
ASKS = {"Find", "Trace record", "Compare"}
CHOICES = {"schemas.html"}
"""Pages whose form chooses the cluster that is shown: there is none without a choice."""
FORMS = [(path.name, form) for path in sorted(TEMPLATES.glob("*.html")) for form in FORM.findall(path.read_text())]
PAGED = ("audit.html", "timeline.html")


def test_pages_have_filters() -> None:
    assert len(FORMS) > 8


@pytest.mark.parametrize(("page", "form"), FORMS, ids=[name for name, _ in FORMS])
def test_a_filter_is_called_filter_and_holds_nothing_else(page: str, form: str) -> None:
    said = re.findall(r'<button[^>]* type="submit">([^<]*)<', form)
    assert len(said) == 1 and said[0] in {"Filter", *ASKS, *(("Show",) if page in CHOICES else ())}
    links = re.findall(r"<a [^>]*>([^<]*)</a>", form)
    assert set(links) <= {"Clear filter", "Swap positions"}, "actions of a page are right of its title"


@pytest.mark.parametrize("page", PAGED)
def test_lists_with_pages_scroll_with_the_page(page: str) -> None:
    assert '<div class="scroll"' in (text := (TEMPLATES / page).read_text()) and "scroll long" not in text
