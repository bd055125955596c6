"""The web console: one router per page, mounted by `backend.asgi`."""

from __future__ import annotations

from fastapi import APIRouter

from backend.web import account_page, login_page, static, tree_page, users_page


def routes() -> list[APIRouter]:
    """Every page's router."""
    return [page.router for page in (static, login_page, tree_page, users_page, account_page)]
