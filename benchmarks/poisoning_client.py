"""Does a client that poisons read more of the others' members than one that only looks?

    python benchmarks/poisoning_client.py

Throw-away federations of the quickstart, 13 rounds, real clients but for client 0, whose upload is

    honest   its own training
    still    the model as it came
    ascent   the model moved up the targets' mean gradient (Nasr et al. 2019); with two classes this
             is training on wrong labels too (Tramer et al. 2022)
    reset    the model moved back to the first one, at which members pull most

It then reads the models that all clients are sent by `membership_broadcasts`, which takes its own
part off, and beside that by the loss of the last model alone. AUC over the same targets, by seed.
"""

from __future__ import annotations

import argparse
import tempfile
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from attacks.base import View
from attacks.membership_gradients import MEMBERSHIP_BROADCASTS, Around, Known, node_gradients
from attacks.models import layout_of, sent_models
from attacks.questions import OthersMembers
from audits.games import make_game
from audits.games.base import Game
from audits.metrics import area_under_curve
from audits.rehearsals.throwaway import federate_rounds, new_truth, throwaway_config
from audits.truth import Truth
from securefg.methods.fedgl.algorithm import Client
from securefg.protocol.codec import Turn
from securefg.protocol.meanings import Layout
from securefg.protocol.messages import Message
from securefg.protocol.transcript import Adversary
from securefg.runs.assembly import prepare
from securefg.settings.config import load_config

ROUNDS, CLIENT = 13, Adversary.parse("client:0")
SETTINGS = ("method.weighting=clients", "training.patience=null")
Lie = Callable[[Tensor, Tensor, Tensor], Tensor]
"""From the first model, the one that came and the direction of ascent to the one sent back."""

LIES: dict[str, Lie | None] = {
    "honest": None,
    "still": lambda first, came, up: came,
    "ascent, .1": lambda first, came, up: came + 0.6 * up,
    "ascent, .3": lambda first, came, up: came + 1.8 * up,
    "ascent, 1": lambda first, came, up: came + 6.0 * up,
    "reset": lambda first, came, up: came + 4.8 * (first - came),
}


def played(seed: int, lie: Lie | None, settings: Sequence[str]) -> tuple[float, float]:
    """AUC of the attack, and of the last model's loss."""
    config = load_config(Path("configs/quickstart.yaml"), (*SETTINGS, f"seed={seed}", *settings))
    x, honest = prepare(throwaway_config(config)), Client.handle
    with tempfile.TemporaryDirectory() as folder:
        truth = new_truth(x, Path(folder))
        game = make_game(MEMBERSHIP_BROADCASTS.question, truth, CLIENT, np.random.default_rng(0))
        try:
            if lie is not None:
                Client.handle = poisoned(honest, lie, truth, game)  # type: ignore[method-assign]
            seen = federate_rounds(x, truth.folder, ROUNDS).truth.view(CLIENT)
        finally:
            Client.handle = honest  # type: ignore[method-assign]
    guess = MEMBERSHIP_BROADCASTS.run(seen, game.question, np.random.default_rng(0))
    return game.measure(guess).value, by_loss(seen, game)


def poisoned(
    honest: Callable[[Client, Message, Turn], Message], lie: Lie, truth: Truth, game: Game
) -> Callable[[Client, Message, Turn], Message]:
    layout, first = next(iter(truth.networks.values())), []
    around, labels = looked_at(layout, game)

    def handle(client: Client, request: Message, turn: Turn) -> Message:
        reply = honest(client, request, turn)
        if turn.clients.numbers() != [0]:
            return reply
        came = request.values()["weights"]
        assert isinstance(came, Tensor)
        first.append(came)
        pulls = node_gradients(layout, came, around, labels)
        up = (pulls / pulls.norm(dim=1, keepdim=True).clamp_min(1e-12)).mean(0)
        sent = lie(first[0], came, up / up.norm())
        return type(reply)(**{**reply.values(), "weights": sent[None]})

    return handle


def looked_at(layout: Layout, game: Game) -> tuple[Around, Tensor]:
    question = game.question
    assert isinstance(question, OthersMembers)
    known = Known(torch.from_numpy(question.known), torch.from_numpy(question.edges))
    return Around.of_targets(layout, known, question.ids), torch.from_numpy(question.labels)


def by_loss(seen: View, game: Game) -> float:
    layout, sent = layout_of(seen), sent_models(seen)
    around, labels = looked_at(layout, game)
    last = sent[max(sent)].float()
    hidden = (around.mixed @ layout.part(last, layout.inputs[0])).relu()
    logits = around.weights @ hidden @ layout.part(last, layout.output)
    return area_under_curve(
        game.truth, -cross_entropy(logits, labels, reduction="none").double().numpy()
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--set", nargs="+", default=[], help="settings beside the quickstart's")
    parser.add_argument("--seeds", type=int, nargs="+", default=(0, 1, 2))
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    print("| upload of client 0 | read by `membership_broadcasts` | by the last model's loss |")
    print("|---|---|---|")
    for name, lie in LIES.items():
        both = zip(*(played(seed, lie, given.set) for seed in given.seeds), strict=True)
        shown = [f"{np.mean(own):.3f} ({', '.join(f'{x:.3f}' for x in own)})" for own in both]
        print(f"| {name} | {' | '.join(shown)} |", flush=True)


if __name__ == "__main__":
    main()
