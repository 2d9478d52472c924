"""Whether all that a site keeps of a run fits together: its books, the run's ledger, the masks'.

What clients remember of masked sessions is written first (`hosting.require_memory`), then the books
of the site, then the ledger of the run. So whatever a later one has, the earlier ones have; where
not, a file was lost or put back, and the site takes no part until somebody has looked.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from securefg.engines.endpoint import Endpoint
from securefg.foundation.errors import BooksDamaged
from securefg.privacy.ledger import Release, read_ledger


def check_ledger(path: Path, booked: Iterable[Release]) -> None:
    """The run's own ledger has nothing that the books have not."""
    extra = Counter(map(_text, read_ledger(path))) - Counter(map(_text, booked))
    if extra:
        raise BooksDamaged(
            f"{path}: {extra.total()} releases that the site's books do not have: the books were "
            "lost or put back; put back those that fit"
        )


def check_agreed(endpoint: Endpoint, booked: Iterable[Release]) -> None:
    """A host's clients agreed to have no upload opened that the books do not have."""
    if endpoint.secure is None:
        return
    kinds = {message.__name__: message.kind for message in endpoint.method.every_message}
    left = {
        (release.round, kinds[release.mechanism.field.partition(".")[0]], client)
        for release in booked
        for client in release.clients.numbers()
    }
    for round, kind, client in sorted(endpoint.secure.memory.agreed_to() - left):
        raise BooksDamaged(
            f"ledger.jsonl does not have {kind} of client {client} in round {round}, which "
            f"{endpoint.name} agreed to have opened: the books were lost or put back"
        )


def _text(release: Release) -> str:
    return json.dumps(release.to_json(), sort_keys=True)
