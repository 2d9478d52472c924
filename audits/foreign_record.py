"""Checks of another framework's record before it is audited: rounds, fields and the truth.

A record whose rounds were mixed up hides a leak: the attacks would compare an upload with a model
that its client never had. Such a record is refused.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray

from attacks.base import CannotAttack, Place, View
from audits.foreign_network import Samples
from securefg.foundation.errors import ConfigError, DataError
from securefg.foundation.npz import read_npz
from securefg.protocol.exchange import Exchange
from securefg.protocol.meanings import Meaning, Other, Weights
from securefg.settings.execution import TrainingSettings

Scalar = TypeVar("Scalar", bound=np.generic)


def check_record(path: Path, exchange: Exchange, view: View) -> None:
    """Raise `ConfigError` where the messages are not those that the description promises."""
    _check_contents(path, view)
    _check_uploads(path, exchange, view)
    _check_rounds(path, view)
    _check_sent(path, exchange, view)


def _check_contents(path: Path, view: View) -> None:
    """Raise where the server's view lacks what a message held: nobody could tell what it leaks."""
    for seen in view.seen:
        if seen.fields is None:
            raise ConfigError(
                f"{path}: round {seen.header.round}: found a message without its content "
                f"({seen.header.kind!r:.60}); expected all of them"
            )


def _check_uploads(path: Path, exchange: Exchange, view: View) -> None:
    upload, uploads = exchange.upload, view.uploads(Weights())
    if not uploads:
        kinds = sorted({s.header.kind for s in view.seen if s.header.up})
        raise ConfigError(
            f"{path}: no upload has a field {upload.kind}.{upload.field} (upload.kind, "
            f"upload.field); kinds found: {', '.join(kinds) or 'none'}"
        )
    for message in uploads:
        numbers = message.value[0].numel() if len(message.value) else 0
        if not message.masked and numbers != exchange.width:
            raise ConfigError(
                f"{path}: {upload.kind}.{upload.field} has {numbers} numbers per client "
                f"in round {message.round}; layers: add up to {exchange.width}"
            )
        if not message.masked and not message.value.is_floating_point():
            raise ConfigError(
                f"{path}: {upload.kind}.{upload.field}: found {message.value.dtype} in round "
                f"{message.round}; expected floating-point numbers"
            )
        if len(message.value) != len(message.clients):
            raise ConfigError(
                f"{path}: {upload.kind}.{upload.field} has {len(message.value)} rows for "
                f"{len(message.clients)} clients in round {message.round}"
            )
        if (last := message.clients.numbers()[-1]) >= exchange.clients:
            raise ConfigError(
                f"{path}: clients: found {exchange.clients}; expected more, since client {last} "
                f"uploads in round {message.round}"
            )


def _check_rounds(path: Path, view: View) -> None:
    seen: set[tuple[int, int]] = set()
    for message in view.uploads(Weights()):
        for client in message.clients.numbers():
            if (message.round, client) in seen:
                raise ConfigError(
                    f"{path}: round {message.round}: found two uploads of client {client}; "
                    "expected one: every round needs its own number"
                )
            seen.add((message.round, client))


def _check_sent(path: Path, exchange: Exchange, view: View) -> None:
    if exchange.sent is None:
        return
    place = (exchange.sent.kind, exchange.sent.field)
    models: dict[int, torch.Tensor] = {}
    sent = view.downloads(Weights(change=False)) if place in view.meanings else []
    for message in sent:
        if message.value.numel() != exchange.width:
            raise ConfigError(
                f"{path}: {place[0]}.{place[1]} has {message.value.numel()} numbers in round "
                f"{message.round}; layers: add up to {exchange.width}"
            )
        model = models.setdefault(message.round, message.value)
        if not torch.equal(model.nan_to_num(), message.value.nan_to_num()):
            raise ConfigError(
                f"{path}: round {message.round}: found two different sent models; expected one: "
                "every round needs its own number, and models of single clients a record each"
            )
    rounds = {message.round for message in view.uploads(Weights())}
    is_needed = exchange.upload.holds == "weights" or not rounds.isdisjoint(models)
    if is_needed and (missing := sorted(rounds - models.keys())):
        raise ConfigError(
            f"{path}: round {missing[0]}: found uploads and no sent model; expected the "
            "weights that training started from (sent)"
        )


def undescribed_fields(view: View) -> dict[tuple[Place, bool], Meaning]:
    """Return the fields that crossed and that the description does not name, with whether clients
    sent them: metrics, counts, buffers, replies to evaluations."""
    field_meanings: dict[tuple[Place, bool], Meaning] = {}
    for seen in view.seen:
        header = seen.header
        for name in seen.fields or ():
            place = (header.kind, name)
            if header.sender != "sum" and place not in view.meanings:
                about = "it crossed beside the described weights"
                field_meanings[place, header.up] = Other(about)
    return field_meanings


def read_clients(path: Path, kind: type[Scalar], clients: int) -> dict[int, NDArray[Scalar]]:
    """Return the arrays of a private file by client. Raise `CannotAttack` where it is missing.

    clients  how many clients the recording has: a number beyond it is nobody's
    """
    if not path.is_file():
        raise CannotAttack(f"private/{path.name} is not there: nothing to score a guess against")
    try:
        arrays = read_npz(path).items()
    except DataError as error:
        raise ConfigError(f"{path} cannot be read: {error}") from error
    if not arrays:
        raise ConfigError(f"{path}: found no client; expected an array per client")
    return {
        _check_client(path, name, clients): _as_kind(path, f"client {name}", array, kind)
        for name, array in arrays
    }


def _check_client(path: Path, name: str, clients: int) -> int:
    number = int(name) if name.isascii() and name.isdecimal() and len(name) < 20 else -1
    if str(number) != name or not 0 <= number < clients:
        raise ConfigError(
            f"{path}: found client {name[:40]!r}; expected numbers from 0 to {clients - 1}"
        )
    return number


def _as_kind(path: Path, whose: str, array: NDArray[Any], kind: type[Scalar]) -> NDArray[Scalar]:
    """Return finite numbers as `kind`. A NaN would otherwise pass for a guess without a gain."""
    if array.dtype.kind not in "fiub":
        raise ConfigError(f"{path}: {whose}: found an array of {array.dtype}; expected numbers")
    with np.errstate(over="ignore", invalid="ignore"):
        numbers = array.astype(kind)
        is_whole = np.issubdtype(kind, np.floating) or bool((numbers == array).all())
    if not is_whole:
        raise ConfigError(f"{path}: {whose}: found fractions; expected whole numbers")
    if not np.isfinite(numbers).all():
        raise ConfigError(f"{path}: {whose}: found NaN or infinity; expected finite numbers")
    return numbers


def read_samples(path: Path, clients: int) -> dict[int, Samples]:
    """Return the samples of a private file by client."""
    samples_by_client: dict[int, Samples] = {}
    width = None
    for client, rows in read_clients(path, np.float32, clients).items():
        if rows.ndim < 2 or not rows.size:
            raise ConfigError(
                f"{path}: client {client} has an array of shape {rows.shape}; wanted samples by "
                "inputs"
            )
        width = rows.shape[1:] if width is None else width
        if rows.shape[1:] != width:
            raise ConfigError(
                f"{path}: client {client}: found samples of shape {rows.shape[1:]}; expected "
                f"{width} as the first client has"
            )
        samples_by_client[client] = rows
    return samples_by_client


def read_held_out(path: Path, classes: int) -> tuple[Samples, NDArray[np.int64]] | None:
    """Return samples that nobody trained on and their classes, or None where there are none."""
    if not path.is_file():
        return None
    try:
        held = read_npz(path)
        samples = _as_kind(path, "samples", held["samples"], np.float32)
        labels = _as_kind(path, "labels", held["labels"], np.int64)
    except (DataError, KeyError) as error:
        raise ConfigError(f"{path}: found no arrays `samples` and `labels` ({error})") from error
    if labels.ndim != 1 or samples.ndim < 2 or len(samples) != len(labels) or not labels.size:
        raise ConfigError(
            f"{path}: found samples of shape {samples.shape} and labels of shape {labels.shape}; "
            "expected a label per sample"
        )
    if labels.min() < 0 or labels.max() >= classes:
        raise ConfigError(f"{path}: labels: expected classes from 0 to {classes - 1}")
    return samples, labels


def recipe_of(exchange: Exchange) -> TrainingSettings | None:
    """Return how clients train, where the description says it."""
    known = exchange.training
    if known is None:
        return None
    return TrainingSettings(local_epochs=known.steps, lr=known.lr, weight_decay=known.weight_decay)
