"""Exchanges of other frameworks: how one is described and written down so that it can be audited.

    FOLDER/foreign.yaml       what the exchange is, and what it claims of its noise (`Exchange`)
    FOLDER/transcript/        every message (docs/reference/transcript_format.md)
    FOLDER/private/truth.npz  optional, for the games alone: clients' samples, an array per client
                              under its number, (samples, ...) as the network reads them
    FOLDER/private/labels.npz optional, likewise: the class of every sample
    FOLDER/private/held_out.npz  optional: `samples` that nobody trained on, and their `labels`

`ExchangeWriter` writes all of them from numpy arrays, and imports no torch.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import numpy as np
import safetensors.numpy
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
from securefg.protocol.envelopes import LENGTH, Clients, Envelope, frame_head
from securefg.protocol.transcript import Record, TranscriptWriter

if TYPE_CHECKING:
    from securefg.protocol.meanings import Layout, Matrix

DESCRIPTION = "foreign.yaml"
MOST_CLIENTS: Final = 10_000_000
MOST_CLASSES: Final = 1_000_000
Arrays = Mapping[str, NDArray[Any]]


class Place(Settings):
    """An array within a kind of message."""

    kind: str
    field: str


class Upload(Place):
    """A description of what clients upload: a flat row per client, laid out as `layers` say."""

    holds: Literal["change", "weights"] = "change"
    """A gradient or difference, of either sign; or the weights after training (needs `sent`)."""


class Layer(Settings):
    """A part of the flat row, in the order of the list."""

    name: str
    shape: tuple[Annotated[int, Field(ge=0)], ...]
    """Empty for a single number, such as a scale or a temperature."""

    @property
    def size(self) -> int:
        """Return the number of weights in the layer."""
        return prod(self.shape)


class FirstLayer(Settings):
    """The layer that reads a sample: W x + b."""

    weight: str
    bias: str | None = None
    order: Literal["outputs_inputs", "inputs_outputs"] = "outputs_inputs"

    @property
    def matrix(self) -> Matrix:
        """Return the layer, as attacks read it."""
        from securefg.protocol.meanings import Matrix  # who only writes needs no tensors

        return Matrix(self.weight, self.order == "outputs_inputs", self.bias)


class OutputLayer(FirstLayer):
    """The layer whose outputs are classes."""


class LocalTraining(Settings):
    """How a client trains in one round, as far as attacks take it into account."""

    optimizer: Literal["sgd", "adam"]
    lr: float = Field(0.01, gt=0)
    weight_decay: float = Field(0.0, ge=0)
    steps: int = Field(1, ge=1)


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
        """Return the largest L2 distance between neighbours' uploads."""
        return self.clip_l2 * (2 if self.neighbours == "replace" else 1)


class Exchange(Settings):
    """foreign.yaml."""

    format: Literal[2] = 2
    name: str
    clients: int = Field(ge=1, le=MOST_CLIENTS)
    upload: Upload
    sent: Place | None = None
    """The server's message with the weights that training starts from, flat, for everybody."""
    layers: tuple[Layer, ...] = Field(min_length=1)
    first_layer: FirstLayer | None = None
    """None where no matrix reads a sample as it is: convolutions, embeddings, graphs."""
    output_layer: OutputLayer | None = None
    classes: int | None = Field(None, ge=2, le=MOST_CLASSES)
    training: LocalTraining | None = None
    claim: Claim | None = None
    repeats: tuple[int, ...] = ()
    """Clients that upload one and the same value every round, before its noise: canaries."""
    control: Path | None = None
    """The same exchange without its defences, from this folder on: the positive control."""
    chain: str | None = None
    """The transcript's last link, kept where a forger of the transcript does not reach."""

    @model_validator(mode="after")
    def _check_consistency(self) -> Exchange:
        shapes = {layer.name: layer.shape for layer in self.layers}
        if len(shapes) < len(self.layers):
            raise ValueError("layers: found two layers of the same name; expected distinct names")
        for key, layer in (("first_layer", self.first_layer), ("output_layer", self.output_layer)):
            if layer is not None:
                _check_matrix(key, layer, shapes)
        if (
            self.output_layer is not None
            and self.classes != self._matrix_sizes(self.output_layer)[0]
        ):
            raise ValueError(
                f"classes: found {self.classes}; expected "
                f"{self._matrix_sizes(self.output_layer)[0]}, the outputs of output_layer"
            )
        if self.upload.holds == "weights" and self.sent is None:
            raise ValueError(
                "sent: found nothing with upload.holds: weights; expected the weights that "
                "training started from"
            )
        return self

    @property
    def layout(self) -> Layout:
        """Return the flat row, as attacks read it."""
        from securefg.protocol.meanings import Layer as NetworkLayer
        from securefg.protocol.meanings import Layout

        return Layout(
            layers=tuple(NetworkLayer(layer.name, layer.shape) for layer in self.layers),
            inputs=() if self.first_layer is None else (self.first_layer.matrix,),
            output=None if self.output_layer is None else self.output_layer.matrix,
            optimizer=None if self.training is None else self.training.optimizer,
        )

    @property
    def num_inputs(self) -> int | None:
        """Return the width of the input, or None if no first layer is declared."""
        return None if self.first_layer is None else self._matrix_sizes(self.first_layer)[1]

    @property
    def width(self) -> int:
        """Return how many numbers a client uploads."""
        return sum(layer.size for layer in self.layers)

    @property
    def slices(self) -> dict[str, slice]:
        """Return the place of every layer in the flat row."""
        ends = np.cumsum([layer.size for layer in self.layers]).tolist()
        starts = [0, *ends[:-1]]
        names = [layer.name for layer in self.layers]
        return {n: slice(a, b) for n, a, b in zip(names, starts, ends, strict=True)}

    def _matrix_sizes(self, layer: FirstLayer) -> tuple[int, int]:
        return matrix_sizes(layer, {one.name: one.shape for one in self.layers})


def matrix_sizes(layer: FirstLayer, shapes: Mapping[str, tuple[int, ...]]) -> tuple[int, int]:
    """Return the numbers of outputs and of inputs of a layer that is a matrix."""
    one, other = shapes[layer.weight]
    return (one, other) if layer.order == "outputs_inputs" else (other, one)


def _check_matrix(key: str, layer: FirstLayer, shapes: Mapping[str, tuple[int, ...]]) -> None:
    for name, dimensions in ((layer.weight, 2), (layer.bias, 1)):
        if name is not None and len(shapes.get(name, ())) != dimensions:
            found = f"of shape {list(shapes[name])}" if name in shapes else "unknown"
            raise ValueError(
                f"{key}: found {name!r} {found}; expected a layer of "
                f"{plural(dimensions, 'dimension')} out of {', '.join(shapes)}"
            )
    outputs, _ = matrix_sizes(layer, shapes)
    if layer.bias is not None and shapes[layer.bias] != (outputs,):
        raise ValueError(
            f"{key}: found a bias of {shapes[layer.bias][0]} numbers; expected "
            f"{outputs}, one per output (order: {layer.order})"
        )


def is_foreign(path: Path) -> bool:
    """Return whether a folder holds another framework's exchange."""
    return (path / DESCRIPTION).is_file()


def read_exchange(path: Path) -> Exchange:
    """Return the folder's foreign.yaml. Raise an error that names every fault by key, in a line or
    two."""
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
    """A writer of an exchange, message by message. `close` writes foreign.yaml with the last link.

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
        """Record the server's message, the same to every one of `clients`."""
        to = Clients.of(list(clients))
        receivers = tuple(f"client-{number}" for number in to.numbers())
        self._append_record(round, "server", receivers, kind, to, arrays)

    def received(
        self, round: int, kind: str, arrays: Arrays, client: int, rules: Mapping[str, str] = {}
    ) -> None:
        """One client's upload. rules  what was done to a field: "plain" where nothing was, the
        mechanism's name, or "masked" where only a sum can be read."""
        rows = {name: np.asarray(array)[None] for name, array in arrays.items()}
        sender = f"client-{client}"
        self._append_record(
            round, sender, ("server",), kind, Clients.of([client]), rows, dict(rules)
        )

    def opened(self, round: int, kind: str, sums: Arrays, clients: Iterable[int]) -> None:
        """Record the sum over `clients` that the server learnt of masked uploads `kind`."""
        of = Clients.of(list(clients))
        self._append_record(round, "sum", ("server",), f"{kind}.sum", of, sums)

    def truth(
        self,
        samples: Mapping[int, NDArray[Any]],
        labels: Mapping[int, NDArray[Any]] = {},
        held_out: tuple[NDArray[Any], NDArray[Any]] | None = None,
    ) -> None:
        """Store the samples that every client trained on, and their classes, for the games that
        score attacks.

        held_out  samples that nobody trained on, and their classes
        """
        folder = self.path / "private"
        folder.mkdir(mode=0o700, exist_ok=True)
        for name, held in (("truth.npz", samples), ("labels.npz", labels)):
            arrays: dict[str, Any] = {str(client): rows for client, rows in held.items()}
            if arrays:
                np.savez_compressed(folder / name, **arrays)
        if held_out is not None:
            samples_held, labels_held = held_out
            where = folder / "held_out.npz"
            np.savez_compressed(where, samples=samples_held, labels=labels_held)

    def close(self) -> None:
        """Write the description, with the last link of the transcript in it."""
        self._transcript.close()
        closed = self.exchange.model_copy(update={"chain": self._transcript.chain})
        tree = closed.model_dump(mode="json", exclude_none=True)
        write_atomically(self.path / DESCRIPTION, yaml.safe_dump(tree, sort_keys=False))

    def abandon(self) -> None:
        """Close the transcript without a description, so that no audit takes it for whole."""
        self._transcript.close()

    def _append_record(
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
        parts = body_parts(arrays)
        payload = sum(np.asarray(array).nbytes for array in arrays.values())
        crossed = receivers if sender != "sum" else ()
        heads = [
            Envelope(self._seq, round, 1, sender, receiver, kind, clients, b"")
            for receiver in crossed
        ]
        around = sum(len(part) for part in parts) - payload
        envelope = sum(around + sum(map(len, frame_head(head))) for head in heads)
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
                payload=payload * len(crossed),
                envelope=envelope,
                rules=rules or {},
                body=b"".join(parts),
            )
        )


def body_parts(arrays: Arrays) -> list[bytes]:
    """Return the parts of a message's body, as `securefg.protocol.codec` writes it."""
    stored = {name: np.asarray(array, order="C") for name, array in arrays.items()}
    return [LENGTH.pack(2), b"{}", safetensors.numpy.save(stored)]
