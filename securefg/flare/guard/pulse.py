"""When the server last heard each site, by the server's own clock.

A sign of life is any message that the guard let in from a process of the site. FLARE's heartbeat
is the most frequent message: the site's name, the numbers of its jobs and FLARE's token, every
`INTERVAL_SECONDS`. No message is added for signs of life, and no time of a site's clock is read.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from typing import Final

INTERVAL_SECONDS: Final = 2
"""Seconds between two heartbeats of a site; FLARE itself sends one every 10 s."""
SILENT_SECONDS: Final = 10.0
"""Seconds without a sign of life after which a site counts as dead."""


class Pulse:
    """Keeps one time per site; several threads of the server's process write and read it.

    clock  seconds that never go back, such as `time.monotonic`
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._lock = clock, threading.Lock()
        self._heard: dict[str, float] = {}

    def hear_site(self, process: str, certificate: str) -> None:
        """Note a sign of life of a process, called `SITE` or `SITE.JOB`.

        The name in the sender's certificate must be the site's: nobody else shows that it lives.
        """
        site = process.partition(".")[0]
        if certificate == site:
            with self._lock:
                self._heard[site] = self._clock()

    def measure_silence(self, sites: Iterable[str]) -> dict[str, float | None]:
        """Return the seconds since each site was last heard, or None if the site never was."""
        with self._lock:
            heard, now = dict(self._heard), self._clock()
        return {site: now - heard[site] if site in heard else None for site in sites}
