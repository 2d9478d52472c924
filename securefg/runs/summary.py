"""`summary.json`: a finished run in one versioned object, also what pages read.

None stands for infinity. There is never a NaN.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final, Literal

from pydantic import Field, NonNegativeFloat, ValidationError

from securefg.federation.alerts import AlertScore
from securefg.federation.quality import Quality
from securefg.foundation.errors import RunFolderError
from securefg.foundation.json_text import read_bounded
from securefg.foundation.settings import Settings
from securefg.foundation.units import delta_text, epsilon_text
from securefg.privacy.accountants import Relation
from securefg.settings.privacy import Unit

FORMAT: Final = 4
SEEDED: Final = "seeded noise"
ABORTED: Final = "every round was aborted: "
"""The start of the reason why a run ended without any finished round."""


class LinkEpsilon(Settings):
    """The epsilon of a node with at most so many links: of the median node, for instance."""

    whose: str
    links: int
    epsilon: NonNegativeFloat | None


class ClaimedEpsilon(Settings):
    """`epsilon` None and `private` false where a field left without noise; `because` names it.

    Seeded noise has the epsilon that real noise of its size would have, and is not private.

    relation      how neighbouring data differ in the unit
    spent         where the run may end early: what its releases came to. When a run ends follows
                  from the data, so the claim is for all releases that were planned
    holders       the largest number of clients that one unit is with; the claim is over all of them
    num_units     how many units there are, where that is known
    given         what the server is given of the data before the run: infinite for nodes and edges
    not_covered   what left beside the books, in words: no epsilon speaks of it
    by_links      where a node's claim hangs on its number of links: epsilon for others
    """

    epsilon: NonNegativeFloat | None
    delta: float
    private: bool
    because: tuple[str, ...]
    relation: Relation = "replaced"
    spent: NonNegativeFloat | None = None
    holders: int = 1
    num_units: int | None = None
    given: tuple[str, ...] = ()
    not_covered: tuple[str, ...] = ()
    by_links: tuple[LinkEpsilon, ...] = ()

    def about(self, unit: Unit) -> str:
        """Return what the number is about: relation, holders, and how many units delta stands
        beside."""
        name = "feature vector" if unit == "features" else unit
        many = "" if self.num_units is None else f", {self.num_units:,} {name}s in all"
        held = "" if self.holders <= 1 else f", over up to {self.holders} clients that hold it"
        early = ""
        if self.spent is not None:
            early = f"; planned, since the run may end early, {epsilon_text(self.spent)} spent"
        return f"one {name} {self.relation}{held}{many}{early}"

    def bound(self, unit: Unit) -> str:
        """Return the number with all that it stands beside, or what makes it infinite."""
        if self.epsilon is None:
            return f"infinite: sent or given without noise: {', '.join(self.because)}"
        seeded = "; void: the noise is seeded" if SEEDED in self.because else ""
        shown = f"{epsilon_text(self.epsilon)} at delta {delta_text(self.delta)}"
        return f"{shown}: {self.about(unit)}{seeded}"


class ByteCount(Settings):
    """Bytes of message bodies, and of what frames them."""

    payload: int
    envelope: int

    @property
    def total(self) -> int:
        """Return the bytes of bodies and frames together."""
        return self.payload + self.envelope


class BothWays(Settings):
    """Bytes from the clients and to them."""

    up: ByteCount
    down: ByteCount


class LocalAccuracy(Settings):
    """The released model on every client's own test nodes."""

    pooled: float | None
    mean_of_clients: float | None
    by_client: dict[str, float | None] | None


class Recovered(Settings):
    """A count of what algebra recovers from the masked sums.

    holders_recoverable  nodes of which a holder follows from subset sums, or None where unknown
    """

    sessions: int
    smallest_cohort: int
    contributions_recoverable: int | None
    node_rows_recoverable: int | None
    holders_recoverable: int | None = None


class ClientAlerts(Settings):
    """The released model on one client's test nodes, of two classes the second looked for.

    first      precision and recall of as many alerts as `training.alerts` says
    threshold  of all nodes above the threshold that is best on the client's validation nodes
    """

    positives: int
    average_precision: float | None
    first: AlertScore | None
    threshold: AlertScore


class Summary(Settings):
    """A finished run.

    monitor  the validation score that the run went by, also where a rule chose it
    alerts   by client, where there are two classes
    """

    format: Literal[4] = FORMAT
    name: str
    method: str
    dataset: str
    seed: int
    rounds: int
    best_round: int
    stopped: str
    test_accuracy: float | None
    val_accuracy: float | None
    val_loss: float | None
    train_loss: float | None
    val_scores: Quality | None = None
    test_scores: Quality | None = None
    local_test_accuracy: LocalAccuracy | None
    local_scores: dict[str, dict[str, float]] = Field(default_factory=dict)
    bytes: BothWays
    dropped: int
    aborted_rounds: int
    epsilon: dict[Unit, ClaimedEpsilon]
    noise_protects: bool
    masked: dict[str, dict[str, Any]] = Field(default_factory=dict)
    masking_trusts_the_server: bool | None = None
    masking_keys: str | None = None
    masking_committee: str | None = None
    blamed: dict[str, str] = Field(default_factory=dict)
    recovered_by_algebra: Recovered | None = None
    seconds: float
    attempts: int
    chosen: dict[str, str] = Field(default_factory=dict)
    monitor: str | None = None
    alerts: dict[str, ClientAlerts] = Field(default_factory=dict)
    method_facts: dict[str, float] = Field(default_factory=dict)
    device: str
    engine: str
    versions: dict[str, str]
    config_hash: str
    transcript_chain: str
    fingerprints: str | None = None


def read_summary(path: Path) -> Summary:
    """Return the summary. Raise RunFolderError if it is damaged, or if another version wrote it."""
    try:
        return Summary.model_validate_json(read_bounded(path))
    except (OSError, ValueError) as error:
        first = error.errors()[0] if isinstance(error, ValidationError) else None
        where = f"{'.'.join(map(str, first['loc']))}: {first['msg']}" if first else str(error)
        raise RunFolderError(
            f"{path}: {where}; not the summary of a run of this version"
        ) from error
