"""A decoder process that never says that it is ready."""

from __future__ import annotations

import time

if __name__ == "__main__":
    time.sleep(600)
