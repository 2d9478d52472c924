"""The server's view of a job: every model that leaves it and every result that reaches it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from nvflare.apis.dxo import DataKind, from_shareable
from nvflare.apis.filter import Filter
from nvflare.apis.fl_context import FLContext
from nvflare.apis.shareable import ReturnCode, Shareable
from nvflare.app_common.app_constant import AppConstants
from nvflare.app_common.np.constants import NPConstants


class Recorder(Filter):
    """Writes arrays below `out` and changes nothing: `sent-ROUND.npy`, `CLIENT-ROUND.npy`."""

    def __init__(self, out: str) -> None:
        super().__init__()
        self.out = out

    def process(self, shareable: Shareable, fl_ctx: FLContext) -> Shareable:
        if shareable.get_return_code() == ReturnCode.OK:
            dxo = from_shareable(shareable)
            if dxo.data_kind == DataKind.WEIGHTS:
                peer = fl_ctx.get_peer_context()
                leaves = "task_data" in str(self.get_prop("__chain_type"))
                who = "sent" if leaves or peer is None else peer.get_identity_name()
                number = int(shareable.get_header(AppConstants.CURRENT_ROUND))
                folder = Path(self.out)
                folder.mkdir(parents=True, exist_ok=True)
                np.save(folder / f"{who}-{number}.npy", dxo.data[NPConstants.NUMPY_KEY])
        return shareable
