"""Record the exchange of any training loop, so that `securefg audit` can read it.

    with securefg.record("exchange", optimizer="sgd", classes=10) as recording:
        for number in range(1, rounds + 1):
            recording.send(number, weights, clients=range(4))
            for client in range(4):
                recording.upload(client, number, train(client, weights))

Arrays are numpy arrays, CPU tensors, or a mapping or list of them. Nothing here imports torch. The
recording holds what the server saw. Samples (`truth`) are for scoring attacks and stay in the
folder `private`, which only its owner can read.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import ValidationError

from securefg.foundation.errors import ConfigError
from securefg.foundation.settings import explain_fault
from securefg.protocol.exchange import (
    MOST_CLIENTS,
    Claim,
    Exchange,
    ExchangeWriter,
    FirstLayer,
    Layer,
    LocalTraining,
    OutputLayer,
    Place,
    Upload,
)

Arrays = Mapping[str, Any] | Sequence[Any]
Number = int | float | Sequence[float]
MODEL, UPDATE, REPLY, FIELD = "recorded.Model", "recorded.Update", "recorded.Reply", "weights"
BUFFER, METRIC = "buffer", "metric"


class Flat(NamedTuple):
    """A model's arrays: floating-point numbers in one row, and all other arrays by name."""

    row: NDArray[Any]
    buffers: dict[str, NDArray[Any]]


@dataclass(frozen=True)
class Description:
    """What a recording says of the model and its training, beside the arrays.

    holds         whether clients upload trained weights, or the change of the weights
    first_layer   the matrix that reads samples: a name, or None to look for one
    output_layer  the matrix whose outputs are classes, likewise; needs `classes`
    claim         the noise that clients claim to add to their uploads
    repeats       clients that upload the same value every round, before its noise
    control       the folder of the same exchange without its defences
    """

    name: str = "recorded"
    holds: Literal["weights", "change"] = "weights"
    first_layer: str | None = None
    output_layer: str | None = None
    classes: int | None = None
    training: LocalTraining | None = None
    claim: Claim | None = None
    repeats: tuple[int, ...] = ()
    control: Path | None = None

    def describe(self, layers: tuple[Layer, ...], clients: int, has_sent: bool) -> Exchange:
        """Return foreign.yaml's content. Raise `ConfigError` where it does not fit the layers."""
        first = find_first_layer(layers, self.first_layer)
        output = find_output_layer(layers, self.output_layer, self.classes)
        try:
            return Exchange(
                name=self.name,
                clients=clients,
                upload=Upload(kind=UPDATE, field=FIELD, holds=self.holds),
                sent=Place(kind=MODEL, field=FIELD) if has_sent else None,
                layers=layers,
                first_layer=first,
                output_layer=output,
                classes=self.classes,
                training=self.training,
                claim=self.claim,
                repeats=self.repeats,
                control=self.control,
            )
        except ValidationError as error:
            raise ConfigError(f"record: {explain_fault(error)}") from error


class Recording:
    """An exchange that is being recorded; `securefg.record` opens it.

    A wrong call raises before anything of it is written: two uploads of one client or two
    different sent models in a round, and arrays of other names or shapes than the first ones.
    """

    def __init__(self, folder: str | Path, description: Description) -> None:
        self._description = description
        placeholder = Exchange(
            name=description.name,
            clients=1,
            upload=Upload(kind=UPDATE, field=FIELD),
            layers=(Layer(name="none", shape=()),),
        )
        self._writer = ExchangeWriter(Path(folder), placeholder)
        self._shapes: dict[str, tuple[int, ...]] = {}
        self._layers: tuple[Layer, ...] = ()
        self._sent: dict[int, bytes] = {}
        self._uploaded: set[tuple[int, int]] = set()
        self._clients: set[int] = set()
        self._is_closed = False

    def send(self, round: int, arrays: Arrays, clients: Iterable[int]) -> None:
        """Record the model that the server sent to these clients at the start of a round."""
        to = [_check_number("client", client) for client in clients]
        if not to:
            raise ConfigError("send: found no clients; expected the numbers of the receivers")
        flat = self._flatten_arrays(arrays)
        digest = hashlib.sha256(flat.row.data).digest()
        if self._sent.setdefault(_check_number("round", round), digest) != digest:
            raise ConfigError(
                f"round {round}: found a second, different sent model; expected one per round: "
                "count rounds up, or record clients with models of their own apart"
            )
        fields = {FIELD: flat.row, **_prefix_names(BUFFER, flat.buffers)}
        self._writer.sent(round, MODEL, fields, to)
        self._clients |= set(to)

    def upload(
        self,
        client: int,
        round: int,
        arrays: Arrays,
        metrics: Mapping[str, Number] | None = None,
        rule: str = "",
    ) -> None:
        """Record what a client uploaded in a round.

        metrics  numbers that left beside the model: the audit lists them as unread
        rule     the name of its noise, or `masked` where only sums can be read; empty where
                 nothing protects the upload
        """
        place = (_check_number("round", round), _check_number("client", client))
        if place in self._uploaded:
            raise ConfigError(
                f"round {round}: found a second upload of client {client}; expected one per round: "
                "count rounds up"
            )
        flat = self._flatten_arrays(arrays)
        beside = {name: _check_metric(name, value) for name, value in (metrics or {}).items()}
        fields = {
            FIELD: flat.row,
            **_prefix_names(BUFFER, flat.buffers),
            **_prefix_names(METRIC, beside),
        }
        self._writer.received(round, UPDATE, fields, client, {FIELD: rule} if rule else {})
        self._uploaded.add(place)
        self._clients.add(client)

    def reply(self, client: int, round: int, metrics: Mapping[str, Number]) -> None:
        """Record another reply of a client, such as an evaluation: the audit lists it as unread."""
        _check_number("round", round)
        _check_number("client", client)
        told = {name: _check_metric(name, value) for name, value in metrics.items()}
        if told:
            self._writer.received(round, REPLY, _prefix_names(METRIC, told), client)
            self._clients.add(client)

    def truth(
        self,
        samples: Mapping[int, NDArray[Any]],
        labels: Mapping[int, NDArray[Any]] | None = None,
        held_out: tuple[NDArray[Any], NDArray[Any]] | None = None,
    ) -> None:
        """Keep the samples, and labels, of clients that the audit may score attacks against.

        held_out  samples that nobody trained on and their labels, for questions of membership
        """
        kept = {client: _as_rows(np.asarray(rows)) for client, rows in samples.items()}
        self._writer.truth(kept, labels or {}, held_out)

    def close(self) -> None:
        """Write the description; without an upload there is nothing to describe."""
        if self._is_closed:
            return
        self._is_closed = True
        if self._uploaded:
            clients = 1 + max(self._clients)
            self._writer.exchange = self._description.describe(
                self._layers, clients, bool(self._sent)
            )
            self._writer.close()
        else:
            self._writer.abandon()

    def __enter__(self) -> Recording:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _flatten_arrays(self, arrays: Arrays) -> Flat:
        if self._is_closed:
            raise ConfigError("record: found a closed recording; expected calls inside `with`")
        named = _name_arrays(arrays)
        shapes = {name: array.shape for name, array in named.items()}
        if not self._shapes:
            floats = {name: array for name, array in named.items() if array.dtype.kind == "f"}
            layers = tuple(Layer(name=name, shape=a.shape) for name, a in floats.items())
            if not layers:
                raise ConfigError("record: found no floating-point array; expected a model")
            # A description that does not fit must not wait until the training is over.
            self._description.describe(layers, 1, has_sent=True)
            self._layers, self._shapes = layers, shapes
        if list(shapes.items()) != list(self._shapes.items()):
            raise ConfigError(
                f"record: found arrays {_shown_shapes(shapes)}; expected those of the first call, "
                f"{_shown_shapes(self._shapes)}"
            )
        # Servers average whole numbers into fractions: a counter stays what it was at first.
        floats = {layer.name: named[layer.name] for layer in self._layers}
        wide = {array.dtype for array in floats.values()} <= {np.dtype("f2"), np.dtype("f4")}
        kind = np.float32 if wide else np.float64
        row = np.empty(sum(array.size for array in floats.values()), kind)
        parts = [array.reshape(-1) for array in floats.values()]
        np.concatenate(parts, out=row, casting="same_kind")
        return Flat(row, {name: a for name, a in named.items() if name not in floats})


def record(
    folder: str | Path,
    *,
    name: str = "recorded",
    holds: Literal["weights", "change"] = "weights",
    first_layer: str | None = None,
    output_layer: str | None = None,
    classes: int | None = None,
    optimizer: Literal["sgd", "adam"] | None = None,
    lr: float = 0.01,
    weight_decay: float = 0.0,
    steps: int = 1,
    claim: Claim | None = None,
    repeats: Iterable[int] = (),
    control: str | Path | None = None,
) -> Recording:
    """Open a recording in a new folder; use it as a context manager.

    holds      `weights` after training, which needs `send` before them, or their `change`
    optimizer, lr, weight_decay, steps   one client's training in one round, where it is known
    All other arguments are those of `Description`.
    """
    try:
        known = {"optimizer": optimizer, "lr": lr, "weight_decay": weight_decay, "steps": steps}
        training = None if optimizer is None else LocalTraining.model_validate(known)
    except ValidationError as error:
        raise ConfigError(f"record: {explain_fault(error)}") from error
    described = Description(
        name=name,
        holds=holds,
        first_layer=first_layer,
        output_layer=output_layer,
        classes=classes,
        training=training,
        claim=claim,
        repeats=tuple(repeats),
        control=None if control is None else Path(control),
    )
    return Recording(folder, described)


def find_first_layer(layers: tuple[Layer, ...], name: str | None) -> FirstLayer | None:
    """Return the named layer, or the first weights if they are a matrix with a bias after it.

    A first convolution, an embedding or a matrix without bias is not taken for a layer that reads
    samples: an attack that misread it would find nothing, and call that safe.
    """
    if name is not None:
        return FirstLayer(weight=name, bias=_bias_after(layers, name))
    weights = [layer.name for layer in layers if len(layer.shape) > 1]
    if not weights or len(_layer_shape(layers, weights[0])) != 2:
        return None
    bias = _bias_after(layers, weights[0])
    return None if bias is None else FirstLayer(weight=weights[0], bias=bias)


def find_output_layer(
    layers: tuple[Layer, ...], name: str | None, classes: int | None
) -> OutputLayer | None:
    """Return the named layer, or the last matrix with an output per class."""
    if name is not None:
        return OutputLayer(weight=name, bias=_bias_after(layers, name))
    fitting = [x.name for x in layers if len(x.shape) == 2 and x.shape[0] == classes]
    if not fitting:
        return None
    return OutputLayer(weight=fitting[-1], bias=_bias_after(layers, fitting[-1]))


def _layer_shape(layers: tuple[Layer, ...], name: str) -> tuple[int, ...]:
    return next((layer.shape for layer in layers if layer.name == name), ())


def _bias_after(layers: tuple[Layer, ...], name: str) -> str | None:
    names = [layer.name for layer in layers]
    if name not in names:
        return None
    after = layers[names.index(name) + 1 :][:1]
    rows = _layer_shape(layers, name)[:1]
    return after[0].name if after and after[0].shape == rows else None


def _name_arrays(arrays: Arrays) -> dict[str, NDArray[Any]]:
    if isinstance(arrays, Mapping):
        return {str(name): _to_numpy(str(name), value) for name, value in arrays.items()}
    if isinstance(arrays, np.ndarray):
        return {"0": _to_numpy("0", arrays)}
    return {str(place): _to_numpy(str(place), value) for place, value in enumerate(arrays)}


def _to_numpy(name: str, value: Any) -> NDArray[Any]:
    detach = getattr(value, "detach", None)
    array = np.asarray(detach().cpu().numpy() if detach is not None else value)
    if array.dtype.kind not in "fiub":
        raise ConfigError(f"{name}: found an array of {array.dtype}; expected numbers")
    if array.dtype.kind == "f" and array.dtype.itemsize > 8:
        raise ConfigError(f"{name}: found an array of {array.dtype}; expected at most float64")
    return array


def _check_metric(name: str, value: Number) -> NDArray[np.float64]:
    found = np.asarray(value)
    if found.dtype.kind not in "fiub":
        raise ConfigError(f"metric {name}: found {str(value)[:60]!r}; expected numbers")
    return found.astype(np.float64).reshape(-1)


def _check_number(what: str, value: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise ConfigError(f"{what}: found {value!r:.60}; expected a whole number")
    if not 0 <= value < MOST_CLIENTS:
        raise ConfigError(f"{what}: found {value}; expected 0 to {MOST_CLIENTS - 1}")
    return int(value)


def _as_rows(samples: NDArray[Any]) -> NDArray[Any]:
    """Return samples in their own shape, and a list of numbers as samples of one number."""
    return samples if samples.ndim > 1 else samples.reshape(len(samples), -1)


def _prefix_names(prefix: str, arrays: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    return {f"{prefix}.{name}": array for name, array in arrays.items()}


def _shown_shapes(shapes: Mapping[str, tuple[int, ...]]) -> str:
    return f"{ {name: list(shape) for name, shape in shapes.items()} }"[:200]
