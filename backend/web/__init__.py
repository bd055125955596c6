"""The web console: one router per page, mounted by `backend.asgi`."""

from __future__ import annotations

from fastapi import APIRouter

from backend.web import static, tree_page


def routes() -> list[APIRouter]:
    """Every page's router."""
    return [static.router, tree_page.router]
