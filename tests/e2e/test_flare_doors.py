"""Real FLARE processes among hostile ones: what they listen on, what they answer, to whom.

`flare_intruder.py` is FLARE's own program with a real kit and without the guard: what it gets out
of an unguarded party is the control.
"""

from __future__ import annotations

import json
import socket
import ssl
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.flare_rehearsal import Parties, deployment, listening, parties
from tests.unit.flare.test_flares_commands import LEFT, OF_SITES

pytest.importorskip("nvflare")

OPEN_TO_ALL = {
    "cellnet.channel/bye",
    "sm__STREAM/sm__ACK",
    "sm__STREAM/sm__DATA",
    "sm__STREAM/sm__ERROR",
}
OURS = {"securefg/ask", "securefg/ping"}
OPEN = {
    "site": {"admin/*", *OPEN_TO_ALL},
    "server": {
        *OPEN_TO_ALL,
        "aux_communication/*",
        "hci_channel/*",
        "server_parent_listener/*",
        "task/challenge",
        "task/heart_beat",
        "task/quit",
        "task/register",
        "task/report_job_failure",
    },
    "site_job": {*OPEN_TO_ALL, "aux_communication/*", "client_command/*", *OURS},
    "server_job": {*OPEN_TO_ALL, "aux_communication/*", "server_command/*"},
}
ENDS = ("train.shutdown", "train.restart")  # last, so that the others find somebody
CLOSED = {"site": 26, "server": 23, "site_job": 27, "server_job": 23}
OTHER_CHANNELS = [
    ("_net_manager", "process_info"),
    ("_net_manager", "change_root"),
    ("_net_manager", "stop"),
    ("cellnet.channel", "bulk"),
    ("credential_manager", "key_exchange"),
    ("aux_communication", "fed.event"),
    ("server_command", "get_task"),
]


def to(target: str, seconds: float = 0.4, **more: Any) -> list[dict[str, Any]]:
    """Every command that FLARE knows, and every other channel, to one target."""
    shell = {"sys.shell": "cat startup/client.key", "sys.configure_site_log": "DEBUG"}
    harmful = [
        {
            "channel": "admin",
            "topic": "admin",
            "command": command,
            "body": shell.get(command, ""),
            "job_id": "../securefg" if command == "train.delete_run" else "none",
        }
        for command in sorted(
            OF_SITES, key=lambda name: name in ("train.shutdown", "train.restart")
        )
    ]
    others = [{"channel": channel, "topic": topic} for channel, topic in OTHER_CHANNELS]
    return [{"to": target, "seconds": seconds, **more, **order} for order in harmful + others]


def answered(answers: list[dict[str, Any]]) -> dict[str, str]:
    return {
        answer.get("command", f"{answer['channel']}/{answer['topic']}"): answer["said"]
        for answer in answers
        if answer["said"].startswith("ok") and "not answered here" not in answer["said"]
    }


def knocks(port: int, under_tls: bool) -> str:
    """What a local user without a certificate gets from a port."""
    hello = b"\0" * 64
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=3) as plain:
            plain.settimeout(2)
            if not under_tls:
                plain.sendall(hello)
                return "silence" if plain.recv(1) == b"" else "an answer"
            context = ssl._create_unverified_context()
            with context.wrap_socket(plain) as secure:
                secure.sendall(hello)
                return "silence" if secure.recv(1) == b"" else "an answer"
    except (ssl.SSLError, ConnectionError, TimeoutError) as error:
        return type(error).__name__


def reviewed(kit: Path, kind: str) -> None:
    """FLARE wanted the handlers that were looked at: one that it adds must be looked at too."""
    doors = json.loads((kit / f"doors.{kind}.json").read_text())
    assert set(doors["open"]) == OPEN[kind]
    assert len(doors["closed"]) == CLOSED[kind], doors["closed"]


def intact(found: Parties, name: str) -> None:
    assert found.started[name].poll() is None, found.log(name)
    assert (found.kits.home(name) / "shards").is_dir()
    assert (found.kits.home(name) / "keys").is_dir()


def test_a_guarded_site_gives_nothing_to_a_hostile_server_and_a_hostile_site(
    tmp_path: Path,
) -> None:
    kits = deployment(tmp_path, sites=["bank-a", "bank-b"])
    with parties(kits, tmp_path) as flare_parties:
        shell = next(order for order in to("bank-b", 3.0) if order.get("command") == "sys.shell")
        there = {"to": "bank-a", "channel": "admin", "topic": "admin", "command": "train.status"}
        # Both must be there before anything is asked of them.
        waits = [{**order, "again": 300.0} for order in (shell, there)]
        flare_parties.intrude("localhost", [*waits, *to("bank-a")])
        flare_parties.start("bank-a")
        flare_parties.intrude("bank-b", to("bank-a"))
        by_server, by_site = (
            flare_parties.await_answers("localhost"),
            flare_parties.await_answers("bank-b"),
        )
        assert "PRIVATE KEY" in by_server[0]["said"]  # an unguarded site tells it
        assert set(answered(by_server[1:])) <= LEFT
        assert not any("PRIVATE" in answer["said"] for answer in by_server[1:])
        assert answered(by_site) == {}
        intact(flare_parties, "bank-a")
        reviewed(kits.site("bank-a"), "site")
        ports = listening(flare_parties.pids("bank-a"))
        assert len(ports) == 1
        ((address, port),) = ports
        assert address == "127.0.0.1"
        assert knocks(port, under_tls=False) != "an answer"
        assert knocks(port, under_tls=True) != "an answer"
    lines = (kits.site("bank-a") / "visits.jsonl").read_text().splitlines()
    doors_knocked = {json.loads(line)["door"] for line in lines}
    assert {"sys.shell", "train.delete_run", "train.shutdown"} <= doors_knocked


def test_a_hostile_site_reaches_nobody_through_a_guarded_server(tmp_path: Path) -> None:
    kits = deployment(tmp_path, sites=["bank-a", "bank-b"])
    as_server = {"as": "server"}
    with parties(kits, tmp_path) as flare_parties:
        flare_parties.start("localhost")
        flare_parties.start("bank-a")
        orders = [
            *to("bank-a")[:8],
            *to("bank-a", **as_server)[:8],
            *to("server")[-7:],
            {"to": "server", "channel": "hci_channel", "topic": "command", "body": "cat x"},
            {"to": "server", "channel": "server_parent_listener", "topic": "heartbeat"},
        ]
        flare_parties.intrude("bank-b", orders)
        assert answered(flare_parties.await_answers("bank-b")) == {}
        intact(flare_parties, "bank-a")
        reviewed(kits.server, "server")
        addresses = listening(flare_parties.pids("localhost"))
        assert {address for address, _ in addresses} == {"127.0.0.1"}
        assert len(addresses) == 2
        for _, port in addresses:
            assert knocks(port, under_tls=False) != "an answer"
    assert not (kits.site("bank-a") / "visits.jsonl").exists()  # nothing came that far
    said = (kits.server / "visits.jsonl").read_text()
    assert "bank-b may not speak for server" in said
