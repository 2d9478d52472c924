"""What the clients of a host remember of all sessions that they took part in, across restarts.

It is a signed log (`securefg.foundation.log`) of what the clients did. A line is on the disk before
anything that follows from it leaves. Clients whose log was changed take part in nothing. The same
holds for a log that is shorter than the clients' books say (`require`), that ends before its last
agreement, or that another process wrote to. A disk that is set back as a whole, books and all, is
not noticed.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Literal

from securefg.foundation.files import make_private_folder
from securefg.foundation.log import Log
from securefg.protocol.codec import Clients
from securefg.secagg.encoding import encode
from securefg.secagg.errors import AskedBefore, MemoryDamaged, Refused
from securefg.secagg.keys import Identity

Did = Literal["uploaded", "agreed", "constant", "told", "opened"]


@dataclass(frozen=True)
class Entry:
    """One thing that clients did in a session.

    did      uploaded under masks; agreed to have the sum opened; let a `constant` field leave; was
             told what must stay the same; opened mask keys in a dispute
    message  the message, or for a constant, and for what was told, the field
    cohort   how many clients were in the session
    context  SHA-256 of the request, of the survivors or of nothing, in hex
    life     tells the process that wrote it from those after a restart
    setup    the set-up that clients uploaded under, or whose keys they opened, in hex
    """

    did: Did
    round: int
    message: str
    clients: str
    session: str
    cohort: int
    context: str
    life: str
    setup: str = ""


class Memory:
    """The memory of one host. Its lines are signed with the key of the host's first client.

    job   what the entries belong to: the run's config
    path  where the log is kept; None forgets with the process
    """

    def __init__(self, identity: Identity, job: bytes, path: Path | None = None) -> None:
        self._life = secrets.token_hex(8)
        self._entries: dict[tuple[int, str], list[Entry]] = {}
        self._constants: dict[str, list[Entry]] = {}
        self._told: dict[str, str] = {}
        self._uploaded_under: set[str] = set()
        self._opened: set[str] = set()
        self._log: Log | None = None
        if path is not None:
            make_private_folder(path.parent)
            name = f"memory {job.hex()}"
            self._log = Log(path, name, signer=identity, damaged=MemoryDamaged)
            self._load_log(self._log, path)

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
        for entry in self._entries_of(round, message, numbers):
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
        own = [asked for asked in before if self._entries_of(asked, message, numbers)]
        if len(own) >= planned:
            raise AskedBefore(
                f"round {round}: {message} left in {len(own)} rounds before, and the plan has "
                f"{planned}"
            )

    def refuse_other_request(
        self, round: int, message: str, numbers: Iterable[int], request: bytes
    ) -> None:
        """A repeated upload must answer what the first one answered."""
        for entry in self._entries_of(round, message, numbers):
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
        self._append_entry(self._make_entry("constant", round, name, numbers, session, cohort, b""))

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
        for entry in self._entries_of(round, message, numbers):
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
            self._append_entry(self._make_entry("told", round, name, numbers, b"", 0, said))
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
        setup: bytes = b"",
    ) -> None:
        """Note that these clients answer a request under masks, before they do."""
        entry = self._make_entry("uploaded", round, message, numbers, session, cohort, request)
        self._append_entry(replace(entry, setup=setup.hex()))

    def refuse_opening(self, setup: bytes) -> None:
        """Raise where anything was uploaded under a set-up: its mask keys hide that upload."""
        if setup.hex() in self._uploaded_under:
            raise Refused(
                "mask keys: found an upload under this set-up; expected none to open them"
            )

    def refuse_opened(self, setup: bytes) -> None:
        """Raise where mask keys of a set-up were opened: they would hide nothing."""
        if setup.hex() in self._opened:
            raise Refused("mask keys: found them opened in a dispute; expected a new set-up")

    def opened(self, round: int, message: str, numbers: list[int], setup: bytes) -> None:
        """Note that these clients open their mask keys of a set-up, before they do."""
        entry = self._make_entry("opened", round, message, numbers, b"", 0, b"")
        self._append_entry(replace(entry, setup=setup.hex()))

    def agreed(
        self, round: int, message: str, numbers: list[int], session: bytes, survivors: list[int]
    ) -> None:
        """Note that these clients agree to have the survivors' sum opened, before they do."""
        said = hashlib.sha256(encode(tuple(survivors))).digest()
        self._append_entry(
            self._make_entry("agreed", round, message, numbers, session, len(survivors), said)
        )
        if self._log is not None:  # the books do not tell of it, and would not miss the line
            self._log.keep_head()

    def agreed_to(self) -> set[tuple[int, str, int]]:
        """The uploads that clients agreed to have opened in a sum: round, message, client."""
        return {
            (entry.round, entry.message, client)
            for entries in self._entries.values()
            for entry in entries
            if entry.did == "agreed"
            for client in Clients.parse(entry.clients).numbers()
        }

    # ------------------------------------------------------------------------------------ the file

    def _make_entry(
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

    def _entries_of(self, round: int, message: str, numbers: Iterable[int]) -> list[Entry]:
        own = set(numbers)
        found = self._entries.get((round, message), [])
        return [e for e in found if own & set(Clients.parse(e.clients).numbers())]

    def _append_entry(self, entry: Entry) -> None:
        if self._log is not None:
            self._log.append([asdict(entry)])
        self._keep_entry(entry)

    def _keep_entry(self, entry: Entry) -> None:
        if entry.did == "uploaded":
            self._uploaded_under.add(entry.setup)
        if entry.did == "opened":
            self._opened.add(entry.setup)
        elif entry.did == "told":
            self._told[entry.message] = entry.context
        elif entry.did == "constant":
            self._constants.setdefault(entry.message, []).append(entry)
        else:
            self._entries.setdefault((entry.round, entry.message), []).append(entry)

    def _load_log(self, log: Log, path: Path) -> None:
        """Take up the log. A crash after an agreement may leave it beyond the head, one at most."""
        lines = log.lines()
        for line in lines:
            del line["link"]
            try:
                self._keep_entry(Entry(**line))
            except TypeError as error:
                raise MemoryDamaged(f"{path.name}: not an entry of a memory: {error}") from error
        beyond = sum(line["did"] == "agreed" for line in lines[log.head_length :])
        if beyond > 1:
            raise MemoryDamaged(
                f"{path.name}: found {beyond} agreements to open a sum beyond its head; expected "
                "at most 1: one of the two was set back; nothing leaves"
            )
