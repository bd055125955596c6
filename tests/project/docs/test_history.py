"""The page on history has every metric as the code declares it."""

from __future__ import annotations

import re

from backend.domain.history.metrics import METRICS
from backend.settings import PROJECT_ROOT, Settings

PAGE = (PROJECT_ROOT / "docs" / "history.md").read_text()


def test_every_metric_is_listed_with_unit_subject_and_aggregate() -> None:
    rows = re.findall(r"^\| `([a-z_.]+)` \| ([^|]+) \| (.+?) \| (mean|max|sum) \| [^|]+ \|$", PAGE, re.MULTILINE)
    listed = [(name, unit, subject.replace("`", ""), aggregate) for name, unit, subject, aggregate in rows]
    assert listed == [(each.name, each.unit, each.subject, str(each.aggregate)) for each in METRICS.values()]


def test_retentions_and_limits_are_those_of_the_settings() -> None:
    fields = Settings.model_fields
    minutes, hours = (fields[name].default for name in ("history_minute_hours", "history_hours"))
    assert f"| every minute | {minutes:g} hours | `TREELINE_HISTORY_MINUTE_HOURS` |" in PAGE
    assert f"| every ten minutes | {hours:g} hours ({hours / 24:g} days) | `TREELINE_HISTORY_HOURS` |" in PAGE
    assert f"`TREELINE_HISTORY_MOST_SERIES` ({fields['history_most_series'].default:,})" in PAGE
