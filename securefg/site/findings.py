"""Parts of its audit that a site shares: findings, no rows, signed with the key of its certificate.

site_findings.json   {statement, certificate, signature}; the statement holds the site's name, the
                     run, the last link of the site's own record, and the findings
"""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from audits.findings.record import Finding
from securefg.foundation.errors import DataError
from securefg.foundation.files import write_json
from securefg.foundation.json_text import read_json
from securefg.foundation.settings import explain_fault
from securefg.site.certificates import Root, Signer

PURPOSE = "site-findings"
FILE = "site_findings.json"


@dataclass(frozen=True)
class SiteFindings:
    """One site's word about its own part of a run.

    record  the last link of its record: a later change of it shows
    """

    site: str
    run: str
    config_hash: str
    record: str
    findings: tuple[Finding, ...]

    def statement(self) -> dict[str, Any]:
        """Without groups: how many of a site's nodes are of a class or degree is not shared; nor is
        what an attack said when it broke off, which may quote a row."""
        return {
            "site": self.site,
            "run": self.run,
            "config_hash": self.config_hash,
            "record": self.record,
            "findings": [_without_rows(one) for one in self.findings],
        }


def _without_rows(found: Finding) -> dict[str, Any]:
    told = found.model_dump(mode="json", exclude={"groups"})
    return told | ({"because": "it failed; the reason stays at the site"} if found.failed else {})


def write_shared(found: SiteFindings, signer: Signer, path: Path) -> Path:
    """Write the file that the site may pass on; nothing is sent."""
    statement = found.statement()
    write_json(
        path,
        {
            "statement": statement,
            "certificate": signer.certificate.decode(),
            "signature": base64.b64encode(
                signer.sign(PURPOSE, _statement_bytes(statement))
            ).decode(),
        },
    )
    return path


def read_shared(path: Path, root: Root) -> SiteFindings:
    """Raise unless the site that it names signed it, under this federation's root."""
    try:
        tree = read_json(path)
        statement = tree["statement"]
        signature = base64.b64decode(tree["signature"], validate=True)
        certificate = tree["certificate"].encode()
        name, signed = str(statement["site"]), _statement_bytes(statement)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise DataError(f"{path}: not what `securefg deploy audit` writes: {error}") from error
    root.check(name, certificate, signature, PURPOSE, signed)
    try:
        return SiteFindings(
            site=name,
            run=str(statement["run"]),
            config_hash=str(statement["config_hash"]),
            record=str(statement["record"]),
            findings=tuple(Finding.model_validate(one) for one in statement["findings"]),
        )
    except (ValidationError, KeyError, TypeError) as error:
        why = explain_fault(error)
        raise DataError(f"{path}: findings of another version: {why}") from error


def _statement_bytes(statement: dict[str, Any]) -> bytes:
    return json.dumps(statement, sort_keys=True, allow_nan=False).encode()
