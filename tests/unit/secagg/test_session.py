"""A whole session: the server gets the survivors' sum to the bit, or nothing."""

from __future__ import annotations

import itertools
import json
import pickle
from collections import Counter
from dataclasses import replace
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from securefg.foundation.errors import RoundAborted
from securefg.privacy.defences.plain import Plain
from securefg.privacy.masking_plan import MaskedField
from securefg.privacy.noise import SeededNoise
from securefg.protocol.codec import Clients, Turn
from securefg.protocol.messages import Message
from securefg.secagg import errors
from securefg.secagg.client import SecureClients
from securefg.secagg.derive import FreshContexts, MaskContext
from securefg.secagg.errors import Refused
from securefg.secagg.graph import choose_parameters
from securefg.secagg.keys import FORMAT, Identity
from securefg.secagg.memory import Memory
from securefg.secagg.messages import (
    MESSAGES,
    Advertise,
    Agreed,
    Deliver,
    Keys,
    Ready,
    Revealed,
    Shares,
)
from securefg.secagg.quantise import Grid
from securefg.secagg.ring import Ring
from securefg.secagg.secret import Secret
from securefg.settings.secagg import SecureAggregationSettings
from tests.forks import script
from tests.unit.secagg.session_world import (
    STAGES,
    Ask,
    Count,
    Upload,
    World,
    everything_made,
    mask_keys_made,
    one_each,
    same_sums,
    world,
)

BEFORE_THE_SUM = (Keys, Shares, Ready, Upload)


def survivors(num_clients: int, drops: dict[type[Message], set[int]]) -> set[int]:
    gone = [drops.get(stage, set()) for stage in BEFORE_THE_SUM]
    return set(range(num_clients)).difference(*gone)


def dealt(num_clients: int, sizes: list[int]) -> list[list[int]]:
    """Clients in hosts of the given sizes; the last host takes what is left."""
    bounds = np.minimum(np.cumsum([0, *sizes, num_clients]), num_clients).tolist()
    spans = itertools.pairwise(bounds)
    return [list(range(low, high)) for low, high in spans if low < high]


@st.composite
def plans(
    draw: st.DrawFn,
) -> tuple[int, list[list[int]], dict[type[Message], set[int]], bool]:
    """A cohort, its hosts, who falls silent at which stage, and the kind of server."""
    num_clients = draw(st.integers(3, 10) | st.integers(3, 32))
    hosts = dealt(num_clients, draw(st.lists(st.integers(1, 4), max_size=6)))
    order = draw(st.permutations(range(num_clients)))
    gone = order[: draw(st.integers(0, num_clients // 3 + 1))]
    drops: dict[type[Message], set[int]] = {}
    for client in gone:
        drops.setdefault(draw(st.sampled_from(STAGES)), set()).add(client)
    return num_clients, hosts, drops, draw(st.booleans())


@settings(max_examples=30)
@given(plan=plans(), dim=st.integers(1, 40), bits=st.sampled_from([32, 64]))
def test_masked_sums_are_plain_ring_sums_or_the_round_is_aborted(
    plan: tuple[int, list[list[int]], dict[type[Message], set[int]], bool], dim: int, bits: int
) -> None:
    num_clients, hosts, drops, malicious = plan
    bed = world(
        num_clients, dim=dim, bits=bits, layout=hosts, drops=drops, malicious=malicious, corrupt=0
    )
    if not malicious:
        drops.pop(Agreed, None)  # the stage does not take place
    advertised = num_clients - len(drops.get(Keys, set()))
    answered = num_clients - sum(map(len, drops.values()))
    enough = advertised >= 3 and answered >= max(
        3, choose_parameters(advertised, bed.settings.threat_among(num_clients)).threshold
    )
    if enough:
        assert same_sums(bed.sums(), bed.plain_sums(survivors(num_clients, drops)))
    else:
        with pytest.raises(RoundAborted):
            bed.sums()


@pytest.mark.parametrize("malicious", [False, True])
@pytest.mark.parametrize("stage", STAGES, ids=lambda stage: stage.__name__)
def test_as_many_clients_may_drop_at_any_stage_as_the_threshold_leaves_room_for(
    stage: type[Message], malicious: bool
) -> None:
    bed = world(8, drops={stage: {0, 5}}, malicious=malicious)
    assert choose_parameters(8, bed.settings.threat_among(8)).threshold == 6
    assert same_sums(bed.sums(), bed.plain_sums(survivors(8, bed.drops)))


@pytest.mark.parametrize("stage", STAGES[1:], ids=lambda stage: stage.__name__)
def test_below_the_threshold_the_round_is_aborted(stage: type[Message]) -> None:
    bed = world(8, drops={stage: {0, 5, 6}}, malicious=True)
    with pytest.raises(RoundAborted, match=r"5 clients .*, 6 are needed"):
        bed.collect()
    if stage is not Revealed:
        assert not bed.revealed()


def test_below_the_threshold_at_the_last_stage_the_masks_stay_on() -> None:
    """What five of six needed holders revealed opens no secret."""
    bed = world(8, drops={Revealed: {0, 5, 6}})
    with pytest.raises(RoundAborted, match="nothing was unmasked"):
        bed.collect()
    assert len(bed.revealed()) == 5


@pytest.mark.parametrize("stage", STAGES[:4], ids=lambda stage: stage.__name__)
def test_two_clients_are_no_cohort(stage: type[Message]) -> None:
    bed = world(3, drops={stage: {1}})
    with pytest.raises(RoundAborted, match=r"2 clients .*, 3 are needed"):
        bed.collect()
    assert not bed.revealed()


def test_settings_refuse_a_minimum_under_three() -> None:
    with pytest.raises(ValueError, match="greater than or equal to 3"):
        SecureAggregationSettings(min_clients=2)


@pytest.mark.parametrize("num_clients", [40, 48])
def test_sparse_graphs_give_the_plain_sum_with_drop_outs_at_every_stage(num_clients: int) -> None:
    hosts = dealt(num_clients, [num_clients // 2, num_clients // 3])
    drops: dict[type[Message], set[int]] = {
        stage: {5 * i, 5 * i + 1} for i, stage in enumerate(STAGES)
    }
    bed = world(num_clients, layout=hosts, drops=drops, malicious=num_clients == 48, dropout=0.34)
    assert not choose_parameters(num_clients - 2, bed.settings.threat_among(num_clients)).complete
    assert same_sums(bed.sums(), bed.plain_sums(survivors(num_clients, drops)))


@pytest.mark.slow
@settings(max_examples=1)
@example(num_clients=200, num_hosts=2, gone=20)
@given(num_clients=st.integers(33, 200), num_hosts=st.integers(1, 5), gone=st.integers(0, 20))
def test_cohorts_up_to_two_hundred_give_the_plain_sum(
    num_clients: int, num_hosts: int, gone: int
) -> None:
    hosts = dealt(num_clients, [num_clients // num_hosts] * num_hosts)
    drops: dict[type[Message], set[int]] = {Upload: set(range(3, 3 + num_clients * gone // 100))}
    bed = world(num_clients, layout=hosts, drops=drops, dropout=0.25)
    assert same_sums(bed.sums(), bed.plain_sums(survivors(num_clients, drops)))


def test_a_sparse_graph_with_too_few_holders_left_stays_masked() -> None:
    bed = world(40, layout=dealt(40, [20]), drops={Revealed: set(range(36))})
    with pytest.raises(RoundAborted, match=r"secure aggregation: .* nothing was unmasked"):
        bed.collect()


@pytest.mark.parametrize("drops", [{}, {Shares: {2}}, {Upload: {0, 7}}, {Ready: {1}, Upload: {8}}])
def test_however_clients_are_spread_over_hosts_the_sum_is_the_same(
    drops: dict[type[Message], set[int]],
) -> None:
    layouts = [one_each(9), [list(range(9))], dealt(9, [2, 4]), [[0, 4, 8], [1, 5], [2, 3, 6, 7]]]
    found = [world(9, layout=layout, drops=drops).sums() for layout in layouts]
    assert all(same_sums(found[0], other) for other in found[1:])


@settings(max_examples=20)
@given(
    sizes=st.lists(st.integers(1, 1000), min_size=3, max_size=8),
    dim=st.integers(1, 9),
    bits=st.sampled_from([32, 64]),
    seed=st.integers(0, 2**32 - 1),
)
@example(sizes=[1, 1000, 1], dim=1, bits=32, seed=0)
def test_weighted_fields_open_to_the_weighted_sum_within_the_grid(
    sizes: list[int], dim: int, bits: int, seed: int
) -> None:
    """Uploads are w and w x: their sums give the mean, and no single weight is seen."""
    x = torch.from_numpy(np.random.default_rng(seed).uniform(-4, 4, (len(sizes), dim)))
    w = torch.tensor(sizes, dtype=torch.float64)
    scale = 2.0**16 if bits == 32 else 2.0**40
    field = MaskedField(Plain(), Grid(len(sizes), 4.0, scale / 2**12, 1000.0, ring=Ring(bits)))
    weight = MaskedField(Plain(), Grid(len(sizes), 1000.0, 1.0, ring=Ring(bits)))
    clients = Clients(((0, len(sizes)),))
    rows = {
        "numbers": field.encode(x, w, SeededNoise(0), clients, ()),
        "size": weight.encode(w[:, None], None, SeededNoise(0), clients, ()),
    }
    bed = World(one_each(len(sizes)), rows, SecureAggregationSettings(ring_bits=bits))
    sums = bed.sums()
    assert same_sums(sums, bed.plain_sums(range(len(sizes))))
    assert weight.decode(sums["size"], torch.Size([1])).item() == sum(sizes)
    opened = field.grid.dequantise_total(sums["numbers"])
    assert np.abs(opened - (w[:, None] * x).sum(0).numpy()).max() <= field.grid.error_bound(
        len(sizes)
    ) * (1 + 1e-9)


def test_a_masked_upload_alone_is_uniform_and_says_nothing_of_its_row() -> None:
    bed = world(4, dim=4096)
    bed.rows["numbers"][:] = 7
    bed.collect()
    uploads = [bed.masked[n]["numbers"] for n in range(4)]
    for upload in uploads:
        assert looks_uniform(upload)
    assert not looks_uniform(bed.rows["numbers"][0])


def looks_uniform(words: np.ndarray) -> bool:
    """Chi-square over the bytes, 255 degrees of freedom: 460 is passed once in 10^13 times."""
    counts = np.bincount(words.view(np.uint8).ravel(), minlength=256)
    expected = words.nbytes / 256
    return bool(((counts - expected) ** 2 / expected).sum() < 460)


# ------------------------------------------------------------------------------- keys serve once


def drive(bed: World, rounds: int) -> None:
    for number in range(1, rounds + 1):
        bed.round = number
        for reply in (Upload, Count):
            bed.collect(reply)


def test_no_mask_key_serves_twice_over_rounds_messages_and_fields(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bed = world(6, dim=1, layout=[list(range(6))])  # all fields alike but for their names
    with mask_keys_made(monkeypatch) as made:
        drive(bed, rounds=3)
    # A round has three masked fields; each has 6 self masks and 15 pair masks, made on one host.
    assert len(made) == 3 * 3 * (6 + 15)
    assert len({key for key, _ in made}) == len(made)
    assert len({context for _, context in made}) == 3 * 3


def test_the_two_ends_of_a_pair_are_the_only_ones_that_share_a_key(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bed = world(6)
    with mask_keys_made(monkeypatch) as made:
        drive(bed, rounds=2)
    uses = Counter(key for key, _ in made)
    assert Counter(uses.values()) == {1: 2 * 3 * 6, 2: 2 * 3 * 15}


def test_a_second_masked_reply_in_one_session_is_refused() -> None:
    bed = world(4)
    bed.collect()
    with pytest.raises(Refused, match="a second request in one session"):
        bed.answer(0, bed.request, [0])


def test_a_client_that_forgot_what_it_masked_would_repeat_its_keys(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The mutant that the guard is there for: two uploads under one mask give their difference."""
    bed = world(4)
    bed.collect()
    first = bed.masked[0]["numbers"]
    monkeypatch.setattr(FreshContexts, "claim", lambda self, context: context)
    monkeypatch.setattr(Memory, "refuse_other_request", lambda self, *asked: None)
    bed.rows["numbers"][0] += np.uint32(5)
    bed.hosts[0]._session.answered = False
    bed.answer(0, bed.request, [0])
    assert (bed.masked[0]["numbers"] - first == 5).all()


@pytest.mark.parametrize(
    "change",
    [{"round": 2}, {"message": Count.kind}],
    ids=["another round", "another message"],
)
def test_a_session_masks_what_it_was_opened_for_and_nothing_else(
    change: dict[str, Any],
) -> None:
    bed = world(4)
    bed.collect()
    other = replace(bed.context(Upload, "numbers"), field="new", **change)
    with pytest.raises(Refused, match="this session masks"):
        bed.hosts[0].mask(bed.rows["numbers"][:1], [0], other)


def test_every_session_has_fresh_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    bed = world(4)
    seen: list[bytes] = []
    roots: set[bytes] = set()
    for _ in range(3):
        bed.collect()
        for host in bed.hosts:
            session = host._session
            assert not session.pairs
            assert session.seats.linking is None
            seen += [s.reveal() for p in session.parties.values() for s in (p.seed, p.drop_key)]
            for kept in (session._roots.masks, session._roots.boxes):
                roots |= {root.reveal() for root in kept.values()}
    assert len(set(seen)) == len(seen) == 3 * 4 * 2
    assert len(roots) == 3 * (6 + 16)  # of every pair, and boxes of both directions and for oneself
    assert [kind for kind in map(type, bed.said) if kind is Keys] == [Keys] * 4


# --------------------------------------------------------------------------- what clients tell


def test_a_corrupt_share_names_its_sender_and_the_sum_comes_out() -> None:
    bed = world(6)
    honest = bed.exchange

    def tampering(request: Message, reply: type[Message], clients: Clients | None = None) -> object:
        replies = honest(request, reply, clients)
        if reply is Revealed:
            replies.message.shares[1, 0, 5] ^= 1
        return replies

    bed.aggregator._exchange = tampering
    assert same_sums(bed.sums(), bed.plain_sums(range(6)))
    assert bed.aggregator.blamed == {1: "revealed a share that it was not dealt"}


@pytest.mark.parametrize("malicious", [False, True])
def test_one_share_of_one_kind_is_revealed_for_every_sharer(malicious: bool) -> None:
    bed = world(6, drops={Upload: {2}}, malicious=malicious)
    bed.collect()
    for message in bed.revealed():
        assert message.which.tolist() == [[1, 1, 2, 1, 1, 1]]


@pytest.mark.parametrize("layout", [one_each(4), [[0, 1, 2, 3]]], ids=["apart", "together"])
def test_nothing_secret_shows_in_what_prints(
    layout: list[list[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    bed = world(4, layout=layout)
    with everything_made(monkeypatch) as made:
        bed.collect()
    assert made.secrets
    assert made.shares
    for host in bed.hosts:
        session = host._session
        party = next(iter(session.parties.values()))
        shown = [
            host,
            session,
            session.contexts,
            party,
            session.seats,
            session._roots,
            party.held_seed,
        ]
        text = "\n".join(f"{one!r} {one!s}" for one in shown)
        assert made.found_in(text.encode()) == []
        assert not any(str(int.from_bytes(share, "big")) in text for share in made.shares)


def test_the_search_for_secrets_finds_one_in_every_encoding(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with everything_made(monkeypatch) as made:
        world(3).collect()
    for values in (made.secrets, made.shares):
        secret = max(values)
        for text in (secret, secret.hex().encode(), repr({"seed": secret}).encode()):
            assert made.found_in(b"some bytes before " + text + b" and after")
    assert made.found_in(b"some bytes before") == []


def test_a_session_cannot_be_pickled() -> None:
    bed = world(3)
    bed.collect()
    with pytest.raises(TypeError, match="is secret and cannot be pickled"):
        pickle.dumps(bed.hosts[0]._session)


def test_boxes_are_carried_to_their_holders_and_no_other() -> None:
    """Row j of a client's delivery is what the j-th holder's place sealed for it."""
    bed = world(5, drops={Shares: {3}})
    seen_deliveries: list[Deliver] = []

    def kept(request: Deliver) -> Deliver:
        seen_deliveries.append(request)
        return request

    bed.lie(Deliver, kept)
    bed.collect()
    made = [message.boxes[0] for message in bed.said if isinstance(message, Shares)]
    for receiver, request in zip((0, 1, 2, 4), seen_deliveries, strict=True):
        assert request.sharers.tolist() == [0, 1, 2, 4]
        assert torch.equal(request.boxes[0][[0, 1, 2, 4]], torch.stack([m[receiver] for m in made]))
        assert not request.boxes[0][3].any()


def test_a_new_session_takes_the_place_of_an_unfinished_one() -> None:
    bed = world(4, drops={Upload: {0, 1}})
    with pytest.raises(RoundAborted):
        bed.collect()
    bed.drops = {}
    bed.round = 2
    assert same_sums(bed.sums(), bed.plain_sums(range(4)))


def test_a_client_without_a_session_refuses_every_stage_but_the_first() -> None:
    bed = world(3)
    for request in (
        Ask(model=torch.zeros(1)),
        Deliver(
            sharers=torch.arange(3),
            boxes=torch.zeros(1),
            share_digests=torch.zeros(1),
            box_ciphertexts=None,
            mask_ciphertexts=None,
        ),
    ):
        with pytest.raises(Refused, match="no session is open"):
            bed.answer(0, request, [0])
    assert isinstance(bed.answer(0, Advertise(purpose=Upload.kind, version=FORMAT), [0]), Keys)


def test_a_message_that_is_no_stage_is_refused() -> None:
    bed = world(3)
    with pytest.raises(Refused, match="is no stage of secure aggregation"):
        bed.answer(0, Count(numbers=torch.zeros(1)), [0])


# ------------------------------------------------------------------------------------- vectors


VECTORS = Path(__file__).parents[2] / "vectors" / "secagg"
SESSIONS = VECTORS / "sessions"
REQUESTS = {kind.__name__: kind for kind in MESSAGES}
Vector = dict[str, Any]


def run(name: str, *arguments: str) -> CompletedProcess[str]:
    return script(VECTORS / name, *arguments)


def stored(name: str) -> Vector:
    (vector,) = json.loads((SESSIONS / f"{name}.json").read_text())
    return dict(vector)


def test_the_stored_sessions_are_what_clients_and_server_say(tmp_path: Path) -> None:
    result = run("generate_sessions.py", str(tmp_path))
    assert result.returncode == 0, result.stderr
    wanted = {path.name: path.read_text() for path in SESSIONS.glob("*.json")}
    assert {path.name: path.read_text() for path in tmp_path.glob("*.json")} == wanted


def test_an_independent_verifier_rebuilds_the_stored_sessions() -> None:
    result = run("verify_sessions.py")
    assert result.returncode == 0, result.stderr
    assert result.stdout.count("agrees") == 3


@pytest.mark.parametrize(
    ("path", "words"),
    [
        (("said", "Keys", 1, "signature", 0), "signature"),
        (("said", "Shares", 2, "commitment", 0), "commitment"),
        (("said", "Shares", 1, "boxes", 0, 3), "box from 1 to 3"),
        (("said", "Shares", 1, "box_ciphertexts", 0, 3), "ciphertext from 1 to 3"),
        (("said", "Ready", 3, "wrapped", 0, 1), "wrapped by 3 for 1"),
        (("said", "Ready", 2, "signature", 0), "pairs"),
        (("said", "Agreed", 0, "signature", 0), "agreement"),
        (("said", "Revealed", 1, "shares", 0, 2), "shares revealed by 1"),
        (("said", "Upload", 0, "numbers", 0, 5), "upload of 0"),
        (("sum", 3), "sum"),
    ],
    ids=lambda value: str(value) if isinstance(value, str) else "",
)
def test_the_independent_verifier_notices_a_changed_session(
    path: tuple[str | int, ...], words: str, tmp_path: Path
) -> None:
    wrong: Any = [stored("four_clients")]
    inside = wrong[0]
    for key in path[:-1]:
        inside = inside[key]
    value = inside[path[-1]]
    inside[path[-1]] = (
        value ^ 1 if isinstance(value, int) else f"{int(value, 16) ^ 1:0{len(value)}x}"
    )
    (tmp_path / "four_clients.json").write_text(json.dumps(wrong))
    result = run("verify_sessions.py", str(tmp_path))
    assert result.returncode == 1
    assert f"{words} does not agree" in result.stderr


def test_the_verifier_of_sessions_shares_no_code_with_what_it_verifies() -> None:
    for name in ("verify_sessions.py", "ed25519.py", "mlkem.py"):
        lines = (VECTORS / name).read_text().splitlines()
        imports = [line for line in lines if line.startswith(("import ", "from "))]
        assert imports
        assert not any("securefg" in line or "cryptography" in line for line in imports)


def array(value: Any) -> Any:
    """Hex is bytes, numbers are numbers."""
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, str):
        return torch.frombuffer(bytearray.fromhex(value), dtype=torch.uint8)
    if value and isinstance(value[0], str | list):
        return torch.stack([array(one) for one in value])
    return torch.tensor(value, dtype=torch.int64)


class Listener:
    """The client of a stored session that hears `told`, with the randomness that it drew then."""

    def __init__(self, vector: Vector) -> None:
        self.vector, self.number = vector, vector["listener"]
        known = [Identity(Secret(bytes.fromhex(text))) for text in vector["identities"]]
        drawn = iter(vector["draws"][self.number])
        self.client = SecureClients(
            SecureAggregationSettings(malicious=True),
            vector["config"],
            {self.number: known[self.number]},
            [one.public for one in known],
            random_bytes=lambda count: bytes.fromhex(next(drawn)),
        )

    def hear(self, step: str, fields: Vector) -> None:
        if step == "Ask":
            self.client.check_request(bytes.fromhex(fields["request_hash"]))
            rows = np.array([self.vector["plain"][self.number]], np.uint32)
            self.client.mask(rows, [self.number], MaskContext(*self.vector["context"]))
            return
        values = {n: v if n == "purpose" else array(v) for n, v in fields.items()}
        turn = Turn(self.vector["round"], 1, Clients.of([self.number]))
        self.client.handle(REQUESTS[step](**values), turn)


BAD = sorted(path.stem for path in SESSIONS.glob("bad_*.json"))


@pytest.mark.parametrize("name", BAD)
def test_bad_sessions_end_at_the_step_they_name(name: str) -> None:
    bad = stored(name)
    base = stored(bad["session"])
    listener = Listener(base)
    for base_step in base["told"]:
        if base_step["step"] == bad["step"]:
            with pytest.raises(getattr(errors, bad["error"])):
                listener.hear(base_step["step"], {**base_step["fields"], **bad["change"]})
            return
        listener.hear(base_step["step"], base_step["fields"])
    pytest.fail(f"no step {bad['step']}")


def test_there_is_a_bad_session_for_every_step_at_which_a_server_can_lie() -> None:
    steps = {told["step"] for told in stored("four_clients")["told"]}
    assert {stored(name)["step"] for name in BAD} == steps
