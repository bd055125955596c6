"""Names of the greatest length wrap in tables, and nothing else does."""

from __future__ import annotations

import pytest

from backend.web.long_names import LONGEST_WHOLE, wrapping

LONGEST = "g" * 249


@pytest.mark.parametrize(
    ("page", "wraps"),
    [
        (f"<table><tr><td>{LONGEST}</td></tr></table>", 1),
        (f"<table><tr><th><a href='/{LONGEST}'>x {LONGEST} y</a></th></tr></table>", 1),
        (f"<table><tr><td>{'a' * LONGEST_WHOLE} 2023-11-14 22:14:20</td></tr></table>", 0),
        (f"<p>{LONGEST}</p><table><tr><td title='{LONGEST}'>x</td></tr></table>", 0),
        (f"<table><tr><td><svg><title>{LONGEST}</title></svg><pre>{LONGEST}</pre></td></tr></table>", 0),
        (f'<table class="diff"><tr><td>{LONGEST}</td></tr></table>', 0),
        (f"<table><tr><td>{LONGEST}</td><td>{LONGEST}</td></tr></table>", 2),
    ],
)
def test_only_long_words_of_tables_wrap(page: str, wraps: int) -> None:
    marked = wrapping(page)
    assert marked.count('<span class="long">') == wraps
    assert marked.replace('<span class="long">', "").replace("</span>", "") == page
