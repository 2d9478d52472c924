"""Who says what is proven: requests, replies and masking keys, each by its party's certificate."""

from __future__ import annotations

import dataclasses
import datetime
import json
import shutil
from contextlib import suppress
from pathlib import Path

import pytest

from securefg.flare.kits import Plan, provision_kits
from securefg.foundation.errors import ProtocolError, RunFailed
from securefg.protocol.codec import Clients
from securefg.secagg.keys import Identity
from securefg.site.certificates import BadCertificate, NotSigned, Root, Signer
from securefg.site.packets import REPLY, REQUEST, Packet, Route, open_packet, seal_packet
from tests.small import config
from tests.unit.flare.federation_world import Deliver, World, certificates

MASKED = ("privacy.secure_aggregation={min_holders: 1}", "training.rounds=1")
PING = {"do": "close", "to": "site-1", "hosts": [], "lengths": [0]}


def signer(party: str) -> Signer:
    return Signer.load(certificates() / party / "startup")


def root() -> Root:
    return Root.load(certificates() / "site-1" / "startup")


@pytest.fixture(scope="module")
def foreign(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Another federation, with parties of the same names."""
    folder = tmp_path_factory.mktemp("foreign") / "kits"
    sites = {"site-1": {"client-0": Clients(((0, 1),))}}
    return provision_kits(folder, Plan("localhost", 1, sites)).path


ROUTE = Route("job", "localhost", "site-1", 7)


def test_a_packet_opens_for_its_own_exchange_only() -> None:
    packet = seal_packet(signer("localhost"), REQUEST, ROUTE, {"do": "x"}, b"blob")
    assert open_packet(root(), REQUEST, ROUTE, packet).blob == b"blob"
    for other in (
        dataclasses.replace(ROUTE, job="another"),
        dataclasses.replace(ROUTE, receiver="site-2"),
        dataclasses.replace(ROUTE, number=8),
    ):
        with pytest.raises(ProtocolError, match="for another exchange"):
            open_packet(root(), REQUEST, other, packet)
    with pytest.raises(NotSigned):
        open_packet(root(), REPLY, ROUTE, packet)


def test_a_changed_blob_or_header_is_seen() -> None:
    packet = seal_packet(signer("localhost"), REQUEST, ROUTE, {"do": "x"}, b"blob")
    with pytest.raises(NotSigned):
        open_packet(root(), REQUEST, ROUTE, dataclasses.replace(packet, blob=b"bl0b"))
    header = packet.header.replace(b'"x"', b'"y"')
    with pytest.raises(NotSigned):
        open_packet(root(), REQUEST, ROUTE, dataclasses.replace(packet, header=header))


def test_a_site_cannot_ask_as_the_server() -> None:
    forged = seal_packet(signer("site-2"), REQUEST, ROUTE, {"do": "x"})
    with pytest.raises(BadCertificate, match="the certificate shown is site-2's"):
        open_packet(root(), REQUEST, ROUTE, forged)
    borrowed = dataclasses.replace(forged, certificate=signer("localhost").certificate)
    with pytest.raises(NotSigned, match="not localhost's"):
        open_packet(root(), REQUEST, ROUTE, borrowed)


def test_a_server_of_another_federation_is_a_stranger(foreign: Path) -> None:
    theirs = Signer.load(foreign / "localhost" / "startup")
    packet = seal_packet(theirs, REQUEST, ROUTE, {"do": "x"})
    with pytest.raises(BadCertificate, match="of another federation"):
        open_packet(root(), REQUEST, ROUTE, packet)


def test_a_certificate_that_ran_out_is_refused() -> None:
    late = datetime.datetime.now(datetime.UTC) + datetime.timedelta(days=3650)
    word = signer("site-1")
    signature = word.sign("purpose", 1)
    root().check("site-1", word.certificate, signature, "purpose", 1)
    with pytest.raises(BadCertificate, match="not now"):
        root().check("site-1", word.certificate, signature, "purpose", 1, now=late)


def test_a_sites_answers_in_anothers_name_count_as_none(tmp_path: Path) -> None:
    """Site 2 answers what site 1 was asked: site 1 is a drop-out, and site 2's bytes go nowhere."""
    quick = ("engine.patience=3", "engine.start_within=60", "training.rounds=1")
    world = World(tmp_path, config(tmp_path, *quick))

    def swap(site: str, packet: Packet, deliver: Deliver) -> Packet | None:
        if site == "site-1" and json.loads(packet.header)["content"]["do"] == "answer":
            reply = deliver(site, packet)
            assert reply is not None
            content = json.loads(reply.header)["content"]
            route = Route("job", "site-1", "localhost", json.loads(reply.header)["number"])
            return seal_packet(signer("site-2"), REPLY, route, content, reply.blob)
        return deliver(site, packet)

    world.between = swap
    assert world.run().metrics()[-1]["dropped"] == 1


def test_requests_that_come_again_or_to_the_wrong_site_get_no_answer(tmp_path: Path) -> None:
    world = World(tmp_path, config(tmp_path, "training.rounds=1"))
    seen: list[Packet] = []

    def record(site: str, packet: Packet, deliver: Deliver) -> Packet | None:
        if site == "site-1" and json.loads(packet.header)["content"]["do"] == "answer":
            seen.append(packet)
        return deliver(site, packet)

    world.between = record
    world.run()
    booked = {site: world.left(site) for site in ("site-1", "site-2")}
    assert world.hand_over("site-1", seen[0]) is None
    assert world.hand_over("site-2", seen[0]) is None
    reasons = [reason for _, reason in world.refusals]
    assert "came after request" in reasons[0]
    assert "for another exchange" in reasons[1]
    assert {site: world.left(site) for site in ("site-1", "site-2")} == booked


def test_a_message_to_another_host_inside_a_good_packet_is_a_breach(tmp_path: Path) -> None:
    """FLARE once sent one client's data to all: the envelope's own receiver is checked too."""
    world = World(tmp_path, config(tmp_path, "training.rounds=1"))
    server = signer("localhost")
    first: dict[str, bytes] = {}

    def misdeliver(site: str, packet: Packet, deliver: Deliver) -> Packet | None:
        header = json.loads(packet.header)
        if header["content"]["do"] == "answer":
            blob = first.setdefault("blob", packet.blob)
            content = {**header["content"], "lengths": [len(blob)]}
            packet = seal_packet(
                server, REQUEST, Route("job", "localhost", site, header["number"]), content, blob
            )
        return deliver(site, packet)

    world.between = misdeliver
    folder = world.run()
    assert folder.metrics()[-1]["dropped"] == 2
    ended = json.loads((folder.path / "private" / "outcome.json").read_text())
    assert len(ended["complaints"]) == 2
    assert all("a message to 'client-" in world.noted(s)[-1]["reason"] for s in ended["complaints"])


def swap_key(path: Path, site: str) -> None:
    entries = json.loads(path.read_text())
    entry = next(e for e in entries if e["site"] == site)
    entry["keys"][0] = Identity.fresh().public.hex()
    path.write_text(json.dumps(entries))


def test_a_swapped_masking_key_in_a_kit_is_caught_before_anything_leaves(tmp_path: Path) -> None:
    world = World(tmp_path, config(tmp_path, *MASKED))
    swap_key(world.roster("site-3"), "site-1")
    with pytest.raises(
        RunFailed, match="site-3 refuses: masking keys: the signature is not site-1"
    ):
        world.run()
    assert world.left("site-1") == []


def test_a_key_that_another_site_signed_for_is_caught(tmp_path: Path) -> None:
    world = World(tmp_path, config(tmp_path, *MASKED))
    path = world.roster("site-3")
    entries = json.loads(path.read_text())
    entries[0]["certificate"] = entries[1]["certificate"]
    path.write_text(json.dumps(entries))
    with pytest.raises(RunFailed, match="site-1: the certificate shown is site-2's"):
        world.run()


def test_a_server_that_swaps_a_key_while_it_runs_is_caught_by_the_sites(tmp_path: Path) -> None:
    """The server lies in the session's roster: keys of its own, signed by nobody's identity."""
    from securefg.protocol import codec
    from securefg.secagg.messages import Roster

    world = World(tmp_path, config(tmp_path, *MASKED))
    server = signer("localhost")

    def lie(site: str, packet: Packet, deliver: Deliver) -> Packet | None:
        header = json.loads(packet.header)
        if header["content"]["do"] == "answer":
            envelope = codec.unframe(packet.blob)
            if envelope.kind == Roster.kind:
                roster = codec.decode(envelope.body, Roster)
                keys = roster.mask_keys.clone()
                keys[0] = keys[1]
                lied = dataclasses.replace(roster, mask_keys=keys)
                blob = codec.frame(dataclasses.replace(envelope, body=codec.encode(lied)))
                content = {**header["content"], "lengths": [len(blob)]}
                route = Route("job", "localhost", site, header["number"])
                packet = seal_packet(server, REQUEST, route, content, blob)
        return deliver(site, packet)

    world.between = lie
    with suppress(RunFailed):  # every round aborts
        world.run()
    assert world.booked("site-2") == []
    reasons = {line["reason"] for line in world.noted("site-2")}
    assert any("the signature on 'advertise' is not by the key" in reason for reason in reasons)


def test_a_kits_keys_are_for_its_owner_alone(tmp_path: Path) -> None:
    kits = certificates()
    assert (kits / "site-1" / "startup" / "client.key").stat().st_mode & 0o077 == 0
    assert "key" not in repr(signer("site-1"))
    shutil.copytree(kits, tmp_path / "kits")
    text = (tmp_path / "kits" / "site-1" / "local" / "resources.json").read_text()
    assert "log_streamer" not in text
    assert json.loads(text)["allow_log_streaming"] is False
    assert len(json.loads(text)["class_allow_list"]) == 2
