"""A signed correction of a site's clock, chained into its books.

Books refuse a clock that lies before their last line, because a clock that is set back would give
a month's budget anew. A clock that ran ahead for a while therefore locks the books until the time
that it told. The site's operator lifts the lock with a line that is signed with the site's
certificate key:

    {"time": now, "clock_set_back": {site, log, after, was, now, reason, certificate, signature}}

`after` is the link of the line before, so that no correction serves twice. Lines that were written
ahead of time keep their time. They count for the month until 31 days after that time.
"""

from __future__ import annotations

import base64
import datetime
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import rsa

from securefg.foundation.errors import BooksDamaged, ConfigError, SecurefgError
from securefg.foundation.log import Clock, Line, Log, utc_now
from securefg.foundation.quoting import printable, shown
from securefg.site.certificates import Root, Signer, check_signature

KEY: Final = "clock_set_back"
PURPOSE: Final = "clock of a site's books"
LONGEST_REASON: Final = 500


@dataclass(frozen=True)
class Correction:
    """An operator's word that the clock ran ahead.

    after     the link of the last line before the correction
    was, now  the time of that line, and the time by the corrected clock
    """

    site: str
    log: str
    after: str
    was: str
    now: str
    reason: str
    certificate: str
    signature: str = ""

    @property
    def statement(self) -> tuple[str, ...]:
        """The items that are signed: all but the signature."""
        return (self.site, self.log, self.after, self.was, self.now, self.reason, self.certificate)


def open_book(path: Path, now: Clock = utc_now) -> Log:
    """Return one of a site's books, to which several processes of the site append."""
    return Log(
        path,
        f"book {path.stem}",
        shared=True,
        clock=now,
        damaged=BooksDamaged,
        set_back_by=check_correction,
    )


def correct_clock(paths: list[Path], signer: Signer, reason: str, now: Clock = utc_now) -> int:
    """Return how many books were behind the clock's correction. Raise where none is ahead."""
    reason = printable(reason.strip(), keep="")
    if not 0 < len(reason) <= LONGEST_REASON:
        raise ConfigError(
            f"reason: found {len(reason)} characters; expected 1 to {LONGEST_REASON}, which say "
            "why the clock ran ahead"
        )

    def make(name: str, last: Line, stamp: str) -> Line:
        certificate = signer.certificate.decode()
        said = (signer.name, name, last["link"], last["time"], stamp, reason, certificate)
        signature = base64.b64encode(signer.sign(PURPOSE, *said)).decode()
        return {KEY: asdict(Correction(*said, signature))}

    corrected = sum(open_book(path, now).set_back(make) for path in paths)
    if not corrected:
        raise ConfigError("clock: found no book that is ahead of it; expected one to correct")
    return corrected


def check_correction(name: str, before: Line, line: Line) -> None:
    """Raise unless a line that sets the time back is signed for this very place of this book."""
    try:
        correction = Correction(**line[KEY])
        place = (correction.log, correction.after, correction.was, correction.now)
        if place != (name, before["link"], before["time"], line["time"]):
            raise ValueError("it was signed for another place")
        certificate = x509.load_pem_x509_certificate(correction.certificate.encode())
        key, signature = (
            certificate.public_key(),
            base64.b64decode(correction.signature, validate=True),
        )
        if not isinstance(key, rsa.RSAPublicKey):
            raise ValueError("its certificate has no RSA key")
        check_signature(key, signature, PURPOSE, *correction.statement, name=correction.site)
    except (KeyError, TypeError, ValueError, AttributeError, SecurefgError) as error:
        raise BooksDamaged(
            f"{name}: found a line that sets the clock back; expected a correction that the site "
            f"signed: {shown(error)}"
        ) from error


def check_corrections(lines: list[Line], site: str, root: Root) -> None:
    """Raise unless every correction among the lines was signed by this site, under this root."""
    for line in lines:
        found = line.get(KEY)
        if found is not None:
            signed = Correction(**found)
            root.check(
                site,
                signed.certificate.encode(),
                base64.b64decode(signed.signature),
                PURPOSE,
                *signed.statement,
                now=datetime.datetime.fromisoformat(signed.now),
            )


def without_corrections(lines: list[Line]) -> list[dict[str, Any]]:
    """Return the lines of a book that tell of jobs, requests or scores."""
    return [line for line in lines if KEY not in line]
