"""Every error that securefg raises on purpose.

    SecurefgError
    ├── InputError              what the user gave cannot be used. Exit code 2
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
    └── RunFailed               a run that cannot go on, e.g. too many clients dropped. Exit code 1
        ├── RoundAborted        too few clients left to finish a round; the next one may go on
        └── Diverged            a loss, an upload or a model that is not finite; the run ends

An `InputError` is answered in a line or two on the terminal. A traceback is for bugs only. For a
failure of the outside world (disk, memory, descriptors) `cause_of` returns a line with the cause.
"""

from __future__ import annotations

import errno
import os


class SecurefgError(Exception):
    """A base of all errors raised on purpose."""


class InputError(SecurefgError):
    """An error: the input of the user cannot be used."""


class ConfigError(InputError):
    """A setting is unknown, of the wrong type, or out of range."""


class DataError(InputError):
    """A dataset or shard cannot be read. The message names the file and the line."""


class RunFolderError(InputError):
    """A run folder, checkpoint or transcript does not fit what was asked."""


class ProtocolError(SecurefgError):
    """A message breaks the rules of the message layer."""


class CodecError(ProtocolError):
    """An error: the bytes are not a message of this version."""


class UndeclaredField(ProtocolError):
    """A message class has a field without a declaration."""


class PrivacyError(SecurefgError):
    """A release that the privacy policy does not cover."""


class NoRule(PrivacyError):
    """A private field reached the channel without a rule for it."""


class MaskingRefused(PrivacyError):
    """An error: masking was asked for a field whose single values the server needs."""


class BudgetExceeded(PrivacyError):
    """An error: the next release would pass `privacy.budget`."""


class BooksDamaged(PrivacyError):
    """A site's books cannot be trusted. It takes part in nothing until somebody has looked."""


class RunFailed(SecurefgError):
    """A run that cannot go on."""


class RoundAborted(RunFailed):
    """An error: too few clients are left to finish a round. Nothing of it was unmasked or used."""


class Diverged(RunFailed):
    """A loss, an upload or a model is not finite. The run ends with what it had before."""

    @classmethod
    def at(cls, round: int, what: str) -> Diverged:
        """Return the error for a round in which `what` is not finite."""
        return cls(
            f"round {round}: {what} is not finite; "
            "try a smaller training.lr, or features on a smaller scale"
        )


BREACHES = (PrivacyError, ProtocolError, Diverged)
"""What ends a run wherever it is raised; a client that fails in another way has dropped out."""


_WHAT_HELPS = {
    errno.ENOSPC: "free some space",
    errno.EDQUOT: "free some space",
    errno.EFBIG: "raise the limit on the size of files (ulimit -f)",
    errno.EACCES: "check who may write there",
    errno.EPERM: "check who may write there",
    errno.EROFS: "choose a place that can be written to, e.g. with --set output.root=...",
    errno.EMFILE: "raise the limit on open files (ulimit -n)",
    errno.ENFILE: "close other programs",
    errno.ENOMEM: "free some memory",
    errno.EAGAIN: "raise the limit on processes (ulimit -u)",
}
_NO_MEMORY = ("can't allocate memory", "not enough memory", "out of memory", "bad_alloc")


def cause_of(error: BaseException) -> str | None:
    """Return what went wrong outside of this program and what helps, or None if the fault is our
    own."""
    if isinstance(error, OSError):
        return _of_the_system(error)
    if lacks_memory(error):
        return "not enough memory: free some, or run fewer jobs at the same time"
    return None


def _of_the_system(error: OSError) -> str:
    what = os.strerror(error.errno) if error.errno else str(error) or type(error).__name__
    where = f"{os.fsdecode(error.filename)}: " if isinstance(error.filename, str | bytes) else ""
    helps = _WHAT_HELPS.get(error.errno or 0)
    return f"{where}{what}" + (f"; {helps}" if helps else "")


def lacks_memory(error: BaseException) -> bool:
    """Return whether memory is lacking, which torch tells by a `RuntimeError`."""
    told = isinstance(error, RuntimeError) and any(text in str(error) for text in _NO_MEMORY)
    return told or isinstance(error, MemoryError)
