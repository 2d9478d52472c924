"""`python -m securefg` is `securefg`."""

from __future__ import annotations

from securefg.cli import main

main()
