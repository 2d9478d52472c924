"""Exchanges of other frameworks: how one is described and written down so that it can be audited.

    FOLDER/foreign.yaml       what the exchange is, and what it claims of its noise (`Exchange`)
    FOLDER/transcript/        every message (docs/transcript_format.md)
    FOLDER/private/truth.npz  optional, for the games alone: clients' samples, an array per client
                              under its number, (samples, inputs)

`ExchangeWriter` writes all three from numpy arrays.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
import yaml
from numpy.typing import NDArray
from pydantic import Field, ValidationError, model_validator

from securefg.foundation.complaints import explain_errors
from securefg.foundation.errors import ConfigError
from securefg.foundation.files import write_atomically
from securefg.foundation.settings import Settings
from securefg.foundation.suggestions import name_kind
from securefg.foundation.units import plural
from securefg.foundation.yaml_text import read_yaml
from securefg.protocol import codec
from securefg.protocol.codec import Clients, Envelope, Size
from securefg.protocol.meanings import Layer as NetworkLayer
from securefg.protocol.meanings import Layout, Matrix
from securefg.protocol.transcript import Record, TranscriptWriter

DESCRIPTION = "foreign.yaml"
Arrays = Mapping[str, NDArray[Any]]


class Place(Settings):
    """An array within a kind of message."""

    kind: str
    field: str


class Upload(Place):
    """What clients upload: a flat row per client, laid out as `layers` say."""

    holds: Literal["change", "weights"] = "change"
    """A gradient or difference, of either sign; or the weights after training (needs `sent`)."""


class Layer(Settings):
    """A part of the flat row, in the order of the list."""

    name: str
    shape: tuple[int, ...] = Field(min_length=1)

    @property
    def size(self) -> int:
        """The number of weights in the layer."""
        return prod(self.shape)


class FirstLayer(Settings):
    """The layer that reads a sample: W x + b."""

    weight: str
    bias: str | None = None
    order: Literal["outputs_inputs", "inputs_outputs"] = "outputs_inputs"


class Claim(Settings):
    """Noise that every client is said to add to its whole upload, after clipping it."""

    epsilon: float = Field(gt=0)
    delta: float = Field(gt=0, lt=1)
    clip_l2: float = Field(gt=0)
    sigma: float = Field(gt=0)
    """Standard deviation of the noise on every number that was uploaded."""
    neighbours: Literal["replace", "remove"] = "replace"
    """Whether uploads of neighbouring clients lie up to 2 clip_l2 apart, or clip_l2."""

    @property
    def sensitivity(self) -> float:
        """The largest L2 distance between neighbours' uploads."""
        return self.clip_l2 * (2 if self.neighbours == "replace" else 1)


class Exchange(Settings):
    """foreign.yaml."""

    format: Literal[2] = 2
    name: str
    clients: int = Field(ge=1)
    upload: Upload
    sent: Place | None = None
    """The server's message with the weights that training starts from, flat, for everybody."""
    layers: tuple[Layer, ...] = Field(min_length=1)
    first_layer: FirstLayer
    claim: Claim | None = None
    repeats: tuple[int, ...] = ()
    """Clients that upload one and the same value every round, before its noise: canaries."""
    control: Path | None = None
    """The same exchange without its defences, from this folder on: the positive control."""
    chain: str | None = None
    """The transcript's last link, kept where a forger of the transcript does not reach."""

    @model_validator(mode="after")
    def _consistent(self) -> Exchange:
        shapes = {layer.name: layer.shape for layer in self.layers}
        if len(shapes) < len(self.layers):
            raise ValueError("layers: found two layers of the same name; expected distinct names")
        first = self.first_layer
        for name, dimensions in ((first.weight, 2), (first.bias, 1)):
            if name is not None and len(shapes.get(name, ())) != dimensions:
                found = f"of shape {list(shapes[name])}" if name in shapes else "unknown"
                raise ValueError(
                    f"first_layer: found {name!r} {found}; expected a layer of "
                    f"{plural(dimensions, 'dimension')} out of {', '.join(shapes)}"
                )
        if first.bias is not None and shapes[first.bias] != (self.num_outputs,):
            raise ValueError(
                f"first_layer: found a bias of {shapes[first.bias][0]} numbers; expected "
                f"{self.num_outputs}, one per output (order: {first.order})"
            )
        if self.upload.holds == "weights" and self.sent is None:
            raise ValueError(
                "sent: found nothing with upload.holds: weights; expected the weights that "
                "training started from"
            )
        return self

    @property
    def layout(self) -> Layout:
        """The flat row, as attacks read it."""
        first = self.first_layer
        matrix = Matrix(first.weight, first.order == "outputs_inputs", first.bias)
        layers = tuple(NetworkLayer(layer.name, layer.shape) for layer in self.layers)
        return Layout(layers=layers, inputs=(matrix,))

    @property
    def num_inputs(self) -> int:
        """The width of the network's input."""
        return self._weight_shape[1]

    @property
    def num_outputs(self) -> int:
        """The width of the network's output."""
        return self._weight_shape[0]

    @property
    def width(self) -> int:
        """How many numbers a client uploads."""
        return sum(layer.size for layer in self.layers)

    @property
    def slices(self) -> dict[str, slice]:
        """Where every layer lies in the flat row."""
        ends = np.cumsum([layer.size for layer in self.layers]).tolist()
        starts = [0, *ends[:-1]]
        names = [layer.name for layer in self.layers]
        return {n: slice(a, b) for n, a, b in zip(names, starts, ends, strict=True)}

    @property
    def _weight_shape(self) -> tuple[int, int]:
        shape = next(layer.shape for layer in self.layers if layer.name == self.first_layer.weight)
        outputs, inputs = shape if self.first_layer.order == "outputs_inputs" else shape[::-1]
        return outputs, inputs


def is_foreign(path: Path) -> bool:
    """Whether a folder holds another framework's exchange."""
    return (path / DESCRIPTION).is_file()


def read_exchange(path: Path) -> Exchange:
    """The folder's foreign.yaml; whatever is wrong with it is told by key, in a line or two."""
    where = path / DESCRIPTION
    tree = read_yaml(where)
    if not isinstance(tree, dict):
        raise ConfigError(f"{where}: found {name_kind(tree)}; expected keys and values")
    try:
        return Exchange.model_validate(tree)
    except ValidationError as error:
        raise ConfigError(explain_errors(error, Exchange, prefix=f"{where}: ")) from error


@dataclass
class ExchangeWriter:
    """Writes an exchange message by message; `close` writes foreign.yaml with the last link.

    path      a folder that does not exist or is empty
    exchange  its description, with `chain` left out
    """

    path: Path
    exchange: Exchange

    def __post_init__(self) -> None:
        if self.path.exists() and any(self.path.iterdir()):
            raise ConfigError(f"{self.path} is not empty; wanted a new folder for the exchange")
        self.path.mkdir(parents=True, exist_ok=True)
        self._transcript = TranscriptWriter(self.path / "transcript")
        self._seq = 0

    def sent(self, round: int, kind: str, arrays: Arrays, clients: Iterable[int]) -> None:
        """The server's message, the same to every one of `clients`."""
        to = Clients.of(list(clients))
        receivers = tuple(f"client-{number}" for number in to.numbers())
        self._append(round, "server", receivers, kind, to, arrays)

    def received(
        self, round: int, kind: str, arrays: Arrays, client: int, rules: Mapping[str, str] = {}
    ) -> None:
        """One client's upload. rules  what was done to a field: "plain" where nothing was, the
        mechanism's name, or "masked" where only a sum can be read."""
        rows = {name: np.asarray(array)[None] for name, array in arrays.items()}
        sender = f"client-{client}"
        self._append(round, sender, ("server",), kind, Clients.of([client]), rows, dict(rules))

    def opened(self, round: int, kind: str, sums: Arrays, clients: Iterable[int]) -> None:
        """What the server learnt of masked uploads `kind`: their sum over `clients`."""
        of = Clients.of(list(clients))
        self._append(round, "sum", ("server",), f"{kind}.sum", of, sums)

    def truth(self, samples: Mapping[int, NDArray[Any]]) -> None:
        """The samples that every client trained on, for the games that score attacks."""
        folder = self.path / "private"
        folder.mkdir(mode=0o700, exist_ok=True)
        arrays: dict[str, Any] = {str(client): rows for client, rows in samples.items()}
        np.savez_compressed(folder / "truth.npz", **arrays)

    def close(self) -> None:
        """Write the description, with the last link of the transcript in it."""
        self._transcript.close()
        closed = self.exchange.model_copy(update={"chain": self._transcript.chain})
        tree = closed.model_dump(mode="json", exclude_none=True)
        write_atomically(self.path / DESCRIPTION, yaml.safe_dump(tree, sort_keys=False))

    def _append(
        self,
        round: int,
        sender: str,
        receivers: tuple[str, ...],
        kind: str,
        clients: Clients,
        arrays: Arrays,
        rules: dict[str, str] | None = None,
    ) -> None:
        self._seq += 1
        tensors = {name: torch.from_numpy(np.array(array)) for name, array in arrays.items()}
        body = codec.encode_fields(tensors)
        sizes = Size()
        for receiver in receivers if sender != "sum" else ():
            envelope = Envelope(self._seq, round, 1, sender, receiver, kind, clients, body)
            sizes += codec.size_of(codec.frame(envelope))
        self._transcript.append(
            Record(
                seq=self._seq,
                round=round,
                step=1,
                attempt=1,
                seconds=time.time(),
                sender=sender,
                receivers=receivers,
                kind=kind,
                clients=str(clients),
                payload=sizes.payload,
                envelope=sizes.envelope,
                rules=rules or {},
                body=body,
            )
        )
