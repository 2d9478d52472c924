"""The federation's root: signs what parties made themselves, and is then forgotten.

The root's key lives in the memory of the process that provisions and is written nowhere: nobody can
make a certificate of this federation afterwards. A party that sent a request keeps its key; for one
that did not (a rehearsal) a key is made and lies in its kit alone.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric import rsa
from nvflare.lighter.impl import cert
from nvflare.lighter.impl.cert import CertBuilder
from nvflare.lighter.utils import serialize_cert, serialize_pri_key


class SigningBuilder(CertBuilder):  # type: ignore[misc]
    """In FLARE's provisioning, in place of its own builder, which keeps everybody's keys."""

    def __init__(self, requested: Mapping[str, rsa.RSAPublicKey]) -> None:
        super().__init__()
        self._requested = requested

    def _build_write_cert_pair(self, participant: Any, base_name: str, ctx: Any) -> None:
        folder = Path(ctx.get_kit_dir(participant))
        key, certificate = self._sign_participant(participant)
        (folder / f"{base_name}.crt").write_bytes(serialize_cert(certificate))
        (folder / "rootCA.pem").write_bytes(self.serialized_cert)
        if key is not None:
            path = folder / f"{base_name}.key"
            handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(handle, "wb") as file:
                file.write(serialize_pri_key(key))

    def _sign_participant(self, participant: Any) -> tuple[Any, Any]:
        """A certificate, and the key behind it where it was made here."""
        public = self._requested.get(participant.name)
        if public is None:
            return self.get_pri_key_cert(participant)  # type: ignore[no-any-return]
        make, cert.generate_keys = cert.generate_keys, lambda: (None, public)
        try:
            return self.get_pri_key_cert(participant)  # type: ignore[no-any-return]
        finally:
            cert.generate_keys = make

    def finalize(self, project: Any, ctx: Any) -> None:
        """Nothing is kept: FLARE would write all keys, the root's too, into one open file."""
        self.pri_key = None
