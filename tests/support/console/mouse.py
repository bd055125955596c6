"""A mouse before the console that counts its clicks, and remembers where they led."""

from __future__ import annotations

from playwright.sync_api import Locator, Page, expect

from tests.eventually import GIVE_UP_SECONDS
from tests.support.console.consoles import Console

PATIENT = 1000 * GIVE_UP_SECONDS


class Mouse:
    """A mouse on the first page.

    A click on something visible counts, and so does a choice in a list. Typing does not, but a field without the
    focus has to be clicked first.
    """

    def __init__(self, page: Page, console: Console) -> None:
        self.page = page
        self.clicks = 0
        self.way: list[str] = []
        """What was clicked, chosen and typed, in words."""
        page.set_default_timeout(PATIENT)
        self._first = f"{console.url}/"
        self.start()

    def start(self) -> None:
        """Begin a task: on the first page, without clicks."""
        self.page.goto(self._first)
        self.count_from_here()

    def count_from_here(self) -> None:
        """Begin a task where the last one has ended."""
        self.clicks, self.way = 0, []

    def click(self, what: Locator, words: str) -> None:
        """Click something, whose words say what it is."""
        expect(what).to_be_visible(timeout=PATIENT)
        what.click()
        self.clicks += 1
        self.way.append(words)

    def open(self, name: str) -> None:
        """Click a page in the side bar."""
        self.click(self.page.locator("#side-bar").get_by_role("link", name=name, exact=True), f"**{name}**")

    def link(self, name: str) -> None:
        """Click a link in the content."""
        self.click(self.page.get_by_role("main").get_by_role("link", name=name, exact=True), f"**{name}**")

    def button(self, name: str) -> None:
        """Click a button in the content."""
        self.click(self.page.get_by_role("main").get_by_role("button", name=name, exact=True), f"**{name}**")

    def choose(self, label: str, value: str) -> None:
        """Choose a value of a list, which counts as one click."""
        self.page.get_by_label(label, exact=True).select_option(value)
        self.clicks += 1
        self.way.append(f"choose **{label}**")

    def type(self, label: str, text: str, words: str, *, enter: bool = False) -> None:
        """Type into a field, whose words say what is typed; then press Enter, if wanted."""
        field = self.page.get_by_label(label, exact=True)
        expect(field).to_be_visible(timeout=PATIENT)
        self.page.wait_for_load_state()  # only then the field that the page chooses has the focus
        if not field.evaluate("each => each === document.activeElement"):
            field.click()
            self.clicks += 1
            self.way.append(f"the field **{label}**")
        self.page.keyboard.press("Control+a")
        self.page.keyboard.type(text)
        if enter:
            self.page.keyboard.press("Enter")
        self.way.append(f"*type {words}{' and Enter' if enter else ''}*")
