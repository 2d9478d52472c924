"""A defence from outside that contradicts its contract is refused; nothing is claimed for it."""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass, replace
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

import pytest
import torch

from securefg.foundation.errors import ConfigError, PrivacyError
from securefg.privacy.defence import Defence
from securefg.privacy.influence import Influence
from securefg.privacy.ledger import Mechanism, Reach
from securefg.privacy.policy import Policy, make_policy
from securefg.privacy.releases import PlannedRelease
from securefg.protocol.meanings import Weights
from securefg.protocol.messages import Message, private
from securefg.settings.privacy import PrivacySettings
from tests.outside import Laplace

MODULE = "a_defence_that_lies"


class Upload(Message, kind="contract.Upload"):
    """One private field."""

    weights: torch.Tensor = private("sum", "values", means=Weights("network"))


def policy_of(
    monkeypatch: pytest.MonkeyPatch, base: type = Laplace, rng: str = "system", **body: Any
) -> Policy:
    """The policy of a run whose defence has these members in place of the example's."""
    module: Any = ModuleType(MODULE)
    module.__spec__ = ModuleSpec(MODULE, None)
    module.DEFENCE = dataclass(frozen=True)(type("Lies", (base,), {"name": MODULE, **body}))
    monkeypatch.setitem(sys.modules, MODULE, module)
    settings: Any = {"mechanism": MODULE, "noise_multiplier": 2.0, "noise_rng": rng}
    planned = [PlannedRelease(Upload, "weights", 3, 10, node=Influence(rows=1))]
    return make_policy(PrivacySettings(**settings), planned, 4)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ({"is_bare": False}, "is_bare; expected that of Defence"),
        ({"reach": lambda *_: Reach(None, 0)}, "reach; expected that of Defence"),
        ({"fact": lambda *_: Mechanism("Other.x", "plain")}, "fact; expected that of NoisyUpload"),
        ({"stddev": lambda *_: 1.0}, "stddev; expected that of NoisyUpload"),
        ({"noise_in": "nowhere"}, "noise_in 'nowhere'; expected upload"),
        ({"accounting": "free"}, "accounting 'free'"),
        ({"accounting": "gaussian"}, "found gaussian for another law; expected zcdp"),
        ({"name": "two words"}, "name 'two words'"),
        ({"needs_masks": "no"}, "needs_masks 'no'"),
        ({"settle": classmethod(lambda cls, asked: None)}, "NoneType from settle"),
        ({"law": lambda *_: None}, "found NoneType; expected a Law"),
        ({"law": lambda *_: 1 / 0}, "law failed: ZeroDivisionError"),
        ({"law": lambda s, x: replace(Laplace.law(s, x), sd=0.0)}, "sd: found 0.0"),
        ({"law": lambda s, x: replace(Laplace.law(s, x), sd=math.nan)}, "sd: found nan"),
    ],
)
def test_defence_that_contradicts_its_contract_is_refused(
    monkeypatch: pytest.MonkeyPatch, body: dict[str, Any], reason: str
) -> None:
    with pytest.raises(ConfigError, match=reason):
        policy_of(monkeypatch, **body)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ({"multiplier": lambda *_: math.inf}, "noise multiplier inf"),
        ({"multiplier": lambda *_: math.nan}, "noise multiplier nan"),
        ({"multiplier": lambda *_: 0.0}, "noise multiplier 0.0"),
        ({"noise_met": lambda *_: Reach(None, 0)}, "times 0"),
        ({"noise_met": lambda *_: Reach(math.inf)}, "noise multiplier inf"),
        ({"noise_met": lambda *_: Reach(1.0, sampling=0.0)}, "sampling 0.0"),
        ({"noise_met": lambda *_: None}, "found NoneType; expected a Reach"),
    ],
)
def test_booked_noise_that_costs_nothing_is_refused(
    monkeypatch: pytest.MonkeyPatch, body: dict[str, Any], reason: str
) -> None:
    policy = policy_of(monkeypatch, **body)
    with pytest.raises(PrivacyError, match=reason):
        policy.mechanism(Upload, "weights", 10, 1)


def bare(fact: Mechanism) -> dict[str, Any]:
    """The members of a defence without noise that books this."""
    return {
        "label": "none",
        "about": "no noise",
        "noise_in": "nowhere",
        "settle": classmethod(lambda cls, asked: cls()),
        "apply": lambda self, values, *_: values,
        "stddev": lambda *_: 0.0,
        "fact": lambda *_: fact,
        "words": lambda *_: "nothing",
    }


def test_multiplier_booked_without_noise_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    body = bare(Mechanism("Upload.weights", MODULE, noise_multiplier=5.0))
    policy = policy_of(monkeypatch, Defence, **body)
    with pytest.raises(PrivacyError, match="expected None without noise"):
        policy.mechanism(Upload, "weights", 10, 1)


def test_field_and_rule_of_a_booked_fact_are_those_that_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    body = bare(Mechanism("Other.field", "local_gaussian", protects=True))
    booked = policy_of(monkeypatch, Defence, "seeded", **body).mechanism(Upload, "weights", 10, 1)
    assert (booked.field, booked.rule, booked.protects) == ("Upload.weights", MODULE, False)
