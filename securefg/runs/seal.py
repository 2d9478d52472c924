"""A run's manifest: one signature over its pages, and over all files that they were built from.

`manifest.json` holds the SHA-256 of every such file and of the model, the last link of the history,
and one Ed25519 signature over all of this. The key is kept in the run's private folder, or given. A
reader who trusts a page knows the public half beforehand. A page that was signed with another key,
or over files that have changed since, is outdated until it is built again.
"""

from __future__ import annotations

import json
import math
import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from audits.findings.history import FILE as HISTORY
from audits.findings.history import (
    FINDINGS,
    OF_THE_RUN,
    SCORES,
    changed_since_the_end,
    file_digest,
    file_digests,
    read_history,
)
from audits.findings.record import MISSING
from audits.findings.stored import findings_of
from securefg.foundation.errors import InputError, RunFolderError
from securefg.foundation.files import write_json
from securefg.foundation.json_text import read_bounded
from securefg.foundation.settings import Settings, explain_fault
from securefg.privacy.ledger import Ledger, read_ledger
from securefg.protocol.transcript import broken_link
from securefg.runs.assembly import Experiment, prepare
from securefg.runs.epsilons import claim_epsilons
from securefg.runs.fingerprints import require_same_data
from securefg.runs.folder import RunFolder
from securefg.runs.reconcile import check_opened, first_unbooked
from securefg.runs.summary import ClaimedEpsilon
from securefg.secagg.errors import BadSignature
from securefg.secagg.keys import Identity, verify
from securefg.secagg.secret import SECRET_BYTES, SYSTEM_RANDOM, Secret

FILE = "manifest.json"
KEY = "signing.key"
PURPOSE = "manifest of a run"
BEHIND = ("config.yaml", *OF_THE_RUN, FINDINGS, SCORES, HISTORY)
PAGES = ("report.html", "dpo.html")


@dataclass(frozen=True)
class Check:
    """A thing that was checked: `wrong` and `unchecked` are empty where it holds.

    unchecked  why it could not be checked
    """

    name: str
    wrong: str = ""
    note: str = ""
    unchecked: str = ""

    @property
    def is_met(self) -> bool:
        """Return whether it was checked and holds."""
        return not self.wrong and not self.unchecked


class Manifest(Settings):
    """A list of what a folder holds, with its signature.

    files   SHA-256 by name; of the history its last link, which later entries keep
    pages   SHA-256 of the pages that were built from these files; "" for one that is outdated
    key     the public half, in hex
    """

    format: Literal[2] = 2
    files: dict[str, str]
    pages: dict[str, str]
    key: str
    signature: str = ""

    @property
    def statement(self) -> str:
        """Return the text that is signed: all of the manifest but the signature."""
        return json.dumps(self.model_dump(mode="json", exclude={"signature"}), sort_keys=True)

    @property
    def is_signed(self) -> bool:
        """Return whether the owner of the key signed this very manifest."""
        try:
            key, signature = bytes.fromhex(self.key), bytes.fromhex(self.signature)
            verify(key, signature, PURPOSE, self.statement)
        except (BadSignature, ValueError):
            return False
        return signature.hex() == self.signature


def sign_page(folder: RunFolder, page: Path, key: Path | None = None) -> None:
    """Sign a page, and whatever it was built from, in the folder's manifest."""
    require_signer(folder, key)
    identity, before = signing_identity(folder, key), read_manifest(folder.path)
    files, public, pages = _digests_behind(folder.path), identity.public.hex(), dict[str, str]()
    if before is not None:
        _refuse_cut_history(folder.path, before)
        same = (before.files, before.key) == (files, public) and before.is_signed
        pages = before.pages if same else dict.fromkeys(before.pages, "")
    pages = {**pages, page.name: file_digest(page)}
    manifest = Manifest(files=files, pages=pages, key=public)
    signature = identity.sign(PURPOSE, manifest.statement).hex()
    signed = manifest.model_copy(update={"signature": signature})
    write_json(folder.path / FILE, signed.model_dump(mode="json"))


def absent_signer(folder: RunFolder, key: Path | None = None) -> str:
    """Return the public key that signed the folder's manifest if its owner is not here: no key is
    given, and the run's own is another or gone. The text is empty in all other cases."""
    manifest = read_manifest(folder.path)
    if key is not None or manifest is None:
        return ""
    has_own = (folder.path / "private" / KEY).is_file()
    is_owner = has_own and signing_identity(folder, None).public.hex() == manifest.key
    return "" if is_owner else manifest.key


def require_signer(folder: RunFolder, key: Path | None) -> None:
    """Raise if another key would replace the signature of an owner who is not here."""
    signer = absent_signer(folder, key)
    if signer:
        raise InputError(
            f"--key: found none, and {FILE} is signed by {signer[:16]}…, whose key is not in this "
            "folder; expected the file of a key to sign with"
        )


def signing_identity(folder: RunFolder, key: Path | None) -> Identity:
    """Return the given key, or the run's own, which is made if there is none."""
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
    """Check logs, fingerprints and the manifest with every page. A missing page is wrong.

    key  the public key that the pages must be signed with, in hex
    """
    sums = _opened_sums(folder)
    if sums.wrong and not folder.finished:
        raise RunFolderError(sums.wrong)
    summary = folder.summary()
    chain = broken_link(folder.transcript, summary.transcript_chain)
    checks = [Check("transcript", chain or "", "every message is the one that was recorded"), sums]
    checks += _against_the_data(folder)
    checks += _against_the_history(folder)
    manifest = read_manifest(folder.path)
    signed = {} if manifest is None else manifest.pages
    pages = [name for name in PAGES if name in signed or (folder.path / name).is_file()]
    if not pages:
        checks.append(Check("page", "there is none; `securefg report` builds it"))
    return checks + [_check_signature(folder.path, manifest, name, key) for name in pages]


def _opened_sums(folder: RunFolder) -> Check:
    try:
        kept = check_opened(folder)
    except RunFolderError as error:
        return Check("sums", str(error))
    note = f"{kept} opened sums are kept; the transcript has them" if kept else "none was opened"
    return Check("sums", "", note)


def _against_the_data(folder: RunFolder) -> list[Check]:
    try:
        experiment = prepare(folder.config())
    except InputError as error:
        without_data = "it cannot be computed again without the data"
        return [
            Check("data", unchecked=str(error)),
            Check("epsilon", unchecked=without_data),
        ]
    return [_check_fingerprints(folder, experiment), _check_epsilon(folder, experiment)]


def _against_the_history(folder: RunFolder) -> list[Check]:
    """Return checks that the files of the run's end and its audits are unchanged, and none is
    missing."""
    try:
        history = read_history(folder.path)
        changed = changed_since_the_end(folder.path, history)
        known_findings = findings_of(folder.path, folder.summary().transcript_chain) or ()
    except RunFolderError as error:
        return [Check("audits", str(error))]
    end = f"changed since the run ended: {', '.join(changed)}" if changed else ""
    gone = "; ".join(finding.because for finding in known_findings if finding.attack == MISSING)
    audits = [entry for entry in history if entry.what == "audit"]
    scores = file_digests(folder.path, (SCORES,)).get(SCORES)
    if not gone and audits and audits[-1].ended and audits[-1].files[SCORES] != scores:
        gone = f"{SCORES}: changed since {audits[-1].words} wrote it"
    note = f"{len(audits)} in the history; the findings are what they wrote"
    return [Check("run", end, "its results are what its end left"), Check("audits", gone, note)]


def _refuse_cut_history(folder: Path, signed: Manifest) -> None:
    """Raise where the history lacks the link that the manifest tells of."""
    told = signed.files.get(HISTORY)
    if told is not None and told not in {entry.link for entry in read_history(folder)}:
        raise RunFolderError(
            f"{folder / HISTORY}: what {FILE} was made of is no longer in it: entries were taken "
            f"away; delete {FILE} to sign all the same"
        )


def _check_fingerprints(folder: RunFolder, experiment: Experiment) -> Check:
    name, note = "data", "features, labels, edges, split, partition and shards are the run's"
    try:
        require_same_data(folder, experiment)
    except InputError as error:
        return Check(name, str(error))
    return Check(name, "", note)


def _check_epsilon(folder: RunFolder, experiment: Experiment) -> Check:
    """Return a check that the summary's claims follow from the ledger, or are more."""
    stated_epsilons, ledger = folder.summary().epsilon, Ledger(experiment.partition.num_clients)
    try:
        ledger.record(list(read_ledger(folder.ledger_path)))
        lost = first_unbooked(folder)
    except InputError as error:
        return Check("epsilon", str(error))
    if lost is not None:
        return Check("epsilon", f"{folder.ledger_path.name}: {lost}")
    for unit, booked in claim_epsilons(experiment, ledger).items():
        if unit not in stated_epsilons or _is_less(stated_epsilons[unit], booked):
            return Check("epsilon", f"per {unit} the summary claims less than was booked")
    return Check("epsilon", "", "the claims follow from the ledger")


def _is_less(stated_claim: ClaimedEpsilon, booked: ClaimedEpsilon) -> bool:
    stated_epsilon, booked_epsilon = (
        math.inf if c.epsilon is None else c.epsilon for c in (stated_claim, booked)
    )
    about = (stated_claim.delta, stated_claim.holders, stated_claim.relation) != (
        booked.delta,
        booked.holders,
        booked.relation,
    )
    return (
        about
        or (stated_claim.private and not booked.private)
        or not stated_epsilon >= booked_epsilon * (1 - 1e-6)
    )


def _check_signature(folder: Path, manifest: Manifest | None, name: str, key: str | None) -> Check:
    if manifest is None or name not in manifest.pages:
        return Check(name, "it is not signed; `securefg report` signs it")
    if not manifest.is_signed:
        return Check(name, f"the signature of {FILE} does not fit")
    if not (folder / name).is_file():
        return Check(name, "it was signed and is not here")
    if not manifest.pages[name]:
        return Check(name, "signed over earlier files or with another key; build it again")
    if key is not None and manifest.key != key.lower():
        return Check(name, f"signed by {manifest.key[:16]}…, not by the key that was given")
    signed = {**manifest.files, name: manifest.pages[name]}
    now = {**_digests_behind(folder), name: file_digest(folder / name)}
    changed = sorted(part for part in {*signed, *now} if signed.get(part) != now.get(part))
    if changed:
        return Check(name, f"changed since it was signed: {', '.join(changed)}")
    return Check(name, "", f"signed by {manifest.key}")


def _digests_behind(folder: Path) -> dict[str, str]:
    """Return the digests of the files behind a page. The history counts by its last link, which
    later entries keep."""
    digest_by_path = file_digests(folder, BEHIND)
    with suppress(RunFolderError):  # of one that cannot be read, its bytes
        history = read_history(folder)
        digest_by_path |= {HISTORY: history[-1].link} if history else {}
    return digest_by_path


def read_manifest(folder: Path) -> Manifest | None:
    """Return the folder's manifest, if it has one. Raise RunFolderError if no signer wrote it."""
    path = folder / FILE
    if not path.is_file():
        return None
    try:
        return Manifest.model_validate_json(read_bounded(path))
    except (OSError, ValueError) as error:
        raise RunFolderError(f"{path}: {explain_fault(error)}; delete it and sign again") from error
