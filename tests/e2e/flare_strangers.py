"""A user of the machine without any certificate: knocks at every port, with whatever comes."""

from __future__ import annotations

import random
import socket
import ssl
import struct
from pathlib import Path

import msgpack

PREFIX = struct.Struct(">IHBBHHHH")  # of FLARE's frames: length, header's length, type, ...
DATA, HELLO = 1, 4


def frame(kind: int, content: bytes, claimed: int = 0) -> bytes:
    length = claimed or PREFIX.size + len(content)
    return PREFIX.pack(length, 0, kind, 0, 0, 0, 1, 0) + content


def drawn(rng: random.Random) -> bytes:
    """Nonsense, or what looks like FLARE's own first words, with names that are not one's own."""
    name = rng.choice(["server", "bank-a", "bank-a.JOB", "_admin_1", "../x"])
    hello = msgpack.packb({"endpoint_name": name, "timestamp": 0.0, "peer_cn": name})
    return rng.choice(
        [
            rng.randbytes(rng.randint(1, 2000)),
            bytes(rng.randint(1, 2000)),
            frame(rng.randint(0, 9), hello),
            frame(HELLO, hello, claimed=2**31),
            frame(HELLO, hello) + frame(DATA, rng.randbytes(200)),
            b"GET /startup/server.key HTTP/1.1\r\nHost: localhost\r\n\r\n",
            b"cat startup/client.key\n",
        ]
    )


def knock(port: int, message: bytes, context: ssl.SSLContext | None, seconds: float = 1.0) -> bytes:
    """What comes back, if anything."""
    heard = b""
    try:
        with (
            socket.create_connection(("127.0.0.1", port), timeout=seconds) as plain,
            plain if context is None else context.wrap_socket(plain) as line,
        ):
            line.sendall(message)
            while len(heard) < 2**20 and (more := line.recv(65536)):
                heard += more
    except (OSError, ssl.SSLError):
        pass
    return heard


def contexts(folder: Path) -> list[ssl.SSLContext | None]:
    """None at all, TLS without a certificate, and TLS with one that somebody made for himself."""
    bare, own_context = (ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT) for _ in range(2))
    for context in (bare, own_context):
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    own_context.load_cert_chain(*self_made(folder, "server"))
    return [None, bare, own_context]


def self_made(folder: Path, name: str) -> tuple[Path, Path]:
    import datetime

    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import rsa
    from cryptography.x509.oid import NameOID

    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .sign(key, hashes.SHA256())
    )
    folder.mkdir(exist_ok=True)
    paths = folder / "stranger.crt", folder / "stranger.key"
    paths[0].write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    paths[1].write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.TraditionalOpenSSL,
            serialization.NoEncryption(),
        )
    )
    return paths
