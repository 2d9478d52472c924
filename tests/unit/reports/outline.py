"""A page read as a browser would: that its tags nest, and what is in it."""

from __future__ import annotations

import re
from html.parser import HTMLParser

VOID = {"meta", "br", "hr", "img", "input", "link"}


class Outline(HTMLParser):
    """Checks that tags nest, and collects ids, links, words and headings."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.addresses: list[str] = []
        self.headings: list[int] = []
        self.images: list[str | None] = []
        self.words = ""
        self.feed(page)
        assert not self.open, f"left open: {self.open}"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in VOID:
            self.open.append(tag)
        self._note(tag, dict(attrs))

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._note(tag, dict(attrs))

    def _note(self, tag: str, given: dict[str, str | None]) -> None:
        self.ids += [given["id"] or ""] if "id" in given else []
        self.addresses += [given[k] or "" for k in ("href", "src") if k in given]
        self.headings += [int(tag[1])] if re.fullmatch(r"h[1-6]", tag) else []
        self.images += [given.get("aria-label")] if given.get("role") == "img" else []

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if not self.open or self.open[-1] not in ("style", "script"):
            self.words += data
