"""`python -m securefg` is `securefg`."""

from __future__ import annotations

from securefg.cli.main import main

main()
