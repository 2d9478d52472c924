"""Signed pages: who built a page from a run, and that neither has changed since.

`signatures.json` holds, for every page, an Ed25519 signature over its SHA-256 and over those of all
files that it was built from, and of the model. The key is kept in the run's private folder, or
given; whoever trusts a page knows the public half beforehand.
"""

from __future__ import annotations

import json
import math
import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from securefg.foundation.errors import InputError, RunFolderError
from securefg.foundation.files import write_json
from securefg.foundation.json_text import read_json
from securefg.privacy.ledger import Ledger, read_ledger
from securefg.protocol.transcript import broken_link
from securefg.run.assembly import Experiment, prepare
from securefg.run.epsilons import epsilons
from securefg.run.findings import MISSING
from securefg.run.fingerprints import require_same_data
from securefg.run.folder import RunFolder
from securefg.run.history import FILE as HISTORY
from securefg.run.history import (
    FINDINGS,
    OF_THE_RUN,
    SCORES,
    changed_since_the_end,
    digest,
    digests,
    read_history,
)
from securefg.run.reconcile import unbooked
from securefg.run.stored_findings import findings_of
from securefg.run.summary import ClaimedEpsilon
from securefg.secagg.errors import BadSignature
from securefg.secagg.keys import Identity, verify
from securefg.secagg.secret import SECRET_BYTES, SYSTEM_RANDOM, Secret

FILE = "signatures.json"
KEY = "signing.key"
PURPOSE = "page of a run"
BEHIND = ("config.yaml", *OF_THE_RUN, FINDINGS, SCORES, HISTORY)
PAGES = ("report.html", "dpo.html")


@dataclass(frozen=True)
class Check:
    """One thing that was checked: `wrong` is empty where it holds."""

    name: str
    wrong: str = ""
    note: str = ""


def sign_page(folder: RunFolder, page: Path, key: Path | None = None) -> None:
    """Add the page's signature to the folder's."""
    identity = signing_identity(folder, key)
    stored = _read(folder.path) if (folder.path / FILE).is_file() else {}
    _refuse_cut_history(folder.path, stored)
    behind = {page.name: digest(page), **_behind(folder.path)}
    signature = identity.sign(PURPOSE, _statement(behind))
    stored[page.name] = {
        "digests": behind,
        "key": identity.public.hex(),
        "signature": signature.hex(),
    }
    write_json(folder.path / FILE, stored)


def signing_identity(folder: RunFolder, key: Path | None) -> Identity:
    """The given key, or the run's own, made where there is none."""
    path = key or folder.path / "private" / KEY
    if key is None and not path.is_file():
        path.parent.mkdir(mode=0o700, exist_ok=True)
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "w") as file:
            file.write(SYSTEM_RANDOM(SECRET_BYTES).hex() + "\n")
    try:
        return Identity(Secret(bytes.fromhex(path.read_text().strip())))
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: no signing key; wanted {SECRET_BYTES} bytes in hex") from error


def verify_run(folder: RunFolder, key: str | None = None) -> list[Check]:
    """Hash chain, fingerprints and the signature of every page; a missing one is wrong.

    key  the public key that the pages must be signed with, in hex
    """
    summary = folder.summary()
    chain = broken_link(folder.transcript, summary.transcript_chain)
    checks = [Check("transcript", chain or "", "every message is the one that was recorded")]
    checks += _against_the_data(folder)
    checks += _against_the_history(folder)
    signed = _read(folder.path) if (folder.path / FILE).is_file() else {}
    pages = [name for name in PAGES if name in signed or (folder.path / name).is_file()]
    if not pages:
        checks.append(Check("page", "there is none; `securefg report` builds it"))
    return checks + [_signature(folder.path, name, key) for name in pages]


def _against_the_data(folder: RunFolder) -> list[Check]:
    try:
        experiment = prepare(folder.config())
    except InputError as error:
        return [Check("data", str(error)), Check("epsilon", "it cannot be computed again")]
    return [_fingerprints(folder, experiment), _epsilon(folder, experiment)]


def _against_the_history(folder: RunFolder) -> list[Check]:
    """What the run's end and its audits left is what is there, and none of it is missing."""
    try:
        history = read_history(folder.path)
        changed = changed_since_the_end(folder.path, history)
        found = findings_of(folder.path, folder.summary().transcript_chain) or ()
    except RunFolderError as error:
        return [Check("audits", str(error))]
    end = f"changed since the run ended: {', '.join(changed)}" if changed else ""
    gone = "; ".join(finding.because for finding in found if finding.attack == MISSING)
    audits = [entry for entry in history if entry.what == "audit"]
    scores = digests(folder.path, (SCORES,)).get(SCORES)
    if not gone and audits and audits[-1].ended and audits[-1].files[SCORES] != scores:
        gone = f"{SCORES}: changed since {audits[-1].words} wrote it"
    note = f"{len(audits)} in the history; the findings are what they wrote"
    return [Check("run", end, "its results are what its end left"), Check("audits", gone, note)]


def _refuse_cut_history(folder: Path, signed: dict[str, Any]) -> None:
    """A page tells the last link of the history that it was made of: that one is still there."""
    links = {entry.link for entry in read_history(folder)}
    for name, entry in signed.items():
        told = entry.get("digests", {}).get(HISTORY) if isinstance(entry, dict) else None
        if told is not None and told not in links:
            raise RunFolderError(
                f"{folder / HISTORY}: what {name} was made of is no longer in it: entries were "
                f"taken away; delete {FILE} to sign all the same"
            )


def _fingerprints(folder: RunFolder, experiment: Experiment) -> Check:
    name, note = "data", "features, labels, edges, split, partition and shards are the run's"
    try:
        require_same_data(folder, experiment)
    except InputError as error:
        return Check(name, str(error))
    return Check(name, "", note)


def _epsilon(folder: RunFolder, experiment: Experiment) -> Check:
    """What the summary claims follows from the ledger, or is more."""
    told, ledger = folder.summary().epsilon, Ledger(experiment.partition.num_clients)
    try:
        ledger.record(list(read_ledger(folder.ledger_path)))
        lost = unbooked(folder)
    except InputError as error:
        return Check("epsilon", str(error))
    if lost is not None:
        return Check("epsilon", f"{folder.ledger_path.name}: {lost}")
    for unit, booked in epsilons(experiment, ledger).items():
        if unit not in told or _is_less(told[unit], booked):
            return Check("epsilon", f"per {unit} the summary claims less than was booked")
    return Check("epsilon", "", "the claims follow from the ledger")


def _is_less(told: ClaimedEpsilon, booked: ClaimedEpsilon) -> bool:
    said, found = (math.inf if c.epsilon is None else c.epsilon for c in (told, booked))
    about = (told.delta, told.holders, told.relation) != (
        booked.delta,
        booked.holders,
        booked.relation,
    )
    return about or (told.private and not booked.private) or not said >= found * (1 - 1e-6)


def _signature(folder: Path, name: str, key: str | None) -> Check:
    entry = _read(folder).get(name) if (folder / FILE).is_file() else None
    if entry is None:
        return Check(name, "it is not signed; `securefg report` signs it")
    try:
        signed, public = dict(entry["digests"]), bytes.fromhex(entry["key"])
        verify(public, bytes.fromhex(entry["signature"]), PURPOSE, _statement(signed))
    except (BadSignature, KeyError, ValueError, TypeError):
        return Check(name, "its signature does not fit")
    if not (folder / name).is_file():
        return Check(name, "it was signed and is not here")
    if key is not None and public.hex() != key.lower():
        return Check(name, f"signed by {public.hex()[:16]}…, not by the key that was given")
    now = {name: digest(folder / name), **_behind(folder)}
    changed = sorted(part for part in {*signed, *now} if signed.get(part) != now.get(part))
    if changed:
        return Check(name, f"changed since it was signed: {', '.join(changed)}")
    return Check(name, "", f"signed by {public.hex()}")


def _behind(folder: Path) -> dict[str, str]:
    """Of the history the last link, which later entries keep."""
    found = digests(folder, BEHIND)
    with suppress(RunFolderError):  # of one that cannot be read, its bytes
        history = read_history(folder)
        found |= {HISTORY: history[-1].link} if history else {}
    return found


def _statement(found: dict[str, str]) -> str:
    return json.dumps(found, sort_keys=True)


def _read(folder: Path) -> dict[str, Any]:
    try:
        tree = read_json(folder / FILE)
    except (OSError, ValueError) as error:
        raise RunFolderError(f"{folder / FILE}: no signatures can be read here") from error
    if not isinstance(tree, dict):
        raise RunFolderError(f"{folder / FILE}: found {type(tree).__name__}; wanted pages")
    return tree
