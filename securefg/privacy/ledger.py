"""The ledger: every private release as a fact (who, what, unit, mechanism, when), no arithmetic.

Accountants interpret the facts. A release without noise is booked as such and makes every claim
infinite. Nothing is ever booked as zero.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Annotated, Any, ClassVar, Final, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import ConfigDict, Field, TypeAdapter, ValidationError

from securefg.foundation.errors import ProtocolError, RunFolderError
from securefg.foundation.log import Log, read_log
from securefg.foundation.settings import explain_fault
from securefg.protocol.codec import Clients

OpenedBy = Literal["server", "recipients"]
Accounting = Literal["gaussian", "gaussian_steps", "zcdp"]
"""How a noise multiplier z is read: the exact trade-off of a Gaussian; that of Gaussian steps of a
training, whose rows add up in one vector; or zCDP with rho = 1 / (2 z^2) and no exact trade-off."""
LOG: Final = "ledger"

_STRICT: Final = ConfigDict(strict=True, allow_inf_nan=False, extra="forbid")
Count = Annotated[int, Field(ge=0, lt=2**63)]
Share = Annotated[float, Field(ge=0, le=1)]


@dataclass(frozen=True)
class Reach:
    """A noise that one node, or one edge, meets in one release.

    noise_multiplier  sigma over the distance that it moves what is seen; None: there is no bound
    times             how many such noises it meets: once at every holder; 0: it moves nothing
    removal           the distance is of its removal; else of any change
    """

    __pydantic_config__: ClassVar = _STRICT

    noise_multiplier: float | None
    times: Count = 1
    sampling: Share = 1.0
    removal: bool = False


NO_BOUND: Final = Reach(None)


@dataclass(frozen=True)
class Mechanism:
    """A record of what was done to a field, as far as accounting needs it. It is hashable, so equal
    ones compose.

    noise_multiplier  sigma over the sensitivity of the unit `per`, or None where nothing was added
    num_rows          how many rows a message has, where the unit is the row
    sampling          probability with which a hidden Poisson sample drew the unit, else 1
    steps             how many noisy steps one release holds, where the noise is in the training
    protects          False where the noise came from a seed
    masked            nobody saw the single upload: a sum alone was opened
    opened_by         who opened the sum: the server, or the recipients, each its own
    accounting        how the noise multipliers are to be read
    node, edge        what one of these meets, over all its holders
    """

    __pydantic_config__: ClassVar = _STRICT

    field: str
    rule: str
    per: Literal["message", "row"] = "message"
    noise_multiplier: float | None = None
    num_rows: Count = 1
    sampling: Share = 1.0
    steps: Count = 1
    adjacency: str = "replace_one"
    protects: bool = True
    masked: bool = False
    opened_by: OpenedBy = "server"
    node: Reach = NO_BOUND
    edge: Reach = NO_BOUND
    accounting: Accounting = "gaussian"

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Mechanism:
        """Return the mechanism. Raise ValueError for facts that no rule books: noise of NaN or
        infinity, negative steps, other types."""
        if "accounting" not in data:
            raise ValueError(
                "mechanism.accounting: found none; expected how the noise is accounted: an older "
                "version wrote it; read it with that version"
            )
        try:
            return _validate_mechanism(json.dumps(data))
        except ValidationError as error:
            raise ValueError(f"mechanism.{explain_fault(error)}") from None


_MECHANISM = TypeAdapter(Mechanism)


@lru_cache(maxsize=256)
def _validate_mechanism(text: str) -> Mechanism:
    """Return the mechanism of a text. Results are kept, because a ledger repeats a few
    mechanisms."""
    return _MECHANISM.validate_json(text)


@dataclass(frozen=True)
class Release:
    """A private field that left each of `clients` once. `attempt` grows with every resume."""

    mechanism: Mechanism
    clients: Clients
    round: int
    step: int
    attempt: int = 1

    def to_json(self) -> dict[str, Any]:
        """Return the release as a JSON object."""
        return {**vars(self), "mechanism": _in_json(self.mechanism), "clients": str(self.clients)}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Release:
        """Return the release of a JSON object. Raise ValueError if it is malformed."""
        mechanism = Mechanism.from_json(data.pop("mechanism"))
        if not all(type(data.get(name, 1)) is int for name in ("round", "step", "attempt")):
            raise ValueError("round, step and attempt are whole numbers")
        return cls(mechanism=mechanism, clients=Clients.parse(data.pop("clients")), **data)


@cache
def _in_json(mechanism: Mechanism) -> dict[str, Any]:
    """Return a mechanism as a JSON object. Results are kept, because a run has few mechanisms."""
    return asdict(mechanism)


class Ledger:
    """A count of releases per mechanism and client, appended to a file before they are used.

    sync  whether the file is waited for; not where other books, which are, have the same
    """

    def __init__(self, num_clients: int, path: Path | None = None, *, sync: bool = True) -> None:
        self.num_clients = num_clients
        self.file = None if path is None else ledger_file(path, sync=sync)
        self._counts: dict[Mechanism, NDArray[np.int64]] = {}

    def record(self, releases: list[Release]) -> None:
        """Book releases. When it returns they are on the disk (`sync`)."""
        for release in releases:
            self._count_release(release)
        if self.file is not None and releases:
            self.file.append([release.to_json() for release in releases])

    def _count_release(self, release: Release) -> None:
        ranges = release.clients.ranges
        if not all(0 <= low < high <= self.num_clients for low, high in ranges):
            raise ProtocolError(
                f"a release by clients {release.clients}; there are {self.num_clients}"
            )
        counts = self._counts.get(release.mechanism)
        if counts is None:
            counts = self._counts[release.mechanism] = np.zeros(self.num_clients, dtype=np.int64)
        for low, high in ranges:
            counts[low:high] += 1

    @property
    def mechanisms(self) -> tuple[Mechanism, ...]:
        """Return the mechanisms that were booked."""
        return tuple(self._counts)

    def counts(self, mechanism: Mechanism) -> NDArray[np.int64]:
        """Return how often each client made a release of this kind."""
        return self._counts[mechanism].copy()

    def profiles(self, clients: Clients | None = None) -> list[dict[Mechanism, int]]:
        """Return the distinct lists of releases that clients have, without those within another
        one."""
        if not self._counts:
            return []
        chosen = slice(None) if clients is None else clients.numbers()
        table = np.unique(np.stack(list(self._counts.values()), axis=1)[chosen], axis=0)
        kept = [row for row in table if not _is_within_another(row, table)]
        return [dict(zip(self._counts, map(int, row), strict=True)) for row in kept]

    @classmethod
    def resume(
        cls, path: Path, num_clients: int, up_to_round: int, keep_later: bool, *, sync: bool = True
    ) -> Ledger:
        """Read a ledger back and return it. Releases after `up_to_round` count only if they were
        truly made anew (fresh noise): a repeated upload with the same bytes tells nothing twice."""
        ledger = cls(num_clients, path, sync=sync)
        everything = list(read_ledger(path))
        kept = [r for r in everything if keep_later or r.round <= up_to_round]
        if ledger.file is not None and (len(kept) < len(everything) or not path.exists()):
            ledger.file.replace([release.to_json() for release in kept])
        for release in kept:
            ledger._count_release(release)
        return ledger


def _is_within_another(row: NDArray[np.int64], table: NDArray[np.int64]) -> bool:
    return bool(((table >= row).all(1) & (table > row).any(1)).any())


def ledger_file(path: Path, *, sync: bool = True) -> Log:
    """Return the log of a ledger, checked and ready to be appended to."""
    log = Log(path, LOG, sync=sync)
    log.lines()
    return log


def read_ledger(path: Path) -> Iterator[Release]:
    """Yield the releases of a ledger file. Only the last line may be torn by a crash."""
    for number, (entry, _) in enumerate(read_log(path, LOG), 1):
        try:
            yield Release.from_json(entry)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise RunFolderError(f"{path}:{number}: not a release: {error}") from error
