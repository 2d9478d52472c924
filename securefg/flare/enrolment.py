"""Keys are born where they live: a party makes its own, and asks for a certificate.

    securefg deploy request bank-a --out bank-a.own      at the bank: keys, and a request
        bank-a.own/private/party.key, masking.keys       stay there
        bank-a.own/request.json                          goes to the one who provisions
    securefg deploy install KIT bank-a.own               at the bank: completes the kit

A request holds a certificate signing request and the public halves of the masking keys, signed with
the party's key.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.oid import NameOID

from securefg.foundation.errors import ConfigError, DataError, ProtocolError
from securefg.foundation.files import write_json
from securefg.foundation.json_text import read_json
from securefg.protocol.codec import Clients
from securefg.secagg.keys import Identity
from securefg.secagg.secret import SECRET_BYTES, SYSTEM_RANDOM, Secret
from securefg.site.certificates import Signer, check_signature
from securefg.site.roster import PURPOSE, signed_keys

BITS = 3072


@dataclass(frozen=True)
class Request:
    """A party's wish for a certificate, checked: it has the key, and signed the masking keys."""

    party: str
    public: rsa.RSAPublicKey
    masking_keys: tuple[bytes, ...]
    signature: bytes

    @classmethod
    def read(cls, path: Path) -> Request:
        """Return the request in a file. Raise `DataError` unless its party signed all of it."""
        try:
            data = read_json(path)
            wish = x509.load_pem_x509_csr(data["csr"].encode())
            keys = tuple(bytes.fromhex(key) for key in data["masking_keys"])
            request = cls(
                str(data["party"]), _rsa_key(wish), keys, bytes.fromhex(data["signature"])
            )
            names = wish.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
            if not wish.is_signature_valid or [str(n.value) for n in names] != [request.party]:
                raise ValueError("the request is not signed by the party that it names")
            signed = signed_keys(request.party, request.masking_keys)
            check_signature(request.public, request.signature, PURPOSE, *signed)
        except (OSError, ValueError, KeyError, TypeError, AttributeError, ProtocolError) as error:
            raise DataError(f"{path}: not a request of a party: {error}") from error
        return request


def make_request(name: str, folder: Path, num_clients: int) -> Path:
    """New keys in a new folder, and the request beside them."""
    if folder.exists():
        raise ConfigError(f"{folder} exists; wanted a new folder for the keys")
    private = folder / "private"
    private.mkdir(parents=True, mode=0o700)
    folder.chmod(0o700)
    key = rsa.generate_private_key(public_exponent=65537, key_size=BITS)
    _write_secret(private / "party.key", _pem_bytes(key))
    secrets = [SYSTEM_RANDOM(SECRET_BYTES) for _ in range(num_clients)]
    _write_secret(private / "masking.keys", b"".join(secrets))
    keys = tuple(Identity(Secret(secret)).public for secret in secrets)
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    wish = x509.CertificateSigningRequestBuilder().subject_name(subject).sign(key, hashes.SHA256())
    signature = Signer(name, b"", key).sign(PURPOSE, *signed_keys(name, keys))
    write_json(
        folder / "request.json",
        {
            "party": name,
            "csr": wish.public_bytes(serialization.Encoding.PEM).decode(),
            "masking_keys": [key.hex() for key in keys],
            "signature": signature.hex(),
        },
    )
    return folder / "request.json"


def install(kit: Path, own_folder: Path, keys: Path | None, hosts: dict[str, Clients]) -> None:
    """Complete a kit with the party's own keys. Raise unless the certificate is for them."""
    startup = kit / "startup"
    stem = "server" if (startup / "server.crt").exists() else "client"
    try:
        secret = (own_folder / "private" / "party.key").read_bytes()
        masking = (own_folder / "private" / "masking.keys").read_bytes()
        key = serialization.load_pem_private_key(secret, password=None)
        certificate = x509.load_pem_x509_certificate((startup / f"{stem}.crt").read_bytes())
    except (OSError, ValueError) as error:
        raise DataError(f"{kit}, {own_folder}: {error}") from error
    if certificate.public_key() != key.public_key():
        raise ConfigError(f"{startup / f'{stem}.crt'}: not for the key in {own_folder}")
    _write_secret(startup / f"{stem}.key", secret)
    if keys is not None:
        keys.mkdir(parents=True, exist_ok=True, mode=0o700)
        parts = [masking[i : i + SECRET_BYTES] for i in range(0, len(masking), SECRET_BYTES)]
        if len(parts) != sum(map(len, hosts.values())):
            raise ConfigError(f"{own_folder}: {len(parts)} masking keys; the plan has {hosts}")
        for name, clients in hosts.items():
            _write_secret(keys / f"{name}.keys", b"".join(parts[: len(clients)]))
            parts = parts[len(clients) :]


def _write_secret(path: Path, content: bytes) -> None:
    path.unlink(missing_ok=True)
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _pem_bytes(key: rsa.RSAPrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.TraditionalOpenSSL,
        serialization.NoEncryption(),
    )


def _rsa_key(wish: x509.CertificateSigningRequest) -> rsa.RSAPublicKey:
    found = wish.public_key()
    if not isinstance(found, rsa.RSAPublicKey) or found.key_size < 2048:
        raise ValueError("wanted an RSA key of 2048 bits or more")
    return found
