"""How far each site's books go in a run, as the server saw it: a cloned home shows by name.

A site tells with every answer how many requests of the run its hosts saw, and the link of the last
one in its books. Two homes that were one cannot both go on: the second one tells a number that is
behind, or another link at a number that the first one told.

    standings.jsonl    {site, count, link}, a line per answer that told of something new
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, Final

from securefg.foundation.errors import ProtocolError, RunFolderError
from securefg.foundation.files import append_lines
from securefg.foundation.quoting import shown

FILE: Final = "standings.jsonl"
_LINK: Final = re.compile(r"[0-9a-f]{64}|")


class Standings:
    """The standings of all sites in one run, over all submissions. None keeps them in memory."""

    def __init__(self, folder: Path | None = None) -> None:
        self._path = None if folder is None else folder / FILE
        self._links: dict[str, dict[int, str]] = {}
        for line in self._read_lines():
            self._links.setdefault(line["site"], {})[line["count"]] = line["link"]

    def note(self, site: str, told: Any) -> None:
        """Keep a site's standing. Raise `ProtocolError` where its home is not the one before."""
        count, link = _parse_standing(site, told)
        links = self._links.setdefault(site, {})
        last = max(links, default=0)
        if count < last:
            raise ProtocolError(
                f"{site}: found books that end at request {count} of this run; expected {last} or "
                "more: its home was cloned or set back"
            )
        if links.get(count, link) != link:
            raise ProtocolError(
                f"{site}: found two different books at request {count} of this run; expected one: "
                "its home was cloned"
            )
        if count not in links:
            links[count] = link
            self._append_line({"site": site, "count": count, "link": link})

    def _append_line(self, line: dict[str, Any]) -> None:
        if self._path is not None:
            append_lines(self._path, [json.dumps(line)], sync=False)

    def _read_lines(self) -> list[dict[str, Any]]:
        if self._path is None or not self._path.exists():
            return []
        try:
            lines = [json.loads(x) for x in self._path.read_bytes().split(b"\n")[:-1]]
            for line in lines:
                _parse_standing(line["site"], [line["count"], line["link"]])
        except (ValueError, KeyError, TypeError, ProtocolError, RecursionError) as error:
            raise RunFolderError(
                f"{self._path}: found {shown(error)}; expected standings"
            ) from error
        return lines


def _parse_standing(site: str, raw_standing: Any) -> tuple[int, str]:
    if isinstance(raw_standing, list) and len(raw_standing) == 2:
        count, link = raw_standing
        is_number = type(count) is int and 0 <= count < 2**53
        if is_number and isinstance(link, str) and _LINK.fullmatch(link):
            return count, link
    raise ProtocolError(
        f"{site}: found the standing {shown(raw_standing)}; expected a number and a link"
    )
