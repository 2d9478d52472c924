"""What the clients of a host remember of all sessions that they took part in, across restarts.

A file of lines, each with a link = SHA-256(link before, line) and a signature on it: what was done
is written, and on the disk, before anything that follows from it leaves. Whoever changes, drops or
swaps lines breaks the chain, and the clients then take part in nothing. A file that is shorter than
the clients' books say (`require`), that has fewer agreements than were counted beside it, or that
grew by another hand, is refused too; a disk that is set back as a whole, books and all, is not
noticed.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import secrets
from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Literal

from securefg.foundation.files import write_atomically
from securefg.protocol.codec import Clients
from securefg.secagg.encoding import encode
from securefg.secagg.errors import AskedBefore, BadSignature, MemoryDamaged, Refused
from securefg.secagg.keys import PROTOCOL, VERSION, Identity, verify

Did = Literal["uploaded", "agreed", "constant", "told"]
FIRST = bytes(32)


@dataclass(frozen=True)
class Entry:
    """One thing that clients did in a session.

    did      uploaded under masks; agreed to have the sum opened; let a `constant` field leave; was
             told what must stay the same
    message  the message, or for a constant, and for what was told, the field
    cohort   how many clients were in the session
    context  SHA-256 of the request, of the survivors or of nothing, in hex
    life     tells the process that wrote it from those after a restart
    """

    did: Did
    round: int
    message: str
    clients: str
    session: str
    cohort: int
    context: str
    life: str

    def link(self, before: bytes, job: bytes) -> bytes:
        items = tuple(str(value) for value in asdict(self).values())
        return hashlib.sha256(encode((PROTOCOL, VERSION, "memory", job, before, items))).digest()


class Memory:
    """The chain of one host. Its lines are signed with the key of the host's first client.

    job   what the entries belong to: the run's config
    path  where it is kept; None forgets with the process
    """

    def __init__(self, identity: Identity, job: bytes, path: Path | None = None) -> None:
        self._identity, self._job, self._path = identity, job, path
        self._life = secrets.token_hex(8)
        self._size = 0
        self._entries: dict[tuple[int, str], list[Entry]] = {}
        self._constants: dict[str, list[Entry]] = {}
        self._told: dict[str, str] = {}
        self.head, self.length = FIRST, 0
        if path is not None and path.exists():
            self._load(path)
        if path is not None:
            self._check_count(_count_of(path))

    # --------------------------------------------------------------------------------- what to do

    def refuse_repeat(
        self, round: int, message: str, numbers: Iterable[int], one_opens: bool
    ) -> None:
        """Raise where any of these clients took part in this round's message.

        One exception, where of all sessions of one message only one can open (`one_opens`, see
        `graph_parameters.only_one_opens`): a client that went down between its upload and its
        agreement may answer again. Its own part in opening the first sum died with it, and those
        who agreed to that sum refuse: too few are left for two sums.
        """
        for entry in self._of(round, message, numbers):
            if entry.did == "agreed" or entry.life == self._life or not one_opens:
                raise AskedBefore(
                    f"round {round}: {message} was {entry.did} before by clients {entry.clients}; "
                    "a second sum of it over other clients would show the difference"
                )

    def refuse_more(
        self, round: int, message: str, numbers: list[int], planned: int | None
    ) -> None:
        """Raise where any of these clients uploaded this in as many rounds as were planned: whoever
        asks on learns more than the plan has, and of what hardly changes a difference."""
        before = [asked for asked, kind in self._entries if kind == message and asked != round]
        if planned is None or len(before) < planned:
            return
        own = [asked for asked in before if self._of(asked, message, numbers)]
        if len(own) >= planned:
            raise AskedBefore(
                f"round {round}: {message} left in {len(own)} rounds before, and the plan has "
                f"{planned}"
            )

    def refuse_other_request(
        self, round: int, message: str, numbers: Iterable[int], request: bytes
    ) -> None:
        """A repeated upload must answer what the first one answered."""
        for entry in self._of(round, message, numbers):
            if entry.context != request.hex():
                raise AskedBefore(f"round {round}: {message} was asked for with another request")

    def require(self, round: int, message: str, clients: Clients) -> None:
        """Raise unless these clients are known to have uploaded this: their books say so."""
        known = [
            set(Clients.parse(e.clients).numbers()) for e in self._entries.get((round, message), [])
        ]
        if not set(clients.numbers()) <= set().union(*known):
            raise MemoryDamaged(
                f"the books say that clients {clients} sent {message} in round {round}, and what "
                "they remember of their sessions does not: it was deleted or set back; nothing "
                "leaves"
            )

    def claim_constant(
        self, round: int, message: str, field: str, session: bytes, numbers: list[int], cohort: int
    ) -> None:
        """Let a field that never changes leave, in this round's message alone."""
        name = f"{message}.{field}"
        self.refuse_constant(round, name, numbers)
        self._append(self._entry("constant", round, name, numbers, session, cohort, b""))

    def refuse_constant(self, round: int, name: str, numbers: Iterable[int]) -> None:
        """Raise where a field that never changes left any of these clients in another round."""
        own = set(numbers)
        for entry in self._constants.get(name, []):
            if entry.round != round and own & set(Clients.parse(entry.clients).numbers()):
                raise AskedBefore(
                    f"{name} never changes and left in round {entry.round}: another sum of it over "
                    "other clients would show the difference"
                )

    def require_request(
        self, round: int, message: str, numbers: Iterable[int], request: bytes
    ) -> None:
        """Raise unless each of these clients uploaded this message for this very request."""
        known = set[int]()
        for entry in self._of(round, message, numbers):
            if entry.did == "uploaded" and entry.context == request.hex():
                known |= set(Clients.parse(entry.clients).numbers())
        if not set(numbers) <= known:
            raise Refused(
                f"round {round}: found a request to do {message} again; expected the request that "
                "these clients answered"
            )

    def hold_to(self, name: str, value: bytes, round: int, numbers: list[int]) -> None:
        """What the server told once under this name is what it must tell in all of the run."""
        said = hashlib.sha256(value).digest()
        if name not in self._told:
            self._append(self._entry("told", round, name, numbers, b"", 0, said))
        if self._told[name] != said.hex():
            raise Refused(f"{name} is another than before in this run")

    def uploaded(
        self,
        round: int,
        message: str,
        numbers: list[int],
        session: bytes,
        cohort: int,
        request: bytes,
    ) -> None:
        self._append(self._entry("uploaded", round, message, numbers, session, cohort, request))

    def agreed(
        self, round: int, message: str, numbers: list[int], session: bytes, survivors: list[int]
    ) -> None:
        said = hashlib.sha256(encode(tuple(survivors))).digest()
        self._append(self._entry("agreed", round, message, numbers, session, len(survivors), said))
        if self._path is not None:  # the books do not tell of it, and would not miss the line
            write_atomically(_count_of(self._path), f"{self._agreements()}\n")

    def agreed_to(self) -> set[tuple[int, str, int]]:
        """The uploads that clients agreed to have opened in a sum: round, message, client."""
        return {
            (entry.round, entry.message, client)
            for entries in self._entries.values()
            for entry in entries
            if entry.did == "agreed"
            for client in Clients.parse(entry.clients).numbers()
        }

    def _agreements(self) -> int:
        entries = [entry for found in self._entries.values() for entry in found]
        return sum(entry.did == "agreed" for entry in entries)

    # ------------------------------------------------------------------------------------ the file

    def _entry(
        self,
        did: Did,
        round: int,
        message: str,
        numbers: list[int],
        session: bytes,
        cohort: int,
        context: bytes,
    ) -> Entry:
        clients = str(Clients.of(numbers))
        return Entry(did, round, message, clients, session.hex(), cohort, context.hex(), self._life)

    def _of(self, round: int, message: str, numbers: Iterable[int]) -> list[Entry]:
        own = set(numbers)
        found = self._entries.get((round, message), [])
        return [e for e in found if own & set(Clients.parse(e.clients).numbers())]

    def _append(self, entry: Entry) -> None:
        link = entry.link(self.head, self._job)
        signature = self._identity.sign("memory", self._job, link)
        if self._path is not None:
            line = {**asdict(entry), "link": link.hex(), "signature": signature.hex()}
            self._write(self._path, json.dumps(line).encode() + b"\n")
        self._keep(entry, link)

    def _write(self, path: Path, line: bytes) -> None:
        """Add a line to the file as it was left. Whatever another process wrote in between, this
        one does not know of: it could answer what was answered."""
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("ab") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            found = os.fstat(file.fileno()).st_size
            if found != self._size:
                raise MemoryDamaged(
                    f"{path.name} has {found} bytes, and these clients left {self._size}: "
                    "another process wrote to it, or it was set back; nothing leaves"
                )
            file.write(line)
            file.flush()
            os.fsync(file.fileno())
        self._size += len(line)

    def _keep(self, entry: Entry, link: bytes) -> None:
        if entry.did == "told":
            self._told[entry.message] = entry.context
        elif entry.did == "constant":
            self._constants.setdefault(entry.message, []).append(entry)
        else:
            self._entries.setdefault((entry.round, entry.message), []).append(entry)
        self.head, self.length = link, self.length + 1

    def _load(self, path: Path) -> None:
        """Take up the chain. A last line without its end was cut by a crash: what it would have
        allowed did not happen."""
        whole, _, torn = path.read_bytes().rpartition(b"\n")
        if torn:
            with path.open("r+b") as file:
                file.truncate(len(whole) + 1 if whole else 0)
        for number, line in enumerate(whole.split(b"\n") if whole else [], 1):
            try:
                told = json.loads(line)
                entry = Entry(**{field.name: told[field.name] for field in fields(Entry)})
                link, signature = bytes.fromhex(told["link"]), bytes.fromhex(told["signature"])
                verify(self._identity.public, signature, "memory", self._job, link)
                if link != entry.link(self.head, self._job):
                    raise ValueError("the links do not fit")
            except (ValueError, KeyError, TypeError, BadSignature) as error:
                raise MemoryDamaged(
                    f"{path.name}:{number}: what these clients remember of earlier sessions was "
                    f"changed ({error}); nothing leaves"
                ) from error
            self._keep(entry, link)
        self._size = path.stat().st_size

    def _check_count(self, path: Path) -> None:
        """An agreement is written, then counted: a crash in between leaves one that is not."""
        text = path.read_text() if path.exists() else "0"
        counted, found = int(text) if text.strip().isdigit() else -1, self._agreements()
        if found not in (counted, counted + 1):
            raise MemoryDamaged(
                f"{path.name} counts {text.strip()[:20]!r} agreements to open a sum, and these "
                f"clients remember {found}: one of the two was set back; nothing leaves"
            )


def _count_of(path: Path) -> Path:
    return path.with_suffix(".agreed")
