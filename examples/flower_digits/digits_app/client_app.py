"""The client: as in Flower's quickstart, with one mod of securefg."""

from __future__ import annotations

import os

import torch
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from digits_app.task import Net, load_site
from digits_app.task import test as test_net
from digits_app.task import train as train_net
from securefg.flower import SiteGate, SiteNote

# An app of your own has one line here: app = ClientApp(mods=[SiteGate()])
app = ClientApp(mods=[SiteNote() if os.environ.get("DIGITS_OPEN") else SiteGate()])


def received_net(message: Message) -> Net:
    net = Net()
    net.load_state_dict(message.content["arrays"].to_torch_state_dict())
    return net


@app.train()
def train(message: Message, context: Context) -> Message:
    torch.set_num_threads(1)
    net, settings = received_net(message), context.run_config
    x, y = load_site(int(context.node_config["partition-id"]))
    loss = train_net(
        net,
        x,
        y,
        int(settings.get("local-epochs", 1)),
        float(settings.get("learning-rate", 0.05)),
        int(settings.get("batch-size", 16)),
    )
    metrics = MetricRecord({"train_loss": loss, "num-examples": len(y)})
    content = RecordDict({"arrays": ArrayRecord(net.state_dict()), "metrics": metrics})
    return Message(content=content, reply_to=message)


@app.evaluate()
def evaluate(message: Message, context: Context) -> Message:
    x, y = load_site(int(context.node_config["partition-id"]))
    loss, accuracy = test_net(received_net(message), x, y)
    metrics = MetricRecord({"eval_loss": loss, "eval_acc": accuracy, "num-examples": len(y)})
    return Message(content=RecordDict({"metrics": metrics}), reply_to=message)
