"""What all tests share: hypothesis without deadlines, one thread for torch."""

from __future__ import annotations

import torch
from hypothesis import settings

settings.register_profile("securefg", deadline=None)
settings.load_profile("securefg")
torch.set_num_threads(1)
