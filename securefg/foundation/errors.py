"""Every error that securefg raises on purpose.

    SecurefgError
    ├── InputError              what the user gave cannot be used; exit code 2
    │   ├── ConfigError         a setting: names the key, the value found, the values allowed
    │   ├── DataError           a dataset or shard: names the file and the line
    │   └── RunFolderError      a run folder, checkpoint or transcript that does not fit
    ├── ProtocolError           a message that breaks the rules of the message layer
    │   ├── CodecError          bytes that are not a message of this version
    │   └── UndeclaredField     a message field without a declaration
    ├── PrivacyError            a release that the policy does not cover
    │   ├── NoRule              a private field without a rule
    │   ├── MaskingRefused      masking asked for where the single value is needed
    │   ├── BudgetExceeded      the next release would pass `privacy.budget`
    │   └── BooksDamaged        a site's books that cannot be trusted
    └── RunFailed               a run that cannot go on, e.g. too many clients dropped; exit code 1
        ├── RoundAborted        too few clients left to finish a round; the next one may go on
        └── Diverged            a loss, an upload or a model that is not finite; the run ends

An `InputError` is answered in a line or two on the terminal. A traceback is for bugs only.
"""

from __future__ import annotations


class SecurefgError(Exception):
    """Base of all errors raised on purpose."""


class InputError(SecurefgError):
    """What the user gave cannot be used."""


class ConfigError(InputError):
    """A setting is unknown, of the wrong type, or out of range."""


class DataError(InputError):
    """A dataset or shard cannot be read; the message names the file and the line."""


class RunFolderError(InputError):
    """A run folder, checkpoint or transcript does not fit what was asked."""


class ProtocolError(SecurefgError):
    """A message breaks the rules of the message layer."""


class CodecError(ProtocolError):
    """Bytes that are not a message of this version."""


class UndeclaredField(ProtocolError):
    """A message class has a field without a declaration."""


class PrivacyError(SecurefgError):
    """A release that the privacy policy does not cover."""


class NoRule(PrivacyError):
    """A private field reached the channel without a rule for it."""


class MaskingRefused(PrivacyError):
    """Masking was asked for a field whose single values the server needs."""


class BudgetExceeded(PrivacyError):
    """The next release would pass `privacy.budget`."""


class BooksDamaged(PrivacyError):
    """A site's books cannot be trusted; it takes part in nothing until somebody has looked."""


class RunFailed(SecurefgError):
    """A run that cannot go on."""


class RoundAborted(RunFailed):
    """Too few clients are left to finish a round; nothing of it was unmasked or used."""


class Diverged(RunFailed):
    """A loss, an upload or a model is not finite; the run ends with what it had before."""

    @classmethod
    def at(cls, round: int, what: str) -> Diverged:
        return cls(
            f"round {round}: {what} is not finite; "
            "try a smaller training.lr, or features on a smaller scale"
        )


BREACHES = (PrivacyError, ProtocolError, Diverged)
"""What ends a run wherever it is raised; a client that fails in another way has dropped out."""
