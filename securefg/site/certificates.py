"""Signing with the key of a party's certificate, and checking by whom something was signed.

NVIDIA FLARE's provisioning gives every party a certificate under one root. Its TLS proves to each
end who the other end is; a message that was relayed proves nothing, so what must be somebody's own
word (a request of the server's, a site's reply, a site's masking keys) is signed with that key.
"""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from cryptography.x509.oid import NameOID

from securefg.foundation.errors import DataError, ProtocolError
from securefg.secagg.encoding import Item, encode

PROTOCOL = "securefg-deploy"
VERSION = 1


class BadCertificate(ProtocolError):
    """A certificate that is not of this federation, or not of the party that it is shown for."""


class NotSigned(ProtocolError):
    """A statement that the party did not sign."""


@dataclass(frozen=True)
class Signer:
    """A party's own key, with the certificate that others check it by. Never printed."""

    name: str
    certificate: bytes
    _key: rsa.RSAPrivateKey

    def __repr__(self) -> str:
        return f"Signer({self.name})"

    @classmethod
    def load(cls, startup: Path) -> Signer:
        """From a start-up kit, a server's or a site's."""
        stem = "server" if (startup / "server.key").exists() else "client"
        try:
            certificate = (startup / f"{stem}.crt").read_bytes()
            key = serialization.load_pem_private_key(
                (startup / f"{stem}.key").read_bytes(), password=None
            )
        except (OSError, ValueError) as error:
            raise DataError(f"{startup}: wanted {stem}.crt and {stem}.key: {error}") from error
        if not isinstance(key, rsa.RSAPrivateKey):
            raise DataError(f"{startup}/{stem}.key: found {type(key).__name__}; wanted RSA")
        return cls(_common_name(x509.load_pem_x509_certificate(certificate)), certificate, key)

    def sign(self, purpose: str, *items: Item) -> bytes:
        """Return the signature on the items, for this purpose."""
        return self._key.sign(
            _signed_statement(purpose, items), padding.PKCS1v15(), hashes.SHA256()
        )


@dataclass(frozen=True)
class Root:
    """The federation's root: decides whether a certificate is a party's."""

    certificate: x509.Certificate

    @classmethod
    def load(cls, startup: Path) -> Root:
        """Return the root certificate in a start-up kit."""
        path = startup / "rootCA.pem"
        try:
            return cls(x509.load_pem_x509_certificate(path.read_bytes()))
        except (OSError, ValueError) as error:
            raise DataError(f"{path}: no root certificate: {error}") from error

    def check(
        self,
        name: str,
        certificate: bytes,
        signature: bytes,
        purpose: str,
        *items: Item,
        now: datetime.datetime | None = None,
    ) -> None:
        """Raise unless `name`, by a certificate under this root, signed the items."""
        key = self._key_of(name, certificate, now or datetime.datetime.now(datetime.UTC))
        check_signature(key, signature, purpose, *items, name=name)

    def _key_of(self, name: str, pem: bytes, now: datetime.datetime) -> rsa.RSAPublicKey:
        try:
            certificate = x509.load_pem_x509_certificate(pem)
            certificate.verify_directly_issued_by(self.certificate)
        except (ValueError, TypeError, InvalidSignature):
            raise BadCertificate(f"{name}: a certificate of another federation") from None
        if _common_name(certificate) != name:
            raise BadCertificate(f"{name}: the certificate shown is {_common_name(certificate)}'s")
        if not certificate.not_valid_before_utc <= now <= certificate.not_valid_after_utc:
            raise BadCertificate(
                f"{name}: its certificate is valid from {certificate.not_valid_before_utc} "
                f"to {certificate.not_valid_after_utc}, not now"
            )
        key = certificate.public_key()
        if not isinstance(key, rsa.RSAPublicKey):
            raise BadCertificate(f"{name}: found {type(key).__name__}; wanted RSA")
        return key


def check_signature(
    key: rsa.RSAPublicKey, signature: bytes, purpose: str, *items: Item, name: str = "its sender"
) -> None:
    """Raise unless the items were signed with the key's other half."""
    try:
        key.verify(
            signature, _signed_statement(purpose, items), padding.PKCS1v15(), hashes.SHA256()
        )
    except InvalidSignature:
        raise NotSigned(f"{purpose}: the signature is not {name}'s") from None


def _common_name(certificate: x509.Certificate) -> str:
    names = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    return str(names[0].value) if names else ""


def _signed_statement(purpose: str, items: tuple[Item, ...]) -> bytes:
    return encode((PROTOCOL, VERSION, purpose, *items))
