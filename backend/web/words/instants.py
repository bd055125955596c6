"""Times on pages: text in UTC, which `times.js` replaces by the viewer's own time, or by how long ago it was."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime

from markupsafe import Markup

from backend.web.words.figures import NOTHING, clock, day, instant


def _iso(moment: datetime) -> str:
    return moment.replace(tzinfo=None).isoformat(" ", "seconds")


def _milliseconds(moment: datetime) -> str:
    return moment.replace(tzinfo=None).isoformat(" ", "milliseconds")


_FORMS: Mapping[str, Callable[[datetime], str]] = {
    "instant": instant,
    "iso": _iso,
    "ms": _milliseconds,
    "clock": clock,
    "day": day,
}
_TIME = Markup('<time datetime="{}" data-time="{}"{}>{}</time>')
_EXACT = Markup(" data-exact")


def when(
    value: datetime | int | None, form: str = "instant", *, exact: bool = False, zone: bool = False
) -> Markup:
    """Return an instant as HTML; integers are Kafka's milliseconds, of which records may have any value.

    `form`: `instant` (day and time), `iso` (the same as `2026-11-28 14:02:03`), `ms` (to the millisecond), `clock`
    (below a heading with the day) or `day`. `exact`: never "3 min ago", for logs and sentences. `zone`: the text
    names UTC, since no heading does.
    """
    found = _of_kafka(value) if isinstance(value, int) else value
    if found is None:
        return Markup(NOTHING)
    moment = found.astimezone(UTC)
    text = _FORMS[form](moment)
    iso = moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return _TIME.format(iso, form, _EXACT if exact else "", f"{text} UTC" if zone else text)


def _of_kafka(milliseconds: int) -> datetime | None:
    try:
        return datetime.fromtimestamp(milliseconds / 1000, UTC) if milliseconds >= 0 else None
    except (ValueError, OverflowError, OSError):
        return None
