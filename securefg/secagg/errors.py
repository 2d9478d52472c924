"""Errors that secure aggregation raises on purpose. No message ever shows a key, a share or a seed.

ProtocolError
├── BadKey                  a public key that is no key, or that agrees on nothing
├── BadSignature            a statement that its alleged author did not sign
├── BadBox                  a box that was not sealed for this session, sender and receiver
├── BadShares               shares that cannot be combined: too few, duplicate, out of range
└── ReconstructionFailed    shares that combine to something other than what was shared
PrivacyError
├── MaskKeyReused           a second upload under one mask key
└── Refused                 a client will not take part in what the server asks
    ├── AskedBefore         it took part in this round's message, and will not again
    └── MemoryDamaged       what it remembers of earlier sessions was changed
RunFailed
├── AwayAtUnmasking         a recipient that cannot open its sum: it dropped out of the round
└── SetupLost               a client that restarted since it was set up: it drops out of the session
"""

from __future__ import annotations

from securefg.foundation.errors import PrivacyError, ProtocolError, RunFailed


class BadKey(ProtocolError):
    """A public key is malformed, or of low order so that the agreement is void."""


class BadSignature(ProtocolError):
    """A signature does not fit the statement and the public key."""


class BadBox(ProtocolError):
    """A box does not open under this session, sender and receiver."""


class BadShares(ProtocolError):
    """Shares are too few, name one point twice, or lie outside the field."""


class ReconstructionFailed(ProtocolError):
    """Shares combine to something other than the secret that was shared."""


class MaskKeyReused(PrivacyError):
    """Two uploads under one mask key would hand over their difference."""


class Refused(PrivacyError):
    """A client will not go on: what the server asks for could open a single upload."""


class AskedBefore(Refused):
    """Two sums of one upload over different clients would hand over their difference."""


class MemoryDamaged(Refused):
    """A client that cannot trust its memory takes part in nothing."""


class AwayAtUnmasking(RunFailed):
    """A recipient was not told whose parts are in its sum, and cannot open it."""


class SetupLost(RunFailed):
    """A client has no keys for this set-up; it takes part again after the next one."""
