"""Contrast of every text on every surface that it appears on (WCAG 2.1, 1.4.3: 4.5)."""

from __future__ import annotations

import re

import pytest

from backend.settings import PROJECT_ROOT

STYLES = PROJECT_ROOT / "frontend" / "static"
COLOURS = {
    name: (light, dark)
    for name, light, dark in re.findall(
        r"--([\w-]+): light-dark\((#\w{6}), (#\w{6})\);", (STYLES / "console.css").read_text()
    )
}
LEVELS = [f"level-{n}" for n in range(1, 7)]
PAIRS = [
    *((text, ground) for text in ("ink", "soft-ink", "accent") for ground in ("ground", "surface", "raised")),
    *((text, "surface") for text in ("good", "warn", "bad", *LEVELS)),
    *((text, "raised") for text in ("warn", "bad", "level-2", "level-3")),
    *((text, "bad-ground") for text in ("ink", "soft-ink", "bad", "accent")),
    ("bad", "ground"),
    *((text, ground) for text in ("ink", "soft-ink") for ground in ("note-ground", "past-ground")),
    ("good", "note-ground"),
]
# Level on its own tint: (colour, share of it in the surface); inner nodes and bands.
TINTS = [(level, level, share) for level in LEVELS for share in (0.07, 0.10)] + [
    (text, level, 0.07) for text in ("ink", "soft-ink", "warn", "bad") for level in LEVELS
]
# Records in the player of drills.
TINTS.append(("ink", "level-5", 0.24))
# Bytes between zones.
TINTS.append(("ink", "level-5", 0.31))


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
def test_texts_can_be_read(theme: int) -> None:
    assert len(COLOURS) >= 20
    found = {(text, ground): contrast(COLOURS[text][theme], COLOURS[ground][theme]) for text, ground in PAIRS}
    for text, tint, share in TINTS:
        ground = mixed(COLOURS[tint][theme], COLOURS["surface"][theme], share)
        found[text, f"{share} of {tint}"] = contrast(COLOURS[text][theme], ground)
    assert {pair: round(value, 2) for pair, value in found.items() if value < 4.5} == {}


@pytest.mark.parametrize("file", sorted(STYLES.glob("*.css")), ids=lambda file: file.name)
def test_colours_have_names(file) -> None:
    """A colour outside of the list would escape the test above."""
    rules = re.sub(r"light-dark\([^)]*\)|/\*.*?\*/", "", file.read_text(), flags=re.S)
    assert re.findall(r":[^;{}]*(#[0-9a-fA-F]{3,8}\b|\brgba?\(|\bhsla?\()", rules) == []


def contrast(one: str, other: str) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def luminance(colour: str) -> float:
    linear = [
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4
        for part in (value / 255 for value in channels(colour))
    ]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def mixed(colour: str, ground: str, share: float) -> str:
    parts = (a * share + b * (1 - share) for a, b in zip(channels(colour), channels(ground), strict=True))
    return "#" + "".join(f"{round(part):02x}" for part in parts)


def channels(colour: str) -> list[int]:
    return [int(colour[n : n + 2], 16) for n in (1, 3, 5)]
