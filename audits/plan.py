"""The plan of an audit: attacks, adversaries, and how much it may cost."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from attacks import attack_names, attack_or_error, get_attack
from attacks.base import AnyAttack, Attack
from audits.findings.record import EndedAudit
from audits.foreign_network import find_network
from audits.games import load_game
from securefg.foundation.errors import ConfigError
from securefg.protocol.transcript import Adversary
from securefg.settings.execution import JUDGING, AuditSettings

DEFAULT_ADVERSARY = {
    "server": "server",
    "client": "client:0",
    "wire": "wire",
    "outsider": "outsider",
}
TRIALS = 100_000
PROMISES = "promises"


@dataclass(frozen=True)
class Plan:
    """A plan of what to audit.

    only         names or module paths of attacks, or `promises` (empty for all)
    more         attacks beside these, by module path
    adversaries  whose views, as `server` or `client:3,5` (empty for one of each kind)
    trials       of every noise mechanism that claims an epsilon
    thorough     also search for fresh seeds of 32 bits, and remove nodes for longer: minutes
    overrides    of the run's `audit` settings, as `audit.leak_threshold=0.1`
    attacks_only  every attack of a default audit and no promise, beside the findings that are
                 stored (only for a plan that names no attack and no adversary)
    network      module path of the network of another framework's recording
    data         folder of its clients' samples, by default `private` of the recording
    """

    only: tuple[str, ...] = ()
    more: tuple[str, ...] = ()
    adversaries: tuple[str, ...] = ()
    jobs: int = 1
    seed: int = 0
    trials: int = TRIALS
    thorough: bool = False
    overrides: tuple[str, ...] = ()
    attacks_only: bool = False
    network: str = ""
    data: Path | None = None

    def __post_init__(self) -> None:
        for name in (*self.only, *self.more):
            if name != PROMISES:
                attack = get_attack(name)
                with suppress(ConfigError):  # a game that is missing is the attack's finding
                    load_game(attack.question)  # the user named it, by its attack: no folder did
        names = [found.name for found in self.attacks]
        for name in {name for name in names if names.count(name) > 1}:
            raise ConfigError(f"attack: two attacks are named {name!r}; each needs its own name")
        for text in self.adversaries:
            Adversary.parse(text)
        if self.network:
            find_network(self.network)  # the user named it: no folder did
        if self.data is not None and not self.data.is_dir():
            raise ConfigError(f"--data: found no folder {self.data}; expected one with truth.npz")

    def check_own_run(self) -> None:
        """Raise where something is given that a run of this package has already."""
        if self.network or self.data is not None:
            raise ConfigError(
                "--network, --data: found a run of securefg, which knows both; expected another "
                "framework's recording"
            )

    def check_clients(self, clients: int) -> None:
        """Raise where an adversary is a client that the run does not have."""
        for text in self.adversaries:
            if max(Adversary.parse(text).clients, default=-1) >= clients:
                raise ConfigError(
                    f"adversary: found {text}; expected clients from 0 to {clients - 1}"
                )

    @property
    def attacks(self) -> list[AnyAttack]:
        """Return the attacks that could be loaded."""
        return [found for found in self._found.values() if isinstance(found, Attack)]

    @property
    def broken(self) -> dict[str, ConfigError]:
        """Return the attacks of installed packages that cannot be loaded. Nobody asked for them by
        name."""
        return {n: found for n, found in self._found.items() if isinstance(found, ConfigError)}

    @property
    def _found(self) -> dict[str, AnyAttack | ConfigError]:
        named = self.only or attack_names()
        wanted = dict.fromkeys((*named, *self.more))
        return {name: attack_or_error(name) for name in wanted if name != PROMISES}

    @property
    def promises(self) -> bool:
        """Return whether the promises of the run are checked too."""
        return PROMISES in self.only or not (self.only or self.attacks_only)

    @property
    def default_attacks(self) -> Plan:
        """Return a plan of every attack that a default audit runs and those named here, on the same
        terms."""
        own = [name for name in self.only if name != PROMISES and name not in attack_names()]
        more = tuple(dict.fromkeys((*own, *self.more)))
        return replace(self, only=(), more=more, adversaries=(), attacks_only=True)

    @property
    def has_default_attacks(self) -> bool:
        """Return whether every attack is run from every place that a default audit takes."""
        kinds = {kind for attack in self.attacks for kind in attack.adversaries}
        places = {DEFAULT_ADVERSARY[kind] for kind in kinds}
        return not self.only and (not self.adversaries or places <= set(self.adversaries))

    @property
    def asked(self) -> str:
        """Return the subject of the audit in words."""
        if self.attacks_only:
            return ", and ".join(("every attack", *self.more))
        named = ", ".join((*self.only, *self.adversaries)) or "everything"
        return ", and ".join((named, *self.more))

    def ended_note(self, settings: AuditSettings) -> EndedAudit:
        """Return the note that is kept if this audit of a run with these settings came to its
        end."""
        return EndedAudit(asked=self.asked, terms=self.audit_terms(settings))

    def audit_terms(self, settings: AuditSettings) -> str:
        """Return everything beside the run that a verdict may depend on and that is not the
        default.

        The terms are told with every finding, because retrying them until the verdict is mild would
        be p-hacking.
        """
        default, term_texts = AuditSettings(), [f"--seed {self.seed}"] if self.seed else []
        if self.network:
            term_texts.append(f"--network {self.network}")
        if self.data is not None:
            term_texts.append(f"--data {self.data}")
        if self.trials != TRIALS:
            term_texts.append(f"--trials {self.trials}")
        if self.thorough:
            term_texts.append("--thorough")
        for name in JUDGING:
            value = getattr(settings, name)
            if name != "attack_seconds" and value != getattr(default, name):
                term_texts.append(f"--set audit.{name}={value}")
        return " ".join(term_texts)

    @property
    def whole(self) -> bool:
        """Return whether everything is asked for, from everybody's place."""
        return not (self.only or self.adversaries or self.attacks_only)


@dataclass(frozen=True)
class Task:
    """A task: one attack from one adversary's place."""

    attack: AnyAttack
    adversary: str


def adversaries_of(plan: Plan, attack: AnyAttack) -> Iterator[str]:
    """Return the adversaries in whose place this attack is run."""
    if not plan.adversaries:
        yield from (DEFAULT_ADVERSARY[kind] for kind in sorted(attack.adversaries))
    for text in plan.adversaries:
        if Adversary.parse(text).kind in attack.adversaries:
            yield text
