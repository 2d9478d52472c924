"""ML-KEM-768 in plain Python (FIPS 203), for vectors: slow, and not in constant time.

Encapsulation takes its randomness as an argument, which `cryptography` does not offer.
"""

from __future__ import annotations

import hashlib

Q, N, K, ETA, DU, DV = 3329, 256, 3, 2, 10, 4
Poly = list[int]

_BITREV = [int(f"{i:07b}"[::-1], 2) for i in range(128)]
ZETAS = [pow(17, power, Q) for power in _BITREV]
GAMMAS = [pow(17, 2 * power + 1, Q) for power in _BITREV]


def hash_g(data: bytes) -> tuple[bytes, bytes]:
    digest = hashlib.sha3_512(data).digest()
    return digest[:32], digest[32:]


def hash_h(data: bytes) -> bytes:
    return hashlib.sha3_256(data).digest()


def ntt(f: Poly) -> Poly:
    f, i, length = list(f), 1, 128
    while length >= 2:
        for start in range(0, N, 2 * length):
            zeta, i = ZETAS[i], i + 1
            for j in range(start, start + length):
                t = zeta * f[j + length] % Q
                f[j + length], f[j] = (f[j] - t) % Q, (f[j] + t) % Q
        length //= 2
    return f


def inverse_ntt(f: Poly) -> Poly:
    f, i, length = list(f), 127, 2
    while length <= 128:
        for start in range(0, N, 2 * length):
            zeta, i = ZETAS[i], i - 1
            for j in range(start, start + length):
                t = f[j]
                f[j], f[j + length] = (t + f[j + length]) % Q, zeta * (f[j + length] - t) % Q
        length *= 2
    return [x * 3303 % Q for x in f]


def product(f: Poly, g: Poly) -> Poly:
    """Of two polynomials in NTT form."""
    out = []
    for i, gamma in enumerate(GAMMAS):
        a, b, c, d = f[2 * i], f[2 * i + 1], g[2 * i], g[2 * i + 1]
        out += [(a * c + b * d * gamma) % Q, (a * d + b * c) % Q]
    return out


def added(*polys: Poly) -> Poly:
    return [sum(column) % Q for column in zip(*polys, strict=True)]


def inner(row: list[Poly], column: list[Poly]) -> Poly:
    return added(*(product(f, g) for f, g in zip(row, column, strict=True)))


def sampled(rho: bytes, i: int, j: int) -> Poly:
    """Uniform coefficients by rejection (algorithm 7)."""
    stream, out = hashlib.shake_128(rho + bytes((i, j))).digest(1344), []
    for a, b, c in zip(*(iter(stream),) * 3, strict=True):
        out += [d for d in (a + 256 * (b % 16), b // 16 + 16 * c) if d < Q]
    assert len(out) >= N
    return out[:N]


def noise(sigma: bytes, nonce: int) -> Poly:
    """Centred binomial coefficients (algorithm 8)."""
    raw = int.from_bytes(hashlib.shake_256(sigma + bytes((nonce,))).digest(64 * ETA), "little")
    bits = [raw >> i & 1 for i in range(2 * ETA * N)]
    return [(sum(bits[4 * i : 4 * i + 2]) - sum(bits[4 * i + 2 : 4 * i + 4])) % Q for i in range(N)]


def packed(f: Poly, width: int) -> bytes:
    return sum(x << (width * i) for i, x in enumerate(f)).to_bytes(32 * width, "little")


def unpacked(data: bytes, width: int) -> Poly:
    number = int.from_bytes(data, "little")
    return [number >> (width * i) & (1 << width) - 1 for i in range(N)]


def compressed(f: Poly, width: int) -> Poly:
    return [((x << width) + Q // 2) // Q % (1 << width) for x in f]


def decompressed(f: Poly, width: int) -> Poly:
    return [(x * Q + (1 << width - 1)) >> width for x in f]


def matrix(rho: bytes) -> list[list[Poly]]:
    return [[sampled(rho, j, i) for j in range(K)] for i in range(K)]


def key_pair(seed: bytes) -> tuple[bytes, bytes]:
    """The public key and the decapsulation key of d || z."""
    rho, sigma = hash_g(seed[:32] + bytes((K,)))
    s = [ntt(noise(sigma, i)) for i in range(K)]
    e = [ntt(noise(sigma, K + i)) for i in range(K)]
    t = [added(inner(row, s), e[i]) for i, row in enumerate(matrix(rho))]
    public = b"".join(packed(f, 12) for f in t) + rho
    private = b"".join(packed(f, 12) for f in s)
    return public, private + public + hash_h(public) + seed[32:]


def encrypted(public: bytes, message: bytes, randomness: bytes) -> bytes:
    t, rho = [unpacked(public[384 * i : 384 * i + 384], 12) for i in range(K)], public[384 * K :]
    rows = matrix(rho)
    y = [ntt(noise(randomness, i)) for i in range(K)]
    u = [
        added(inverse_ntt(inner([rows[j][i] for j in range(K)], y)), noise(randomness, K + i))
        for i in range(K)
    ]
    chosen = decompressed(unpacked(message, 1), 1)
    v = added(inverse_ntt(inner(t, y)), noise(randomness, 2 * K), chosen)
    return b"".join(packed(compressed(f, DU), DU) for f in u) + packed(compressed(v, DV), DV)


def decrypted(private: bytes, ciphertext: bytes) -> bytes:
    size = 32 * DU
    u = [decompressed(unpacked(ciphertext[size * i : size * (i + 1)], DU), DU) for i in range(K)]
    v = decompressed(unpacked(ciphertext[size * K :], DV), DV)
    s = [unpacked(private[384 * i : 384 * i + 384], 12) for i in range(K)]
    masked = inverse_ntt(inner(s, [ntt(f) for f in u]))
    return packed(compressed([(a - b) % Q for a, b in zip(v, masked, strict=True)], 1), 1)


def encapsulate(public: bytes, message: bytes) -> tuple[bytes, bytes]:
    """The shared secret and the ciphertext, from 32 bytes of randomness."""
    secret, randomness = hash_g(message + hash_h(public))
    return secret, encrypted(public, message, randomness)


def decapsulate(private: bytes, ciphertext: bytes) -> bytes:
    size = 384 * K
    own, public = private[:size], private[size : 2 * size + 32]
    digest, z = private[2 * size + 32 : 2 * size + 64], private[2 * size + 64 :]
    message = decrypted(own, ciphertext)
    secret, randomness = hash_g(message + digest)
    if encrypted(public, message, randomness) == ciphertext:
        return secret
    return hashlib.shake_256(z + ciphertext).digest(32)
