"""AES-256-CTR, X25519 and ChaCha20-Poly1305 from their standards, in plain Python and slow.

Written to check vectors with code that shares nothing with what made them. Not for any other use.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from functools import lru_cache


def _times_x(a: int) -> int:
    return ((a << 1) ^ 0x1B) & 0xFF if a & 0x80 else a << 1


def _times(a: int, b: int) -> int:
    product = 0
    while b:
        product ^= a if b & 1 else 0
        a, b = _times_x(a), b >> 1
    return product


def _sbox() -> list[int]:
    """FIPS 197, 5.1.1: the inverse in GF(2^8), then an affine map."""
    box = []
    for value in range(256):
        inverse = next((c for c in range(256) if _times(value, c) == 1), 0)
        rotated = (((inverse << s) | (inverse >> (8 - s))) & 0xFF for s in range(5))
        out = 0x63
        for part in rotated:
            out ^= part
        box.append(out)
    return box


SBOX = _sbox()


@lru_cache
def _round_keys(key: bytes) -> list[bytes]:
    """FIPS 197, 5.2 for 256-bit keys: 15 round keys."""
    words = [key[i : i + 4] for i in range(0, 32, 4)]
    rcon = 1
    for i in range(8, 60):
        word = words[-1]
        if i % 8 == 0:
            word = bytes(SBOX[b] for b in word[1:] + word[:1])
            word = bytes([word[0] ^ rcon]) + word[1:]
            rcon = _times_x(rcon)
        elif i % 8 == 4:
            word = bytes(SBOX[b] for b in word)
        words.append(bytes(a ^ b for a, b in zip(word, words[i - 8], strict=True)))
    return [b"".join(words[i : i + 4]) for i in range(0, 60, 4)]


def _xor(a: Sequence[int], b: Sequence[int]) -> list[int]:
    return [x ^ y for x, y in zip(a, b, strict=True)]


def aes256_block(key: bytes, block: bytes) -> bytes:
    """FIPS 197, 5.1."""
    keys = _round_keys(key)
    state = _xor(block, keys[0])
    for number in range(1, 15):
        state = [SBOX[state[(i + 4 * (i % 4)) % 16]] for i in range(16)]
        if number < 14:
            state = [b for i in range(0, 16, 4) for b in _mix(state[i : i + 4])]
        state = _xor(state, keys[number])
    return bytes(state)


def _mix(column: Sequence[int]) -> list[int]:
    return [
        _times(column[i], 2)
        ^ _times(column[(i + 1) % 4], 3)
        ^ column[(i + 2) % 4]
        ^ column[(i + 3) % 4]
        for i in range(4)
    ]


def aes256_ctr(key: bytes, start: int, length: int) -> bytes:
    """Keystream bytes start … start + length of AES-256-CTR with a zero initial counter."""
    first, last = start // 16, (start + length + 15) // 16
    blocks = b"".join(aes256_block(key, i.to_bytes(16, "big")) for i in range(first, last))
    return blocks[start - 16 * first :][:length]


P25519 = 2**255 - 19


def x25519(secret: bytes, point: bytes) -> bytes:
    """RFC 7748, section 5."""
    scalar = int.from_bytes(secret, "little") & ~7 & (2**255 - 1) | 2**254
    u = int.from_bytes(point, "little") & (2**255 - 1)
    x2, z2, x3, z3 = 1, 0, u, 1
    for bit in reversed(range(255)):
        swap = scalar >> bit & 1
        if swap:
            x2, z2, x3, z3 = x3, z3, x2, z2
        a, b, c, d = x2 + z2, x2 - z2, x3 + z3, x3 - z3
        aa, bb, da, cb = a * a, b * b, d * a, c * b
        x3, z3 = (da + cb) ** 2 % P25519, u * (da - cb) ** 2 % P25519
        x2, z2 = aa * bb % P25519, (aa - bb) * (aa + 121665 * (aa - bb)) % P25519
        if swap:
            x2, z2, x3, z3 = x3, z3, x2, z2
    return (x2 * pow(z2, -1, P25519) % P25519).to_bytes(32, "little")


X25519_BASE = (9).to_bytes(32, "little")


def _quarter(s: list[int], a: int, b: int, c: int, d: int) -> None:
    for x, y, z, turn in ((a, b, d, 16), (c, d, b, 12), (a, b, d, 8), (c, d, b, 7)):
        s[x] = (s[x] + s[y]) & 0xFFFFFFFF
        mixed = s[z] ^ s[x]
        s[z] = (mixed << turn | mixed >> (32 - turn)) & 0xFFFFFFFF


def chacha20_block(key: bytes, counter: int, nonce: bytes) -> bytes:
    """RFC 8439, 2.3."""
    start = [*struct.unpack("<4I", b"expand 32-byte k"), *struct.unpack("<8I", key)]
    start += [counter, *struct.unpack("<3I", nonce)]
    s = list(start)
    for _ in range(10):
        for i in range(4):
            _quarter(s, i, 4 + i, 8 + i, 12 + i)
        for i in range(4):
            _quarter(s, i, 4 + (i + 1) % 4, 8 + (i + 2) % 4, 12 + (i + 3) % 4)
    return struct.pack("<16I", *((a + b) & 0xFFFFFFFF for a, b in zip(s, start, strict=True)))


def poly1305(key: bytes, message: bytes) -> bytes:
    """RFC 8439, 2.5."""
    r = int.from_bytes(key[:16], "little") & 0x0FFFFFFC0FFFFFFC0FFFFFFC0FFFFFFF
    total = 0
    for i in range(0, len(message), 16):
        total = (total + int.from_bytes(message[i : i + 16] + b"\x01", "little")) * r
        total %= 2**130 - 5
    return ((total + int.from_bytes(key[16:], "little")) % 2**128).to_bytes(16, "little")


def chacha20_poly1305(key: bytes, nonce: bytes, message: bytes, associated: bytes) -> bytes:
    """RFC 8439, 2.8: the ciphertext followed by the tag."""
    stream = b"".join(chacha20_block(key, 1 + i, nonce) for i in range(len(message) // 64 + 1))
    sealed = bytes(_xor(message, stream[: len(message)]))
    padded = (part + bytes(-len(part) % 16) for part in (associated, sealed))
    lengths = struct.pack("<QQ", len(associated), len(sealed))
    return sealed + poly1305(chacha20_block(key, 0, nonce)[:32], b"".join(padded) + lengths)
