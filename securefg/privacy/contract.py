"""The statements that a defence may make: checks of its class, its settled rule and its booked
facts.

The accountant takes a defence's numbers on trust. A number that contradicts the contract itself
(noise of size 0 with an epsilon, an infinite multiplier, a release that costs nothing) is refused
before anything leaves.
"""

from __future__ import annotations

import math
import re
from typing import Final, get_args

import torch

from securefg.foundation.errors import ConfigError, PrivacyError
from securefg.privacy.defence import Asked, Defence, NoisyUpload, find_defence
from securefg.privacy.influence import Influence
from securefg.privacy.law import Law
from securefg.privacy.ledger import Accounting, Mechanism, Reach

_FINAL: Final = {Defence: ("is_bare", "reach"), NoisyUpload: ("fact", "stddev", "planned_fact")}
"""Members that follow from others. A defence of one's own does not replace them."""


def settle_rule(asked: Asked, key: str) -> Defence:
    """Return the defence of one upload, from the settings. Raise ConfigError if its class is
    unsound.

    key  the setting that names the defence, for errors
    """
    defence_class = find_defence(asked.mechanism, key)
    _check_class(defence_class, key)
    rule = defence_class.settle(asked)
    if not isinstance(rule, defence_class):
        raise _refused_setting(key, f"{type(rule).__name__} from settle", defence_class.__name__)
    if rule.noise_in == "training":
        raise _refused_setting(key, "a defence inside training", "one for uploads")
    return rule


def _check_class(defence: type[Defence], key: str) -> None:
    is_noisy = issubclass(defence, NoisyUpload)
    for base, names in _FINAL.items():
        for name in names:
            if issubclass(defence, base) and getattr(defence, name) is not getattr(base, name):
                raise _refused_setting(
                    key, f"{defence.__name__}.{name}", f"that of {base.__name__}"
                )
    if not isinstance(defence.name, str) or not re.fullmatch(r"[\w.-]+", defence.name):
        raise _refused_setting(
            key, f"{defence.__name__}.name {defence.name!r}", "letters, digits, _ . -"
        )
    if (defence.noise_in == "upload") is not is_noisy:
        right = "upload" if is_noisy else "a NoisyUpload for upload"
        raise _refused_setting(key, f"{defence.__name__}.noise_in {defence.noise_in!r}", right)
    if defence.noise_in not in ("nowhere", "upload", "training"):
        raise _refused_setting(
            key, f"{defence.__name__}.noise_in {defence.noise_in!r}", "upload or nowhere"
        )
    if defence.accounting not in get_args(Accounting):
        allowed = " or ".join(get_args(Accounting))
        raise _refused_setting(
            key, f"{defence.__name__}.accounting {defence.accounting!r}", allowed
        )
    for name in ("needs_masks", "rounds_at_random"):
        if not isinstance(getattr(defence, name), bool):
            raise _refused_setting(
                key, f"{defence.__name__}.{name} {getattr(defence, name)!r}", "True, False"
            )


def _refused_setting(key: str, found: str, expected: str) -> ConfigError:
    return ConfigError(f"{key}: found {found}; expected {expected}; correct the defence")


def check_law(rule: Defence, field: str, shape: torch.Size) -> None:
    """Raise unless the noise on a field has a law that its accounting can be for.

    shape  of one client's value
    """
    if not isinstance(rule, NoisyUpload):
        return
    try:
        law = rule.law(shape)
    except Exception as error:
        raise ConfigError(
            f"{field}: {rule.name}.law failed: {type(error).__name__}: {error}; correct the defence"
        ) from error
    if not isinstance(law, Law):
        raise _refused_setting(f"{field}: {rule.name}.law", type(law).__name__, "a Law")
    if not _is_positive(law.sd):
        raise _refused_setting(
            f"{field}: {rule.name}.law.sd", repr(law.sd), "a finite number above 0"
        )
    if rule.accounting == "gaussian" and not law.is_gaussian:
        raise _refused_setting(
            f"{field}: {rule.name}.accounting", "gaussian for another law", "zcdp"
        )


def check_fact(rule: Defence, booked: Mechanism) -> Mechanism:
    """Return what a defence books for a field. Raise if an epsilon cannot follow from that
    noise."""
    if not isinstance(booked, Mechanism):
        raise _unsound_rule(rule, "fact", type(booked).__name__, "a Mechanism")
    _check_multiplier(rule, "fact", booked.noise_multiplier)
    if rule.noise_in != "training" and (booked.sampling, booked.steps) != (1, 1):
        found_text = f"sampling {booked.sampling}, steps {booked.steps}"
        raise _unsound_rule(rule, "fact", found_text, "1 of both outside training")
    if booked.steps < 1 or booked.num_rows < 1 or not 0 < booked.sampling <= 1:
        found_text = f"{booked.num_rows} rows, sampling {booked.sampling}, {booked.steps} steps"
        raise _unsound_rule(
            rule, "fact", found_text, "at least one row and one step, sampled above 0"
        )
    return booked


def check_reach(rule: Defence, influence: Influence, holders: int, reach: Reach) -> Reach:
    """Return the noise that a node or an edge meets. Raise if the release would cost nothing."""
    if not isinstance(reach, Reach):
        raise _unsound_rule(rule, "noise_met", type(reach).__name__, "a Reach")
    _check_multiplier(rule, "noise_met", reach.noise_multiplier)
    moves_nothing = influence.rows == 0 or holders == 0
    if not moves_nothing and (reach.times < 1 or not 0 < reach.sampling <= 1):
        found = f"times {reach.times}, sampling {reach.sampling}"
        raise _unsound_rule(rule, "noise_met", found, "at least once, sampled above 0")
    if rule.noise_in != "training" and reach.sampling != 1:
        raise _unsound_rule(rule, "noise_met", f"sampling {reach.sampling}", "1 outside training")
    return reach


def _check_multiplier(rule: Defence, where: str, multiplier: float | None) -> None:
    if multiplier is None:
        return
    if rule.is_bare:
        raise _unsound_rule(rule, where, f"noise multiplier {multiplier!r}", "None without noise")
    if not _is_positive(multiplier):
        raise _unsound_rule(
            rule, where, f"noise multiplier {multiplier!r}", "a finite number above 0"
        )


def _is_positive(number: object) -> bool:
    return isinstance(number, int | float) and math.isfinite(number) and number > 0


def _unsound_rule(rule: Defence, where: str, found: str, expected: str) -> PrivacyError:
    return PrivacyError(
        f"{rule.name}.{where}: found {found}; expected {expected}; nothing was sent; correct the "
        "defence"
    )
