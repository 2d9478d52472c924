"""The roster: every client's masking key, signed by the certificate key of the site it lives at.

Made by the site and put into every kit at provisioning. A site checks all of it before a job
starts, so a server that puts a key of its own in another's place would need that site's key.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from securefg.foundation.errors import DataError, ProtocolError
from securefg.foundation.files import write_json
from securefg.foundation.json_text import read_json
from securefg.protocol.codec import Clients
from securefg.secagg.encoding import Item
from securefg.secagg.keys import make_identities
from securefg.site.certificates import Root, Signer

PURPOSE = "masking keys"
Hosts = Mapping[str, Clients]


@dataclass(frozen=True)
class Entry:
    """One site's word on which clients it holds, and their public keys in the clients' order."""

    site: str
    clients: Clients
    keys: tuple[bytes, ...]
    certificate: bytes
    signature: bytes

    def check(self, root: Root) -> None:
        """Raise unless the site signed as many keys as it has clients."""
        if len(self.keys) != len(self.clients):
            raise ProtocolError(
                f"the roster has {len(self.keys)} keys for {self.site}'s {len(self.clients)} "
                "clients"
            )
        signed = signed_keys(self.site, self.keys)
        root.check(self.site, self.certificate, self.signature, PURPOSE, *signed)

    def to_json(self) -> dict[str, Any]:
        """Return the entry as JSON has it."""
        return {
            "site": self.site,
            "clients": str(self.clients),
            "keys": [key.hex() for key in self.keys],
            "certificate": self.certificate.decode(),
            "signature": self.signature.hex(),
        }

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Entry:
        """Return the entry that JSON has."""
        return cls(
            site=data["site"],
            clients=Clients.parse(data["clients"]),
            keys=tuple(bytes.fromhex(key) for key in data["keys"]),
            certificate=data["certificate"].encode(),
            signature=bytes.fromhex(data["signature"]),
        )


def enrol_site(signer: Signer, keys_folder: Path, hosts: Hosts) -> Entry:
    """Make the site's masking keys where it has none, and sign their public halves."""
    keys = tuple(make_identities(keys_folder, hosts))
    clients = Clients.of([n for own in hosts.values() for n in own.numbers()])
    signature = signer.sign(PURPOSE, *signed_keys(signer.name, keys))
    return Entry(signer.name, clients, keys, signer.certificate, signature)


def write_roster(path: Path, entries: list[Entry]) -> None:
    """Write all sites' entries into one file."""
    write_json(path, [entry.to_json() for entry in entries])


def read_roster(path: Path, root: Root, sites: Mapping[str, Hosts]) -> list[bytes]:
    """Everybody's key by client number. Raise unless every site signed for its own clients."""
    try:
        entries = [Entry.from_json(data) for data in read_json(path)]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DataError(f"{path}: not a roster: {error}") from error
    entry_by_site = {entry.site: entry for entry in entries}
    keys: dict[int, bytes] = {}
    for site, hosts in sites.items():
        wanted = Clients.of([n for own in hosts.values() for n in own.numbers()])
        if site not in entry_by_site or entry_by_site[site].clients != wanted:
            raise ProtocolError(f"the roster has no keys of {site} for the clients {wanted}")
        entry_by_site[site].check(root)
        keys |= dict(zip(wanted.numbers(), entry_by_site[site].keys, strict=True))
    return [keys[number] for number in sorted(keys)]


def signed_keys(site: str, keys: tuple[bytes, ...]) -> tuple[Item, ...]:
    """Return what a site signs: its keys in the order of its clients, whatever their numbers."""
    return (site, tuple(keys))
