"""Ed25519 in plain Python integers (RFC 8032, 5.1), to check signatures with. Slow."""

from __future__ import annotations

import hashlib

P = 2**255 - 19
ORDER = 2**252 + 27742317777372353535851937790883648493
D = -121665 * pow(121666, -1, P) % P
Point = tuple[int, int]


def _add(one: Point, other: Point) -> Point:
    (x1, y1), (x2, y2) = one, other
    product = D * x1 * x2 * y1 * y2 % P
    inverse = pow(1 - product * product, -1, P)  # of both denominators, 1 + and 1 - product
    x = (x1 * y2 + x2 * y1) * (1 - product) * inverse % P
    y = (y1 * y2 + x1 * x2) * (1 + product) * inverse % P
    return x, y


def _times(scalar: int, point: Point) -> Point:
    total: Point = (0, 1)
    while scalar:
        if scalar & 1:
            total = _add(total, point)
        point, scalar = _add(point, point), scalar >> 1
    return total


def _decode(data: bytes) -> Point:
    number = int.from_bytes(data, "little")
    y, sign = number & (2**255 - 1), number >> 255
    square = (y * y - 1) * pow(D * y * y + 1, -1, P) % P
    x = pow(square, (P + 3) // 8, P)
    if (x * x - square) % P:
        x = x * pow(2, (P - 1) // 4, P) % P
    if (x * x - square) % P:
        raise ValueError("no point of the curve")
    return (P - x if x & 1 != sign else x), y


def _encode(point: Point) -> bytes:
    x, y = point
    return (y | (x & 1) << 255).to_bytes(32, "little")


BASE = _decode((4 * pow(5, -1, P) % P).to_bytes(32, "little"))


def public(secret: bytes) -> bytes:
    head = bytearray(hashlib.sha512(secret).digest()[:32])
    head[0] &= 248
    head[31] = head[31] & 127 | 64
    return _encode(_times(int.from_bytes(head, "little"), BASE))


def verifies(key: bytes, signature: bytes, message: bytes) -> bool:
    """S B = R + SHA-512(R, A, M) A."""
    r, s = signature[:32], int.from_bytes(signature[32:], "little")
    h = int.from_bytes(hashlib.sha512(r + key + message).digest(), "little") % ORDER
    return s < ORDER and _times(s, BASE) == _add(_decode(r), _times(h, _decode(key)))
