"""Sites at work are waited for, silent ones are not, and one that comes back is asked again."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pytest

from securefg.flare import courier as courier_module
from securefg.flare.courier import Courier, Silent
from securefg.site.certificates import Root, Signer
from securefg.site.packets import REPLY, Opened, Packet, read_route, seal_packet
from tests.unit.flare.federation_world import certificates


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        courier_module, "PING_SECONDS", 10
    )  # a ping that is answered takes none of it
    monkeypatch.setattr(courier_module, "LOOK_SECONDS", 0.02)


def made(
    send: Callable[[str, Packet, float], Packet | None],
    ping: Callable[[str, float], bool],
    timeout: float = 60.0,
    patience: float = 1.0,
) -> Courier:
    server = Signer.load(certificates() / "localhost" / "startup")
    root = Root.load(certificates() / "localhost" / "startup")
    return Courier("job", ["site-1", "site-2"], server, root, send, ping, timeout, patience)


def reply(site: str, packet: Packet) -> Packet:
    signer = Signer.load(certificates() / site / "startup")
    return seal_packet(signer, REPLY, read_route(packet).back(), {"from": site})


def ask(courier: Courier) -> dict[str, Opened | Silent]:
    return courier.exchange({site: ({"do": "x"}, b"") for site in ("site-1", "site-2")})


def test_a_site_at_work_is_waited_for_past_the_patience() -> None:
    def send(site: str, packet: Packet, timeout: float) -> Packet:
        time.sleep(1.6 if site == "site-2" else 0)
        return reply(site, packet)

    answers = ask(made(send, lambda site, _: True))
    assert all(isinstance(answer, Opened) for answer in answers.values())


def test_a_site_at_work_is_not_waited_for_past_the_timeout() -> None:
    over = threading.Event()

    def send(site: str, packet: Packet, timeout: float) -> Packet:
        if site == "site-2":
            over.wait(60)
        return reply(site, packet)

    answers = ask(made(send, lambda site, _: True, timeout=2))
    over.set()
    assert answers["site-2"] == Silent("no answer within 2 s")
    assert isinstance(answers["site-1"], Opened)


def test_a_silent_site_is_given_up_after_the_patience_though_pings_hang() -> None:
    gone, over = threading.Event(), threading.Event()

    def send(site: str, packet: Packet, timeout: float) -> Packet:
        if site == "site-2":
            gone.set()
            over.wait(60)
        return reply(site, packet)

    def ping(site: str, seconds: float) -> bool:
        if site == "site-2" and gone.is_set():
            over.wait(60)  # FLARE waits longer than it was told
            return False
        return True

    answers = ask(made(send, ping, timeout=30))
    over.set()
    assert answers["site-2"] == Silent("silent for 1 s")


def test_a_site_that_was_given_up_is_sent_nothing_until_it_gives_a_sign() -> None:
    sent: list[str] = []
    alive = {"site-1", "site-2"}

    def send(site: str, packet: Packet, timeout: float) -> Packet | None:
        sent.append(site)
        return reply(site, packet) if site in alive else None

    courier = made(send, lambda site, _: site in alive)
    ask(courier)
    alive.discard("site-2")
    assert ask(courier)["site-2"] == Silent("not reached, or gone")
    sent.clear()
    assert ask(courier)["site-2"] == Silent("gave no sign of life")
    assert sent == ["site-1"]
    alive.add("site-2")
    assert isinstance(ask(courier)["site-2"], Opened)


def test_large_payloads_earn_more_patience_and_late_pings_count(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Pings that wait behind a large payload come late: the sites are at work, not gone."""
    monkeypatch.setattr(courier_module, "LEAST_BYTES_PER_SECOND", 10)

    def send(site: str, packet: Packet, timeout: float) -> Packet:
        time.sleep(2.2)
        return reply(site, packet)

    def ping(site: str, seconds: float) -> bool:
        time.sleep(1.3)  # longer than the patience for small payloads
        return seconds > 1.3

    large = made(send, ping)
    large._away.clear()
    answers = large.exchange({site: ({"do": "x"}, bytes(500)) for site in ("site-1", "site-2")})
    assert all(isinstance(answer, Opened) for answer in answers.values())
    small = made(send, ping)
    small._away.clear()
    assert all(isinstance(answer, Silent) for answer in ask(small).values())
