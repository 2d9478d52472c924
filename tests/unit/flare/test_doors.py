"""The list of doors: what is not on it is refused, whoever asks and however it is addressed."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from securefg.flare.guard.doors import (
    ADMINISTRATOR,
    ASK,
    CHANNEL,
    DOORS,
    RESULT,
    Arrival,
    kind_of,
    may_be_registered,
    refusal_reason,
)

JOB, OTHER = "0a1b", "9f8e"
CELLS = ("server", f"server.{JOB}", f"server.{OTHER}", "bank-a", f"bank-a.{JOB}", "bank-b")
MORE = (*CELLS, f"bank-b.{JOB}", f"bank-b.{OTHER}", "_admin_1")
ME = ("server", f"server.{JOB}", "bank-a", f"bank-a.{JOB}", "_admin_1")


def asked(me: str, origin: str, door: tuple[str, str], neighbour: str = "", **more: str) -> Arrival:
    named = ADMINISTRATOR if (neighbour or origin).startswith("_admin_") else ""
    return Arrival(neighbour or origin, origin, more.pop("to", me), True, *door, certificate=named)


def streamed(neighbour: str, origin: str, to: str, door: tuple[str, str], how: str) -> Arrival:
    return Arrival(neighbour, origin, to, True, "sm__STREAM", "sm__DATA", door, how)


@pytest.mark.parametrize(
    ("channel", "topic"),
    [
        ("admin", "admin"),
        ("_net_manager", "stop"),
        ("cellnet.channel", "bulk"),
        ("credential_manager", "key_exchange"),
        ("aux_communication", "fed.event"),
        ("download_service__", "download_service__download"),
        (CHANNEL, ASK),
    ],
)
@pytest.mark.parametrize("me", ["bank-a", f"bank-a.{JOB}"])
def test_a_site_answers_no_other_site(me: str, channel: str, topic: str) -> None:
    for origin in ("bank-b", f"bank-b.{JOB}", "_admin_1"):
        assert refusal_reason(me, asked(me, origin, (channel, topic), "server"))


def test_our_own_door_is_for_the_jobs_server_process_and_takes_plain_bytes() -> None:
    me, server = f"bank-a.{JOB}", f"server.{JOB}"
    door = (CHANNEL, ASK)
    assert refusal_reason(me, streamed("server", server, me, door, "bytes")) is None
    assert "plain bytes" in str(refusal_reason(me, streamed("server", server, me, door, "fobs")))
    assert refusal_reason(me, streamed("server", f"server.{OTHER}", me, door, "bytes"))
    assert refusal_reason(me, streamed("server", "server", me, door, "bytes"))
    assert refusal_reason(me, streamed("bank-b", server, me, door, "bytes"))


def test_replies_come_as_plain_bytes_too() -> None:
    me, site = f"server.{JOB}", f"bank-a.{JOB}"
    door = ("return_only", f"{CHANNEL}:{ASK}")
    assert refusal_reason(me, streamed("server", site, me, door, "bytes")) is None
    assert refusal_reason(me, streamed("server", site, me, door, "fobs"))


def test_the_server_lets_nobody_speak_for_another_or_reach_another_site() -> None:
    beat = ("task", "heart_beat")
    assert refusal_reason("server", asked("server", "bank-a", beat)) is None
    assert refusal_reason("server", asked("server", "bank-a", beat, "bank-b"))
    assert refusal_reason(
        "server", asked("server", "server", ("admin", "admin"), "bank-b", to="bank-a")
    )
    for target in ("bank-a", f"bank-a.{JOB}", f"server.{OTHER}"):
        arrival = asked("server", f"bank-b.{JOB}", (CHANNEL, ASK), to=target)
        assert refusal_reason("server", arrival)


@settings(max_examples=300)
@given(
    me=st.sampled_from(ME),
    neighbour=st.sampled_from(MORE),
    origin=st.sampled_from(MORE),
    to=st.sampled_from(MORE),
    channel=st.sampled_from(["admin", "task", "securefg", "_net_manager", "aux_communication"]),
    topic=st.sampled_from(["admin", "ask", "stop", "heart_beat", "__end_run__", "x"]),
    streams=st.booleans(),
)
def test_what_is_let_in_is_on_the_list_and_from_its_sender(
    me: str, neighbour: str, origin: str, to: str, channel: str, topic: str, streams: bool
) -> None:
    door = (channel, topic)
    arrival = (
        streamed(neighbour, origin, to, door, "bytes")
        if streams
        else Arrival(neighbour, origin, to, True, *door)
    )
    if neighbour != me and refusal_reason(me, arrival) is None:
        assert door in DOORS[kind_of(to)][kind_of(origin)]
        families = {cell.partition(".")[0] for cell in (origin, to)}
        assert "server" in families or len(families) == 1  # never from one site to another
        assert neighbour in ("server", origin, origin.partition(".")[0])


def test_a_jobs_result_goes_to_the_administrator_alone() -> None:
    assert refusal_reason("server", asked("server", "_admin_1", RESULT)) is None
    for origin in ("bank-a", f"bank-a.{JOB}", f"server.{JOB}"):
        neighbour = origin.partition(".")[0] if origin.startswith("bank") else origin
        assert "no door" in str(
            refusal_reason("server", asked("server", origin, RESULT, neighbour))
        )
    assert may_be_registered("server", *RESULT)
    for me in ("bank-a", f"bank-a.{JOB}", f"server.{JOB}", "_admin_1"):
        assert not may_be_registered(me, *RESULT)
        for origin in MORE:
            assert me == origin or refusal_reason(me, asked(me, origin, RESULT, "server"))


def test_a_site_is_no_administrator_whatever_it_calls_itself() -> None:
    for door in DOORS[kind_of("server")][kind_of("_admin_1")]:
        arrival = asked("server", "_admin_1", door)
        assert refusal_reason("server", arrival) is None
        for name in ("bank-c", "localhost", ""):
            other = dataclasses.replace(arrival, certificate=name)
            assert "has the certificate of" in str(refusal_reason("server", other))
            reply = dataclasses.replace(other, is_request=False)
            assert "has the certificate of" in str(refusal_reason("server", reply))


def test_an_administrator_answers_nobody_but_the_end_of_its_session() -> None:
    me = "_admin_1"
    assert refusal_reason(me, asked(me, "server", ("hci_channel", "SESSION_EXPIRED"))) is None
    for door in (("_net_manager", "stop"), ("aux_communication", "x"), ("cellnet.channel", "bulk")):
        assert refusal_reason(me, asked(me, "server", door))
    for origin in ("bank-a", f"server.{JOB}"):
        arrival = asked(me, origin, ("hci_channel", "SESSION_EXPIRED"), "server")
        assert "may not speak" in str(refusal_reason(me, arrival))
    given = ("return_only", ":".join(RESULT))
    assert refusal_reason(me, streamed("server", "server", me, given, "fobs")) is None
    assert refusal_reason(me, streamed("server", "server", me, RESULT, "fobs"))


def test_handlers_without_a_door_are_not_registered() -> None:
    for me in ("bank-a", f"bank-a.{JOB}"):
        assert not may_be_registered(me, "_net_manager", "stop_cell")
        assert not may_be_registered(me, "cellnet.channel", "bulk")
        assert not may_be_registered(me, "server_command", "get_task")
    assert may_be_registered("bank-a", "admin", "*")
    assert not may_be_registered("bank-a", "aux_communication", "*")
