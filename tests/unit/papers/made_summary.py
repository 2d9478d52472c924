"""A finished run's summary made up for tests."""

from __future__ import annotations

from securefg.runs.summary import BothWays, ByteCount, Summary

NONE = ByteCount(payload=0, envelope=0)


def made_summary(val_accuracy: float, test_accuracy: float) -> Summary:
    return Summary(
        name="made",
        method="nfedgnn",
        dataset="csbm",
        seed=0,
        rounds=1,
        best_round=1,
        stopped="rounds",
        test_accuracy=test_accuracy,
        val_accuracy=val_accuracy,
        val_loss=None,
        train_loss=None,
        local_test_accuracy=None,
        bytes=BothWays(up=NONE, down=NONE),
        dropped=0,
        aborted_rounds=0,
        epsilon={},
        noise_protects=True,
        seconds=0.0,
        attempts=1,
        device="cpu",
        engine="inprocess",
        versions={},
        config_hash="",
        transcript_chain="",
    )
