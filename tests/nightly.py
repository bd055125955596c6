"""Parametrised tests of which `make test` runs some cases, and `make nightly` the others."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

import pytest

_PARAM = type(pytest.param())


def some_now(names: str, cases: Iterable[Any], *, now: Collection[int], **options: Any) -> pytest.MarkDecorator:
    """Parametrise a test as `pytest.mark.parametrize` does; cases at other places than `now` are nightly.

    A `pytest.param` has marks of its own and keeps them.
    """
    several = len(names.split(",")) > 1
    marked = [
        case
        if place in now or isinstance(case, _PARAM)
        else pytest.param(*(case if several else (case,)), marks=pytest.mark.nightly)
        for place, case in enumerate(cases)
    ]
    return pytest.mark.parametrize(names, marked, **options)
