"""Pictures of pages as files, small and as stable as possible."""

from __future__ import annotations

import base64
from pathlib import Path

from playwright.sync_api import Page

QUALITY = 45
"""WebP quality: a page of the console takes some 30 kB, and its text is sharp."""
HIGHEST = 900
"""Maximum height in pixels; the rest is cut off."""
DIFFERENT = 0.004
"""Share of pixels that must differ for a picture to be replaced: times of day always change."""
COMPARE = """async ([before, after]) => {
  const read = async (data) => {
    const image = await createImageBitmap(new Blob([Uint8Array.from(atob(data), (c) => c.charCodeAt(0))]));
    const canvas = new OffscreenCanvas(image.width, image.height).getContext("2d");
    canvas.drawImage(image, 0, 0);
    return canvas.getImageData(0, 0, image.width, image.height);
  };
  const [one, other] = [await read(before), await read(after)];
  if (one.width !== other.width || one.height !== other.height) return 1;
  let changed = 0;
  for (let at = 0; at < one.data.length; at += 4)
    if (Math.abs(one.data[at] - other.data[at]) + Math.abs(one.data[at + 1] - other.data[at + 1]) > 48)
      changed += 1;
  return changed / (one.data.length / 4);
}"""
"""Script for the share of pixels in which two pictures differ visibly."""


def keep(page: Page, path: Path) -> bool:
    """Write the page to a WebP file unless the existing picture looks the same; return whether it was written."""
    page.evaluate("document.fonts.ready.then(() => true)")
    size = page.evaluate("[document.documentElement.clientWidth, document.documentElement.scrollHeight]")
    session = page.context.new_cdp_session(page)
    wanted = {
        "format": "webp",
        "quality": QUALITY,
        "captureBeyondViewport": True,
        "clip": {"x": 0, "y": 0, "width": size[0], "height": min(size[1], HIGHEST), "scale": 1},
    }
    taken = session.send("Page.captureScreenshot", wanted)["data"]
    session.detach()
    if path.exists():
        before = base64.b64encode(path.read_bytes()).decode()
        if page.evaluate(COMPARE, [before, taken]) < DIFFERENT:
            return False
    path.write_bytes(base64.b64decode(taken))
    return True
