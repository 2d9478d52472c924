"""Private data leaves through the channel alone: by a rule, within the budget, and booked."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from securefg.federation.channel import Channel, Sealed, check_budget
from securefg.foundation.errors import BudgetExceeded, NoRule, PrivacyError, ProtocolError
from securefg.privacy.accountants import claim_units
from securefg.privacy.defence import Defence
from securefg.privacy.defences.local_gaussian import LocalGaussian
from securefg.privacy.defences.plain import Plain
from securefg.privacy.ledger import Ledger, Mechanism
from securefg.privacy.noise import NoiseSource, SeededNoise, SystemNoise
from securefg.privacy.policy import Policy
from securefg.protocol import codec
from securefg.protocol.codec import Clients, Turn
from securefg.protocol.meanings import Other
from securefg.protocol.messages import Message, confidential, private, public

PER_MESSAGE = LocalGaussian(clip_l2=2.0, noise_multiplier=3.0, per="message")
PER_ROW = replace(PER_MESSAGE, per="row")
# So little noise that the clipped value shows through.
SILENT = 1e-9
THREE = Clients(((0, 3),))


class Update(Message, kind="test_channel.Update"):
    weights: Tensor = private("sum", "model", means=Other())
    embeddings: Tensor | None = private("each", "embedding per node", means=Other(), rows="node")
    number: int | None = public("the round")


def policy(rules: dict[str, Defence], budget: float | None = None) -> Policy:
    named = {f"Update.{field}": rule for field, rule in rules.items()}
    return Policy(named, delta=1e-5, unit="client", budget=budget, protects=True)


def turn(clients: Clients = THREE, round: int = 1, step: int = 1) -> Turn:
    return Turn(round, step, clients)


def update(weights: Tensor, embeddings: Tensor | None = None) -> Update:
    return Update(weights=weights, embeddings=embeddings, number=None)


def sealed(
    rule: Defence, message: Update, when: Turn, noise: NoiseSource | None = None, clients: int = 10
) -> Sealed:
    rules = dict.fromkeys(["weights", "embeddings"], rule)
    return Channel(policy(rules), noise or SeededNoise(0), Ledger(clients)).seal(message, when)


def weights_of(out: Sealed) -> Tensor:
    return codec.decode(out.body, Update).weights


# ------------------------------------------------------------------------------------ the rules


def test_a_private_field_without_a_rule_raises_and_nothing_is_booked() -> None:
    ledger = Ledger(3)
    channel = Channel(policy({"weights": Plain()}), SystemNoise(), ledger)
    with pytest.raises(NoRule, match=r"Update\.embeddings is private and no rule covers it"):
        channel.seal(update(torch.ones(3, 2), torch.ones(3, 4, 2)), turn())
    assert ledger.mechanisms == ()


def test_a_field_that_is_not_sent_needs_no_rule() -> None:
    out = Channel(policy({"weights": Plain()}), SystemNoise(), Ledger(3)).seal(
        update(torch.ones(3, 2)), turn()
    )
    assert [release.mechanism.field for release in out.releases] == ["Update.weights"]


def test_plain_sends_the_value_and_books_infinity() -> None:
    ledger, values = Ledger(3), torch.arange(6.0).reshape(3, 2)
    channel = Channel(policy({"weights": Plain()}), SystemNoise(), ledger)
    out = channel.seal(update(values), turn())
    assert torch.equal(weights_of(out), values)
    claim, *_ = claim_units(ledger, 1e-5)
    assert claim.epsilon == math.inf
    assert claim.because == ("Update.weights",)


def test_public_fields_leave_as_they_are_and_are_not_booked() -> None:
    out = sealed(PER_MESSAGE, replace(update(torch.ones(3, 2)), number=1), turn())
    assert codec.decode(out.body, Update).number == 1
    assert len(out.releases) == 1


def test_a_release_says_who_what_and_when() -> None:
    (release,) = sealed(
        PER_MESSAGE, update(torch.ones(2, 4)), Turn(7, 2, Clients(((4, 6),)), attempt=3)
    ).releases
    assert (release.round, release.step, release.attempt) == (7, 2, 3)
    assert release.clients == Clients(((4, 6),))
    assert release.mechanism == Mechanism(
        field="Update.weights", rule="local_gaussian", per="message", noise_multiplier=3.0
    )


def test_rows_of_a_row_wise_release_are_counted_per_client() -> None:
    out = sealed(PER_ROW, update(torch.ones(3, 5), torch.ones(3, 7, 4)), turn())
    rows = {r.mechanism.field: r.mechanism.num_rows for r in out.releases}
    assert rows == {"Update.weights": 1, "Update.embeddings": 7}


# ------------------------------------------------------------------------------ clip and noise


def test_each_clients_message_is_clipped_to_the_bound() -> None:
    values = torch.randn(3, 4, 5, generator=torch.Generator().manual_seed(0)) * 9
    values[1] *= 0.01
    rule = replace(PER_MESSAGE, noise_multiplier=SILENT)
    out = weights_of(sealed(rule, update(values), turn())).double()
    assert out.flatten(1).norm(dim=1).max() <= 2.0 + 1e-6
    assert torch.allclose(out[1], values[1].double(), atol=1e-6)


def test_each_row_is_clipped_to_the_bound() -> None:
    values = torch.randn(3, 4, 5, generator=torch.Generator().manual_seed(0)) * 9
    rule = replace(PER_ROW, noise_multiplier=SILENT)
    out = weights_of(sealed(rule, update(values), turn())).double()
    assert torch.allclose(out.norm(dim=-1), torch.full((3, 4), 2.0, dtype=torch.float64), atol=1e-6)


@pytest.mark.parametrize(("adjacency", "factor"), [("replace_one", 2.0), ("zero_out", 1.0)])
@pytest.mark.parametrize("noise", [SeededNoise(1), SystemNoise()], ids=["seeded", "system"])
def test_noise_has_the_planned_standard_deviation(
    adjacency: str, factor: float, noise: NoiseSource
) -> None:
    """The variance of n normals has relative standard deviation sqrt(2 / n)."""
    rule = replace(PER_MESSAGE, adjacency=adjacency)  # type: ignore[arg-type]
    count = 3 * 40_000
    out = weights_of(sealed(rule, update(torch.zeros(3, 40_000)), turn(), noise)).double()
    wanted = (3.0 * factor * 2.0) ** 2
    assert abs(float(out.var()) / wanted - 1) < 6 * math.sqrt(2 / count)
    assert abs(float(out.mean())) < 6 * math.sqrt(wanted / count)


def test_noise_comes_after_the_clip() -> None:
    """Were the sum clipped, the norm would end at the bound and the noise would shrink."""
    out = weights_of(sealed(PER_MESSAGE, update(torch.ones(3, 1000)), turn()))
    assert float(out.norm(dim=1).min()) > 100


@pytest.mark.parametrize("other", [turn(round=2), turn(step=2)], ids=["round", "step"])
def test_two_releases_have_different_noise(other: Turn) -> None:
    values = torch.zeros(3, 8)
    first = weights_of(sealed(PER_MESSAGE, update(values), turn()))
    second = weights_of(sealed(PER_MESSAGE, update(values), other))
    assert not bool((first == second).any())


def test_two_fields_have_different_noise() -> None:
    out = sealed(PER_MESSAGE, update(torch.zeros(3, 8), torch.zeros(3, 8)), turn())
    message = codec.decode(out.body, Update)
    assert message.embeddings is not None
    assert not bool((message.weights == message.embeddings).any())


def test_two_clients_have_different_noise() -> None:
    out = weights_of(sealed(PER_MESSAGE, update(torch.zeros(3, 8)), turn()))
    assert len(torch.unique(out)) == 24


@pytest.mark.parametrize("size", [(), (3,), (4,), (5, 7)])
def test_seeded_noise_does_not_depend_on_the_layout_of_the_hosts(size: tuple[int, ...]) -> None:
    values = torch.randn(6, *size, generator=torch.Generator().manual_seed(2))
    whole = weights_of(sealed(PER_MESSAGE, update(values), turn(Clients(((0, 6),)))))
    parts = [Clients(((0, 1), (3, 5))), Clients(((1, 3),)), Clients(((5, 6),))]
    for clients in parts:
        own = update(values[clients.numbers()])
        assert torch.equal(
            weights_of(sealed(PER_MESSAGE, own, turn(clients))), whole[clients.numbers()]
        )


def test_system_noise_differs_each_time() -> None:
    message = update(torch.zeros(3, 8))
    first, second = (sealed(PER_MESSAGE, message, turn(), SystemNoise()).body for _ in range(2))
    assert first != second


def test_a_protected_field_keeps_its_type_and_the_message_its_values() -> None:
    values = torch.full((3, 4), 9.0, dtype=torch.float64)
    message = update(values)
    assert weights_of(sealed(PER_MESSAGE, message, turn())).dtype == torch.float64
    assert torch.equal(message.weights, torch.full((3, 4), 9.0, dtype=torch.float64))


# ---------------------------------------------------------------------------------- the guards


@pytest.mark.parametrize("shape", [(2, 4), (4, 3), ()])
def test_a_first_axis_that_is_not_the_clients_is_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(ProtocolError, match="first axis must be the 3 clients asked"):
        sealed(Plain(), update(torch.ones(shape)), turn())


def test_a_private_value_that_is_no_array_is_refused_without_printing_it() -> None:
    message = update(1234.5)  # type: ignore[arg-type]
    with pytest.raises(ProtocolError) as caught:
        sealed(Plain(), message, turn())
    assert "1234.5" not in str(caught.value)


def test_the_budget_stops_before_the_release_that_would_pass_it() -> None:
    """With mu = 1 per release at delta 1e-5: epsilon 4.377 after one, 6.6 after two."""
    ledger = Ledger(3)
    rule = replace(PER_MESSAGE, noise_multiplier=1.0)
    channel = Channel(policy({"weights": rule}, budget=5.0), SeededNoise(0), ledger)
    channel.seal(update(torch.ones(3, 2)), turn())
    before = {m: ledger.counts(m).tolist() for m in ledger.mechanisms}
    with pytest.raises(BudgetExceeded, match=r"epsilon per client to 6\.\d+, past privacy\.budget"):
        channel.seal(update(torch.ones(3, 2)), turn(round=2))
    assert {m: ledger.counts(m).tolist() for m in ledger.mechanisms} == before
    assert list(before.values()) == [[1, 1, 1]]


class Whispered(Message, kind="test_channel.Whispered"):
    rows: Tensor = confidential("rows that no record would keep")


def test_only_keys_are_confidential_and_nothing_else_leaves_as_such() -> None:
    channel = Channel(policy({}), SystemNoise(), Ledger(3))
    with pytest.raises(PrivacyError, match=r"rows is confidential.*nothing was sent"):
        channel.seal(Whispered(rows=torch.ones(3, 2)), turn())


def test_a_budget_refuses_a_plain_release() -> None:
    ledger = Ledger(3)
    channel = Channel(policy({"weights": Plain()}, budget=1e6), SystemNoise(), ledger)
    with pytest.raises(BudgetExceeded, match="to inf, past"):
        channel.seal(update(torch.ones(3, 2)), turn())
    assert ledger.mechanisms == ()


def test_all_fields_of_one_message_count_against_the_budget_together() -> None:
    rule = replace(PER_MESSAGE, noise_multiplier=1.0)
    both = policy({"weights": rule, "embeddings": rule}, budget=5.0)
    one_field = update(torch.ones(3, 2))
    Channel(both, SeededNoise(0), Ledger(3)).seal(one_field, turn())
    with pytest.raises(BudgetExceeded):
        Channel(both, SeededNoise(0), Ledger(3)).seal(
            update(torch.ones(3, 2), torch.ones(3, 2)), turn()
        )


def test_without_a_budget_nothing_is_checked() -> None:
    check_budget(
        policy({"weights": Plain()}),
        Ledger(1),
        Clients.of([0]),
        [Mechanism("Update.weights", "plain")],
    )


def test_what_is_sealed_does_not_show_when_printed() -> None:
    out = sealed(PER_MESSAGE, update(torch.ones(3, 2)), turn())
    assert "tensor" not in repr(out)


class Bare(Message, kind="test_channel.Bare"):
    numbers: Tensor | None = public("data that calls itself public")
    number: float | None = public("a number that calls itself public")
    word: str | bool | None = public("a word that calls itself public")


@pytest.mark.parametrize(
    "reply",
    [
        Bare(numbers=torch.ones(3, 2), number=None, word=None),
        Bare(numbers=None, number=0.25, word=None),
        Bare(numbers=None, number=None, word="label of node 7: ill"),
        Bare(numbers=None, number=None, word=True),
    ],
)
def test_what_calls_itself_public_in_a_reply_is_refused_and_nothing_leaves(reply: Bare) -> None:
    ledger = Ledger(3)
    channel = Channel(policy({}), SystemNoise(), ledger)
    with pytest.raises(PrivacyError, match="nothing was sent"):
        channel.seal(reply, turn())
    assert ledger.mechanisms == ()


def test_the_number_of_the_round_may_be_told() -> None:
    channel = Channel(policy({}), SystemNoise(), Ledger(3))
    sealed = channel.seal(Bare(numbers=None, number=1.0, word=None), turn(round=1))
    assert codec.decode(sealed.body, Bare).number == 1.0
