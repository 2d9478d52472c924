"""The server's view of a PyTorch job: every model that leaves it and every result that arrives."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from nvflare.apis.dxo import DataKind, from_shareable
from nvflare.apis.filter import Filter
from nvflare.apis.fl_context import FLContext
from nvflare.apis.shareable import ReturnCode, Shareable
from nvflare.app_common.app_constant import AppConstants


class Seen(Filter):
    """Writes arrays below `out` and changes nothing: `sent-ROUND.npz`, `SITE-ROUND.npz`."""

    def __init__(self, out: str) -> None:
        super().__init__()
        self.out = out

    def process(self, shareable: Shareable, fl_ctx: FLContext) -> Shareable:
        if shareable.get_return_code() != ReturnCode.OK:
            return shareable
        dxo = from_shareable(shareable)
        if dxo.data_kind == DataKind.WEIGHTS:
            peer = fl_ctx.get_peer_context()
            is_sent = "task_data" in str(self.get_prop("__chain_type")) or peer is None
            name = "sent" if is_sent else peer.get_identity_name()
            number = int(shareable.get_header(AppConstants.CURRENT_ROUND))
            folder = Path(self.out)
            folder.mkdir(parents=True, exist_ok=True)
            arrays = {key: np.asarray(value) for key, value in dxo.data.items()}
            np.savez(folder / f"{name}-{number}.npz", **arrays)
        return shareable
