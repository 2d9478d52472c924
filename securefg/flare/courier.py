"""The server's side of one exchange with all sites at once.

A site that is at work answers pings, so it may take until the timeout; a site that was killed,
hangs or is cut off answers none, and is given up after a few seconds of silence. One that was given
up is asked for a sign of life before it is sent anything again.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from securefg.foundation.errors import ProtocolError
from securefg.protocol.codec import Body
from securefg.site.certificates import Root, Signer
from securefg.site.packets import (
    REPLY,
    REQUEST,
    Opened,
    Packet,
    Route,
    open_packet,
    seal_packet,
)

Send = Callable[[str, Packet, float], Packet | None]
"""Carry a packet to a site and wait so many seconds for its reply; None where none came."""

Ping = Callable[[str, float], bool]
"""Whether a site gave a sign of life within so many seconds."""

Tell = Callable[[dict[str, str]], None]
"""Hear which sites are away, and why, whenever that changes."""

PING_SECONDS = 2.0
LOOK_SECONDS = 0.5
LEAST_BYTES_PER_SECOND = 20e6


@dataclass(frozen=True)
class Silent:
    """A site that gave no answer, and why."""

    reason: str


@dataclass
class _Exchange:
    """A request on its way; its thread leaves the reply here."""

    route: Route
    reply: Packet | None = None
    done: threading.Event = field(default_factory=threading.Event)


class _Look:
    """A ping on its way, in a thread of its own: FLARE's waiting is longer than it says."""

    def __init__(self, ping: Ping, site: str, seconds: float) -> None:
        self._answered, self._over = threading.Event(), threading.Event()

        def look() -> None:
            try:
                if ping(site, seconds):
                    self._answered.set()
            finally:
                self._over.set()

        _start_thread(look)

    def heard(self, seconds: float) -> bool:
        if seconds > 0 and not self._answered.is_set():
            self._over.wait(seconds)
        return self._answered.is_set()


class Courier:
    """Signs, sends and checks; keeps the count of exchanges with every site.

    timeout   seconds that a site may be at work on one request
    patience  seconds without a sign of life after which a site is given up; more for large payloads
    """

    def __init__(
        self,
        job: str,
        sites: Iterable[str],
        signer: Signer,
        root: Root,
        send: Send,
        ping: Ping,
        timeout: float,
        patience: float,
        tell: Tell = lambda away: None,
    ) -> None:
        self._job, self._signer, self._root = job, signer, root
        self._send, self._ping = send, ping
        self._timeout, self._patience = timeout, patience
        self._number = 0
        self._away = set(sites)  # nobody has been heard yet
        self._tell, self._reasons = tell, dict[str, str]()

    def exchange(
        self, requests: Mapping[str, tuple[dict[str, Any], Body]]
    ) -> dict[str, Opened | Silent]:
        """One request to every site named, all at the same time."""
        self._number += 1
        back = self._sites_back(set(requests) & self._away)
        under_way = {
            site: self._start(site, content, blob)
            for site, (content, blob) in requests.items()
            if site not in self._away or site in back
        }
        self._welcome_back(back)
        # A ping waits in line behind the payloads of all sites: large ones earn more patience.
        load = sum(len(blob) for _, blob in requests.values())
        patience = self._patience + load / LEAST_BYTES_PER_SECOND
        return {
            site: self._await_reply(site, under_way[site], patience)
            if site in under_way
            else Silent("gave no sign of life")
            for site in requests
        }

    def _sites_back(self, sites: set[str]) -> set[str]:
        """Which of these give a sign of life within a few seconds; FLARE may take longer."""
        looks = {site: _Look(self._ping, site, PING_SECONDS) for site in sites}
        end = time.monotonic() + PING_SECONDS
        return {site for site, look in looks.items() if look.heard(end - time.monotonic())}

    def _start(self, site: str, content: dict[str, Any], blob: Body) -> _Exchange:
        exchange = _Exchange(Route(self._job, self._signer.name, site, self._number))

        def carry() -> None:
            packet = seal_packet(self._signer, REQUEST, exchange.route, content, blob)
            try:
                exchange.reply = self._send(site, packet, self._timeout)
            finally:
                exchange.done.set()

        _start_thread(carry)
        return exchange

    def _await_reply(self, site: str, exchange: _Exchange, patience: float) -> Opened | Silent:
        began = heard = time.monotonic()
        looks: list[tuple[float, _Look]] = []
        while not exchange.done.wait(LOOK_SECONDS):
            now = time.monotonic()
            # A ping that was answered late is a sign of life too, so several are under way.
            if any(look.heard(0) for _, look in looks):
                heard, looks = now, []
            elif not looks or now - looks[-1][0] > PING_SECONDS:
                looks.append((now, _Look(self._ping, site, patience)))
            if now - heard > patience:
                return self._give_up(site, f"silent for {round(patience, 1):g} s")
            if now - began > self._timeout:
                return self._give_up(site, f"no answer within {self._timeout:g} s")
        if exchange.reply is None:
            return self._give_up(site, "not reached, or gone")
        try:
            return open_packet(self._root, REPLY, exchange.route.back(), exchange.reply)
        except ProtocolError as error:
            return self._give_up(site, str(error))

    def _give_up(self, site: str, reason: str) -> Silent:
        self._away.add(site)
        self._reasons[site] = reason
        self._tell(dict(self._reasons))
        return Silent(reason)

    def _welcome_back(self, back: set[str]) -> None:
        self._away -= back
        known = back & self._reasons.keys()
        for site in known:
            del self._reasons[site]
        if known:
            self._tell(dict(self._reasons))


def _start_thread(work: Callable[..., None], *arguments: Any) -> threading.Thread:
    # Daemons: a thread that still waits for a site that is gone must not keep the job alive.
    thread = threading.Thread(target=work, args=arguments, daemon=True)
    thread.start()
    return thread
