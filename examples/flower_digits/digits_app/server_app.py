"""The server: as in Flower's quickstart, with one wrapper of securefg around the Grid."""

from __future__ import annotations

import json
import os
from pathlib import Path

from flwr.app import ArrayRecord, Context, MetricRecord
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg

from digits_app.task import Net, first_model, load_test
from digits_app.task import test as test_net
from securefg.flower import Recorded
from securefg.protocol.exchange import Claim

app = ServerApp()


def score(number: int, arrays: ArrayRecord) -> MetricRecord:
    """Accuracy on data that no site holds."""
    net = Net()
    net.load_state_dict(arrays.to_torch_state_dict())
    loss, accuracy = test_net(net, *load_test())
    return MetricRecord({"loss": loss, "accuracy": accuracy})


@app.main()
def main(grid: Grid, context: Context) -> None:
    out = Path(os.environ["DIGITS_OUT"])
    asked = json.loads(os.environ.get("DIGITS_RECORD", "{}"))
    claim = Claim(**asked["claim"]) if "claim" in asked else None
    rounds = int(os.environ.get("DIGITS_ROUNDS", context.run_config.get("num-server-rounds", 5)))
    sites = int(os.environ.get("DIGITS_SITES", 2))
    strategy = FedAvg(fraction_evaluate=0.5, min_train_nodes=sites, min_available_nodes=sites)
    with Recorded(
        grid, out / "exchange", classes=10, claim=claim, control=asked.get("control")
    ) as recorded:
        result = strategy.start(
            grid=recorded,
            initial_arrays=ArrayRecord(first_model()),
            num_rounds=rounds,
            evaluate_fn=score,
        )
    scores = {k: dict(v) for k, v in result.evaluate_metrics_serverapp.items()}
    (out / "scores.json").write_text(json.dumps(scores))
